"""The examples in docs/guides/flux.md work."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from kstorm.errors import KstormError
from kstorm.flux import load_file
from kstorm.flux.schema import schema
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guides" / "flux.md").read_text()
BLOCKS = re.findall(r"(?ms)^```\w+\n(.*?)^```$", PAGE)
HELLO = next(block for block in BLOCKS if block.startswith("name: hello"))
README = (ROOT / "README.md").read_text()
CODE = README[README.index("from kstorm import ") : README.index("text = SchemeAsMultiScheme(")]


@pytest.fixture
def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the page's topology next to the README's classes."""
    (tmp_path / "hello.py").write_text(CODE)
    (tmp_path / "topology.yaml").write_text(HELLO)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(
        sys.modules, "hello", raising=False
    )  # other tests have a module with this name
    return tmp_path / "topology.yaml"


def test_the_first_example(hello: Path, local_cluster: Callable[..., LocalCluster]) -> None:
    """It counts, and the schema accepts it."""
    assert jsonschema.Draft202012Validator(schema()).is_valid(yaml.safe_load(HELLO))
    kafka = FakeKafka({"lines": 1, "words": 1})
    kafka.produce("lines", "a b a")
    local_cluster(load_file(hello), kafka=kafka).run_until_idle()
    found = sorted((record.key(), record.value()) for record in kafka.records("words"))
    assert found == [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")]


def test_an_include_of_the_page() -> None:
    """The schema accepts it."""
    (block,) = [block for block in BLOCKS if block.startswith("includes:")]
    assert jsonschema.Draft202012Validator(schema()).is_valid(yaml.safe_load(block))


def test_a_topology_source_of_the_page(tmp_path: Path) -> None:
    """The word count's own function takes name, config and arguments."""
    (block,) = [block for block in BLOCKS if "topology_source:" in block]
    (tmp_path / "t.yaml").write_text(block)
    topology = load_file(tmp_path / "t.yaml")
    assert (topology.name, topology.config.topology_max_spout_pending) == ("berlin", 500)
    assert topology.component("sentences").component.spout_config.topic == "lines"  # type: ignore[attr-defined]


def test_values_from_outside(hello: Path) -> None:
    """They are the page's properties."""
    (block,) = [block for block in BLOCKS if block.startswith("# berlin.properties")]
    properties = hello.parent / "berlin.properties"
    properties.write_text(block.split("\n\n")[0])
    hello.write_text(HELLO.replace("parallelism: 2", "parallelism: ${split.workers}", 1))
    assert load_file(hello, properties=properties).component("split").parallelism == 4


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("class: hello:Split", "className: hello.Split"), ("args: [word]}", "args: [wort]}")],
)
def test_mistakes_are_reported_as_on_the_page(hello: Path, right: str, wrong: str) -> None:
    """The message has the column."""
    hello.write_text(HELLO.replace(right, wrong))
    with pytest.raises(KstormError) as caught:
        load_file(Path("topology.yaml"))
    assert f"\nkstorm: {caught.value}\n" in PAGE
