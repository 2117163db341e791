"""`kstorm values` of a topology in YAML, and other commands that accept its path like code."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kstorm.cli.__main__ import main
from kstorm.cli.place_options import TopologyOptions, code_of
from kstorm.errors import ConfigError
from kstorm.runtime.base.settings import Settings, load_topology

CODE = """
from kstorm.topology import BasicBolt, Spout, StatefulBasicBolt

class Lines(Spout):
    def declare_output_fields(self, declarer):
        declarer.declare("line")

class Keep(StatefulBasicBolt):
    pass
"""
WIRED = """
name: wired
includes: [{file: sites/here.yaml}]
spouts:
  - id: lines
    class: wired_code:Lines
bolts:
  - id: keep
    class: wired_code:Keep
    parallelism: ${keep.workers}
    tasks: 6
streams:
  - {from: lines, to: keep, grouping: {type: SHUFFLE}}
"""
HERE = (
    "config: {topology_acker_executors: 2}\ncomponents: [{id: time, class: 'datetime:timedelta'}]\n"
)
PROPERTIES = "keep.workers: 2\n"

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provide the current folder with a topology."""
    (tmp_path / "sites").mkdir()
    (tmp_path / "wired_code.py").write_text(CODE)
    (tmp_path / "t.yaml").write_text(WIRED)
    (tmp_path / "sites" / "here.yaml").write_text(HERE)
    (tmp_path / "here.properties").write_text(PROPERTIES)
    monkeypatch.delitem(sys.modules, "wired_code", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KSTORM_TOPOLOGY_FILTER", raising=False)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Provide a function that runs a command and returns exit code, output and errors."""

    def command(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return ended.value.code, *capsys.readouterr()

    return command


def test_values_have_the_files(run: Run) -> None:
    """The values are those of code, plus the files that wire the topology."""
    code, shown, _ = run("values", "t.yaml", "--filter", "here.properties")
    assert code == 0
    assert yaml.safe_load(shown) == {
        "topology": "t.yaml",
        "topologyName": "wired",
        "components": {
            "lines": {"kind": "spout", "tasks": 1, "replicas": 1},
            "keep": {"kind": "bolt", "tasks": 6, "stateful": True, "replicas": 2},
        },
        "ackers": {"tasks": 4, "replicas": 2},
        "topologyFilter": "here.properties",
        "topologyFiles": {"t.yaml": WIRED, "sites/here.yaml": HERE, "here.properties": PROPERTIES},
    }


def test_files_are_those_of_the_classes(run: Run) -> None:
    """They are the user's own files, without Python's or kstorm's."""
    _, shown, _ = run("values", "t.yaml", "--filter", "here.properties", "--files")
    files = yaml.safe_load(shown)["topologyFiles"]
    assert list(files) == ["t.yaml", "sites/here.yaml", "here.properties", "wired_code.py"]
    assert files["wired_code.py"] == CODE


def test_unsupported_files_are_refused(run: Run, folder: Path) -> None:
    """These are files elsewhere, and resources of code that should be among the files."""
    inner = folder / "sites" / "t.yaml"
    inner.write_text(
        WIRED.replace("sites/here.yaml", "../sites/here.yaml").replace("${keep.workers}", "2")
    )
    assert run("values", "sites/t.yaml")[0] == 0
    inner.write_text(inner.read_text().replace("../sites/here.yaml", "../here.yaml"))
    (folder / "here.yaml").write_text(HERE)
    code, shown, said = run("values", "sites/t.yaml")
    assert (code, shown) == (2, "")
    assert (
        f"sites/../here.yaml cannot be part of the chart's values: put it into {folder / 'sites'} or below it"
        in said
    )
    resource = WIRED.replace("sites/here.yaml", "sites/here.yaml, resource: true").replace(
        "${keep.workers}", "2"
    )
    (folder / "t.yaml").write_text(resource)
    assert list(yaml.safe_load(run("values", "t.yaml")[1])["topologyFiles"]) == ["t.yaml"]
    code, _, said = run("values", "t.yaml", "--files")
    assert code == 2
    assert (
        "sites/here.yaml as a resource, which --files does not add: include it without resource"
        in said
    )


def test_a_mistake_is_one_line(run: Run) -> None:
    """The line has the place. A missing file is a mistake too."""
    for arguments, says in (
        (
            ("values", "t.yaml"),
            "t.yaml:10:18: ${keep.workers}: there is no properties file: name one with --filter",
        ),
        (
            ("values", "u.yaml"),
            "the topology's file u.yaml cannot be read: no such file or directory",
        ),
        (
            ("values", "t.yaml", "--filter", "no"),
            "the properties file no cannot be read: no such file or directory",
        ),
    ):
        code, shown, said = run(*arguments)
        assert (code, shown, said.count("\n")) == (2, "", 1)
        assert said.startswith(f"kstorm: {says}")


def test_a_service_loads_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path comes from its settings, or from the environment without settings."""
    assert (
        Settings(topology="t.yaml", topology_filter="here.properties").load_topology().name
        == "wired"
    )
    with pytest.raises(ConfigError, match="there is no properties file"):
        Settings(topology="t.yaml").load_topology()
    monkeypatch.setenv("KSTORM_TOPOLOGY_FILTER", str(folder / "here.properties"))
    assert load_topology(str(folder / "t.yaml")).component("keep").parallelism == 2


def test_path_of_a_file_counts_as_code(folder: Path) -> None:
    (folder / "t.yaml").write_text(WIRED.replace("${keep.workers}", "2"))
    options = TopologyOptions("t.yaml", bootstrap="kafka:9092")
    assert options.name == "wired"
    assert not options.is_far
    assert code_of(options, "").name == "wired"


def test_prepare_compares_with_a_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is the same as with code."""
    monkeypatch.setenv("KSTORM_TOPOLOGY", "t.yaml")
    monkeypatch.setenv("KSTORM_TOPOLOGY_FILTER", "here.properties")
    shape = '{"topologyName": "wired", "ackerTasks": 4, "components": {"lines": {"kind": "spout", "tasks": 1}}}'
    code, _, said = run("prepare", "--check-only", f"--values={shape}")
    assert code == 2
    assert (
        "the chart's values differ from t.yaml: components.keep is in the code, but not in the values"
        in said
    )
