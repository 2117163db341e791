"""`kstorm values` writes the values of the code, and `kstorm prepare` rejects different ones.

Neither contacts a server.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kstorm.cli.__main__ import main
from kstorm.cli.prepare import compare
from kstorm.errors import ConfigError
from kstorm.kafka.own_topics import own_sinks, own_sources
from kstorm.operations.control.deployment_shape import parse_shape, shape_of
from kstorm.runtime.base.settings import load_topology

TOPOLOGY = """
from kstorm.kafka import KafkaBolt, KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.topology import BasicBolt, Config, StatefulBasicBolt, TopologyBuilder

class Keep(StatefulBasicBolt):
    def declare_output_fields(self, declarer):
        declarer.declare("key", "message")

def build(hosts=KafkaHosts(), ackers=1, topic="lines", **more):
    builder = TopologyBuilder("hello", Config(topology_acker_executors=ackers))
    builder.set_spout("lines", KafkaSpout(SpoutConfig(hosts, topic, "/kstorm", "hello", **more)))
    builder.set_bolt("keep", Keep(), 2).set_num_tasks(6).shuffle_grouping("lines")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("words")).shuffle_grouping("keep")
    return builder.build()

topology = build()
unacked = build(ackers=0)
elsewhere = build(KafkaHosts("other:9092"))
pattern = build(topic="lines-.*", kafka_topic_wildcard_match=True)
"""
OF_HELLO = {
    "topologyName": "hello",
    "components": {
        "lines": {"kind": "spout", "tasks": 1},
        "keep": {"kind": "bolt", "tasks": 6, "stateful": True},
        "sink": {"kind": "bolt", "tasks": 1},
    },
    "ackerTasks": 4,
}


@pytest.fixture(autouse=True)
def code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provides a folder with a topology as a module and in a package. Kafka's address is closed."""
    package = tmp_path / "shaped_package"
    package.mkdir()
    for path in (tmp_path / "shaped.py", package / "inner.py"):
        path.write_text(TOPOLOGY)
    for name in ("__init__.py", "test_inner.py", "conftest.py"):
        (package / name).write_text("")
    for name in ("shaped", "shaped_package", "shaped_package.inner"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("KSTORM_TOPOLOGY", "shaped:topology")
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """Returns exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code, *capsys.readouterr()


def test_values_match_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    """This covers each component's kind, tasks, state and parallelism, the ackers and the ends."""
    code, shown, _ = run(capsys, "values", "shaped:topology")
    assert code == 0
    assert shown.startswith("# Written by `kstorm values shaped:topology`")
    assert yaml.safe_load(shown) == {
        "topology": "shaped:topology",
        "topologyName": "hello",
        "components": {
            "lines": {"kind": "spout", "tasks": 1, "replicas": 1},
            "keep": {"kind": "bolt", "tasks": 6, "stateful": True, "replicas": 2},
            "sink": {"kind": "bolt", "tasks": 1, "replicas": 1},
        },
        "ackers": {"tasks": 4, "replicas": 1},
        "test": {"source": "lines", "sink": "words"},
    }


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        (
            "shaped",
            "does not have the form package.module:attribute; available: shaped:topology, shaped:unacked, shaped:elsewhere, ",
        ),
        (
            "shaped:topolgy",
            "the module shaped has no 'topolgy'; available: shaped:topology, shaped:unacked, ",
        ),
        ("shapd:topology", "on PYTHONPATH; available: shaped\n"),
        ("shaped_package.iner:topology", "there is no module 'shaped_package.iner' in "),
        ("shaped_package.iner:topology", "on PYTHONPATH; available: shaped_package.inner\n"),
        ("b a d", "the topology 'b a d' does not have the form package.module:attribute\n"),
    ],
)
def test_wrong_reference_lists_the_existing_topologies(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    code: Path,
    reference: str,
    complaint: str,
) -> None:
    """The message is one line, and stdout stays empty."""
    monkeypatch.chdir(code)
    exit_code, shown, said = run(capsys, "values", reference)
    assert (exit_code, shown, said.count("\n")) == (2, "", 1)
    assert complaint in said


def test_no_ackers(capsys: pytest.CaptureFixture[str]) -> None:
    """A topology without tracking has no ackers."""
    assert yaml.safe_load(run(capsys, "values", "shaped:unacked")[1])["ackers"] == {
        "tasks": 0,
        "replicas": 0,
    }


@pytest.mark.parametrize(
    ("reference", "paths"),
    [
        ("shaped:topology", ["shaped.py"]),
        (
            "shaped_package.inner:topology",
            ["shaped_package/__init__.py", "shaped_package/inner.py"],
        ),
    ],
)
def test_files(
    capsys: pytest.CaptureFixture[str], code: Path, reference: str, paths: list[str]
) -> None:
    """The module, or its whole top package without tests, survives the YAML unchanged."""
    files = yaml.safe_load(run(capsys, "values", reference, "--files")[1])["topologyFiles"]
    assert files == {path: (code / path).read_text() for path in paths}


def test_files_too_large_for_a_config_map(capsys: pytest.CaptureFixture[str], code: Path) -> None:
    """They belong in an image."""
    (code / "shaped.py").write_text(TOPOLOGY + "#" * 900_000)
    exit_code, _, complaint = run(capsys, "values", "shaped:topology", "--files")
    assert exit_code == 2
    assert (
        f"they have {len(TOPOLOGY) + 900_000} bytes: put the code into images instead" in complaint
    )


def test_matching_values_are_accepted_without_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "prepare", "--check-only", "--values", json.dumps(OF_HELLO)) == (
        0,
        "the values match shaped:topology\n",
        "",
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"topologyName": "goodbye"}, "topologyName is 'goodbye' in the values and 'hello' in the code"),
        ({"ackerTasks": 3}, "ackers.tasks is 3 in the values and 4 in the code"),
        ({"components": {"lines": {"kind": "spout", "tasks": 2}}}, "components.lines.tasks is 2 in the values and 1 in"),
        ({"components": {"lines": {"kind": "bolt", "tasks": 1}}}, "components.lines.kind is 'bolt' in the values and 'spout'"),
        ({"components": {"keep": {"kind": "bolt", "tasks": 6}}}, "components.keep.stateful is False in the values and True"),
        ({"components": {"sink": None}}, "components.sink is in the code, but not in the values"),
        ({"components": {"new": {"kind": "bolt", "tasks": 1}}}, "components.new is in the values, but not in the code"),
    ],
)  # fmt: skip
def test_different_values_are_refused(
    capsys: pytest.CaptureFixture[str], change: dict[str, Any], complaint: str
) -> None:
    """The message shows both sides of each difference, and the command that writes new values."""
    merged = {
        **OF_HELLO,
        **change,
        "components": {**OF_HELLO["components"], **change.get("components", {})},  # type: ignore[dict-item]
    }
    merged["components"] = {
        id: shape for id, shape in merged["components"].items() if shape is not None
    }
    code, _, said = run(capsys, "prepare", "--check-only", "--values", json.dumps(merged))
    assert code == 2
    assert complaint in said
    assert "Write them again with `kstorm values shaped:topology`" in said


def test_yaml_file_is_named_without_its_folder() -> None:
    said, code = (parse_shape(json.dumps({**OF_HELLO, "ackerTasks": tasks})) for tasks in (3, 4))
    with pytest.raises(ConfigError, match=r"Write them again with `kstorm values hello\.yaml`"):
        compare("/etc/kstorm/topology/hello.yaml", said, code)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"topologyName": "hello", "components": {}, "ackerTasks": 1, "x": 1}'],
)
def test_invalid_shape_is_refused(capsys: pytest.CaptureFixture[str], text: str) -> None:
    code, _, said = run(capsys, "prepare", "--check-only", "--values", text)
    assert (code, said.startswith("kstorm: --values is not what the chart passes:")) == (2, True)


def test_shape_round_trip() -> None:
    shape = shape_of(load_topology("shaped:topology"))
    assert parse_shape(json.dumps(OF_HELLO)) == shape
    assert list(shape.differences(shape)) == []


@pytest.mark.parametrize(
    ("reference", "sources"), [("topology", {"lines": 1}), ("elsewhere", {}), ("pattern", {})]
)
def test_ends(reference: str, sources: dict[str, int]) -> None:
    """The ends are single topics of the deployment's own Kafka."""
    topology = load_topology(f"shaped:{reference}")
    assert (own_sources(topology), own_sinks(topology)) == (sources, {"words": 1})


def test_probe_needs_both_source_and_sink(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = run(capsys, "probe", "--source", "a")
    assert (code, said.startswith("kstorm: --source and --sink go together")) == (2, True)


def test_probe_without_the_marker_in_its_message_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, said = run(capsys, "probe", "--source", "a", "--sink", "b", "--message", "hello")
    assert (code, said) == (
        2,
        "kstorm: --expect has {marker}, but --message 'hello' does not: the result cannot have it\n",
    )
