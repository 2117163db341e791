"""What `kstorm offsets` takes for its options, and what it says to what it does not take. No server is asked."""

import time
from pathlib import Path

import pytest

from kstorm.cli.__main__ import main
from kstorm.cli.offset_options import OffsetOptions, find_spout_offsets
from kstorm.errors import ConfigError
from kstorm.kafka import EARLIEST_TIME, LATEST_TIME
from kstorm.kafka.offsets import TopologyRef
from kstorm.operations.offsets.targets import Target, parse_pair, parse_target
from kstorm.runtime.zookeeper.nodes import describe_holder

TOPOLOGIES = """
from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.topology import BasicBolt, Spout, TopologyBuilder

def build(*spouts):
    builder = TopologyBuilder("hello")
    sink = builder.set_bolt("sink", BasicBolt())
    for spout in spouts:
        builder.set_spout(spout, KafkaSpout(SpoutConfig(KafkaHosts(), f"{spout}-topic", "/kstorm", spout)))
        sink.shuffle_grouping(spout)
    return builder.build()

one, two = build("lines"), build("lines", "more")
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give a folder with some topologies, and no settings in the environment."""
    (tmp_path / "asked.py").write_text(TOPOLOGIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("TOPOLOGY", "COMPONENT", "TOPOLOGY_ID", "ZOOKEEPER", "BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(f"KSTORM_{name}", raising=False)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(time=EARLIEST_TIME)),
        ("latest", Target(time=LATEST_TIME)),
        ("0", Target(offset=0)),
        ("1772352000000", Target(offset=1772352000000)),
        ("@1772352000000", Target(time=1772352000000)),
        ("2026-03-01T08:00", Target(time=1772352000000)),
        ("2026-03-01T09:00:00+01:00", Target(time=1772352000000)),
        ("2026-03-01", Target(time=1772323200000)),
    ],
)
def test_targets_are_parsed(text: str, target: Target) -> None:
    """A number is an offset; a Unix time has an @ before it, so that neither is taken for the other."""
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["", "-1", "yesterday", "1e3", "@", "1969-01-01", "9" * 30, "@-1"])
def test_invalid_target_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give earliest, latest, an offset"):
        parse_target(text)


def test_pairs() -> None:
    """A partition and its offset."""
    assert parse_pair("3=1200") == (3, 1200)
    for text in ("3", "=3", "3=", "a=b", "3=-1"):
        with pytest.raises(ConfigError, match="give PARTITION=OFFSET"):
            parse_pair(text)


def test_only_spout_of_a_topology_need_not_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its only spout need not be named, and the environment of its pod says where the servers are."""
    monkeypatch.setenv("KSTORM_ZOOKEEPER", "zookeeper:2181")
    monkeypatch.setenv("KSTORM_TOPOLOGY_ID", "hello-7")
    found = find_spout_offsets(OffsetOptions("asked:one"))
    assert (found.config.topic, found.config.zk_path, found.zookeeper) == (
        "lines-topic",
        "/kstorm/lines",
        "zookeeper:2181",
    )
    assert found.topology == TopologyRef("hello-7", "hello")
    assert find_spout_offsets(OffsetOptions("asked:two", "more")).config.id == "more"


def test_offsets_without_a_topology() -> None:
    found = find_spout_offsets(
        OffsetOptions(root="/r", id="i", topic="t", bootstrap="kafka:1", zookeeper="zookeeper:2")
    )
    assert (found.config.zk_path, found.config.topic) == ("/r/i", "t")
    assert (found.settings.bootstrap_servers, found.zookeeper) == ("kafka:1", "zookeeper:2")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show"], "whose offsets? Give --topology"),
        (["show", "--root", "/r", "--id", "i"], "--root, --id and --topic go together"),
        (
            ["show", "--topology", "asked:two"],
            "the topology 'hello': give --component; spouts that do: 'lines', 'more'",
        ),
        (
            ["show", "--topology", "asked:one", "--component", "sink"],
            "'sink' is not a spout that reads Kafka",
        ),
        (["show", "--topology", "asked:none"], "the module asked has no 'none'"),
        (["reset", "--topology", "asked:one", "--to", "then"], "--to then: give earliest"),
        (["set", "--topology", "asked:one", "0"], "0: give PARTITION=OFFSET"),
        (["show", "--root", "r", "--id", "i", "--topic", "t"], "zk_root is 'r'"),
    ],
)
def test_a_mistake_costs_one_line(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On stderr, with exit code 2 and no stack trace."""
    monkeypatch.setenv("KSTORM_ZOOKEEPER", "zookeeper:2181")
    with pytest.raises(SystemExit) as ended:
        main(["offsets", *arguments])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("kstorm: ")
    assert says in said.err


def test_unreachable_zookeeper_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Without waiting for ten seconds, and nothing else is said."""
    begun = time.monotonic()
    with pytest.raises(SystemExit) as ended:
        main(["offsets", "show", "--topology", "asked:one", "--zookeeper", "127.0.0.1:1"])
    assert ended.value.code == 2
    assert time.monotonic() - begun < 3
    assert capsys.readouterr().err == (
        "kstorm: ZooKeeper at 127.0.0.1:1 cannot be reached (127.0.0.1:1: Connection refused): is it running, and is "
        "KSTORM_ZOOKEEPER or --zookeeper right?\n"
    )


def test_lock_holder_is_described() -> None:
    """Of a lock that is none of ours, what it holds."""
    mark = b'{"topology": "hello", "component": "lines", "task": 2, "host": "pod-1", "pid": 7, "lease": "x"}'
    assert describe_holder(mark) == "task 2 of 'lines' in 'hello', pid 7 on pod-1"
    assert describe_holder(b"theirs \xff") == "theirs \ufffd"
    assert describe_holder(b"[1]") == "[1]"
