"""`kstorm offsets` on real servers: it shows and moves offsets, and refuses in some cases."""

import json
import re
import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from kstorm.cli.__main__ import main
from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.runtime.zookeeper.nodes import OffsetNodes
from tests.conftest import Eventually
from tests.integration.finished_ranges import finished_ranges, offsets_in
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import FINISHED, SpoutProcess, stored_offset
from tests.kstorm_command import Command, run_kstorm


@pytest.fixture
def offsets(
    topic: Topic, zookeeper: EmbeddedZooKeeper, capsys: pytest.CaptureFixture[str]
) -> Command:
    """A function that runs the command for the test's topic and spout, and returns exit code,
    output and errors."""
    where = ["--root", f"/{topic.name}", "--id", topic.config().id, "--topic", topic.name]
    servers = ["--bootstrap", topic.kafka.bootstrap, "--zookeeper", zookeeper.connect]

    return lambda *words: run_kstorm(capsys, "offsets", *words, *where, *servers)


def rows(shown: str) -> list[list[str]]:
    """Return the cells of a printed table by line."""
    return [re.split(r"\s*│\s*", line.strip("│ ")) for line in shown.splitlines() if "│" in line]


def read_and_ack(topic: Topic, zookeeper: EmbeddedZooKeeper, count: int) -> None:
    """Run a spout until it has finished `count` messages."""
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(count)
    process.ack(*range(count))
    process.stop()


def test_show_lists_offset_log_lag_and_owner(
    topic: Topic, zookeeper: EmbeddedZooKeeper, offsets: Command
) -> None:
    """A partition without a stored offset has a dash."""
    topic.create(2).produce(*[b"x"] * 5)
    code, shown, _ = offsets("show")
    assert code == 0
    assert rows(shown) == [["0", "–", "0", "5", "–", "–"], ["1", "–", "0", "0", "–", "–"]]
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(5)
    process.ack(0, 1)
    process.until_stored(2)
    _, shown, _ = offsets("show")
    lines = rows(shown)
    assert lines[0][:5] == ["0", "2", "0", "5", "3"]
    assert "task 0 of" in lines[0][5]
    assert "total lag: 3" in shown
    process.stop()
    assert [line[-1] for line in rows(offsets("show")[1])] == ["–", "–"]


@pytest.mark.slow
def test_reset_to_the_start_repeats_everything(
    topic: Topic, zookeeper: EmbeddedZooKeeper, offsets: Command, eventually: Eventually
) -> None:
    """The next spout starts there, and lag tools show it."""
    topic.create().produce(b"a", b"b", b"c")
    read_and_ack(topic, zookeeper, 3)
    before = stored_offset(zookeeper.connect, topic)
    assert offsets("reset", "--to", "earliest")[:2] == (0, f"{topic.name}[0]: 3 → 0\n")
    assert stored_offset(zookeeper.connect, topic) == {**before, "offset": 0}
    onlooker = Consumer({**topic.client_config, "group.id": topic.config().id})
    eventually(
        lambda: onlooker.committed([TopicPartition(topic.name, 0)], timeout=10)[0].offset == 0, 20
    )
    onlooker.close()
    again = SpoutProcess(topic, zookeeper.connect)
    again.emit(3)
    assert again.collector.values == ["a", "b", "c"]
    again.stop()


@pytest.mark.slow
def test_skipped_offsets_are_recorded_with_operator_and_command(
    topic: Topic, zookeeper: EmbeddedZooKeeper, offsets: Command
) -> None:
    """This happens before the skip, so every offset below the stored one is in some range."""
    topic.create().produce(*[b"x"] * 5)
    read_and_ack(topic, zookeeper, 3)
    assert offsets("reset", "--to", "latest")[0] == 0
    ranges = [
        found
        for found in finished_ranges(topic.kafka.bootstrap, FINISHED)
        if found.topic == topic.name
    ]
    assert offsets_in(ranges) == set(range(5))
    (skipped,) = [skip for found in ranges for skip in found.skipped]
    assert (skipped.start, skipped.end, skipped.why) == (3, 5, "kstorm offsets reset --to latest")
    assert skipped.who.endswith(f"@{socket.gethostname()}")
    assert {found.reading for found in ranges} == {topic.config().zk_path}


@pytest.mark.parametrize(
    ("to", "found"),
    [
        ("earliest", 0),
        ("latest", 4),
        ("@1500", 1),
        ("1970-01-01T00:00:03", 2),
        ("@99999", 4),
        ("2", 2),
    ],
)
def test_reset_accepts_names_times_and_offsets(
    topic: Topic, offsets: Command, zookeeper: EmbeddedZooKeeper, to: str, found: int
) -> None:
    """A time after the last message means the end. A spout that never ran starts there."""
    topic.create()
    for stamp in (1000, 2000, 3000, 4000):
        topic.produce(b"x", timestamp=stamp)
    assert offsets("reset", "--to", to)[1] == f"{topic.name}[0]: none → {found}\n"
    assert stored_offset(zookeeper.connect, topic)["offset"] == found


@pytest.mark.slow
def test_set_changes_only_named_partitions(
    topic: Topic, zookeeper: EmbeddedZooKeeper, offsets: Command
) -> None:
    topic.create(3)
    for partition in range(3):
        topic.produce(*[b"x"] * 5, partition=partition)
    offsets("reset", "--to", "latest")
    offsets("reset", "--to", "earliest", "--partition", "1")
    assert offsets("set", "2=3")[0] == 0
    assert [stored_offset(zookeeper.connect, topic, number)["offset"] for number in range(3)] == [
        5,
        0,
        3,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["set", "0=4", "1=1"], r"\[1\] has the offsets 0 to 0: 1 is out of range"),
        (["reset", "--to", "4"], r"\[1\] has the offsets 0 to 0: 4 is out of range"),
        (["set", "0=4", "2=0"], "has partitions 0 to 1, but no partition 2"),
    ],
)
def test_offsets_outside_the_log_are_refused(
    topic: Topic, zookeeper: EmbeddedZooKeeper, offsets: Command, arguments: list[str], says: str
) -> None:
    """The other partitions stay unchanged too."""
    topic.create(2).produce(*[b"x"] * 5)
    code, _, told = offsets(*arguments)
    assert code == 2
    assert re.search(says, told)
    assert offsets("show")[1].count("–") == 6  # no offset, no lag, no holder


def test_offsets_of_a_running_spout_are_not_changed(
    topic: Topic, zookeeper: EmbeddedZooKeeper, offsets: Command
) -> None:
    """The error names the owner of the lock. Partitions without an owner stay unchanged too."""
    topic.create(2).produce(b"a", b"b")
    offsets("reset", "--to", "latest")
    process = SpoutProcess(topic, zookeeper.connect)
    process.until(lambda: process.spout.metrics()["partitions"] == 2)
    process.spout._offsets.release(topic.at(0))
    assert process.spout._offsets.flush(20)
    code, _, told = offsets("reset", "--to", "earliest")
    assert code == 2
    assert re.search(
        r"partition_1 is in use: its lock is held by task 0 of 'lines' in 'words', pid \d+ on", told
    )
    assert [stored_offset(zookeeper.connect, topic, number)["offset"] for number in (0, 1)] == [
        2,
        0,
    ]
    process.stop()
    assert offsets("reset", "--to", "earliest")[0] == 0


@pytest.mark.slow
def test_offset_changed_meanwhile_is_not_moved(
    topic: Topic, zookeeper: EmbeddedZooKeeper, offsets: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the write a spout stores an offset and stops."""
    topic.create().produce(b"a", b"b", b"c")
    offsets("reset", "--to", "earliest")
    write = OffsetNodes.write

    def late(nodes: OffsetNodes, changes: object) -> None:
        read_and_ack(topic, zookeeper, 3)
        write(nodes, changes)  # type: ignore[arg-type]

    monkeypatch.setattr(OffsetNodes, "write", late)
    code, _, told = offsets("reset", "--to", "1")
    assert (code, "partition_0 in the meantime" in told) == (2, True)
    assert stored_offset(zookeeper.connect, topic)["offset"] == 3


@pytest.mark.slow
def test_spout_without_its_lock_starts_at_the_new_offset(
    topic: Topic, zookeeper: EmbeddedZooKeeper, offsets: Command
) -> None:
    """Its session has expired. It no longer owns its messages in flight, and moves nothing back."""
    topic.create().produce(b"a", b"b", b"c")
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(3)
    process.ack(0)
    process.until_stored(1)
    client = KazooClient(zookeeper.connect)
    client.start(30)
    client.delete(f"{topic.config().zk_path}/locks/partition_0")
    assert offsets("reset", "--to", "2")[0] == 0
    process.ack(1, 2)
    process.emit(4)
    assert process.collector.values == ["a", "b", "c", "c"]
    assert json.loads(client.get(f"{topic.config().zk_path}/partition_0")[0])["offset"] == 2
    process.stop()
    client.stop()
    client.close()


@pytest.mark.slow
def test_offsets_of_a_login_require_it(
    topic: Topic, offsets: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without it gets an error with the variable to set."""
    topic.create().produce(b"a")
    monkeypatch.setenv("KSTORM_ZOOKEEPER_AUTH", "digest:kstorm:Pa55")
    assert offsets("reset", "--to", "latest")[0] == 0
    assert rows(offsets("show")[1])[0][1] == "1"
    monkeypatch.setenv("KSTORM_ZOOKEEPER_AUTH", "digest:stranger:Wr0ng")
    for verb in (["show"], ["reset", "--to", "earliest"]):
        code, _, told = offsets(*verb)
        assert code == 2
        assert "the user 'stranger' may not use" in told
        assert "Wr0ng" not in told


@pytest.mark.slow
def test_all_topics_of_a_spout_are_shown_and_moved(
    topic: Topic,
    zookeeper: EmbeddedZooKeeper,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each topic has its own node, and a partition can be named by its topic."""
    for name in ("a", "b"):
        Topic(f"{topic.name}.{name}", topic.kafka).create().produce(b"x", b"y")
    Topic("several.__finished", topic.kafka).create()
    (tmp_path / "several_topics.py").write_text(
        "from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig\n"
        "from kstorm.topology import BasicBolt, TopologyBuilder\n"
        "builder = TopologyBuilder('several')\n"
        f"config = SpoutConfig(KafkaHosts(), r'{topic.name}\\..', '/several', '{topic.name}',"
        " kafka_topic_wildcard_match=True)\n"
        "builder.set_spout('lines', KafkaSpout(config))\n"
        "builder.set_bolt('sink', BasicBolt()).shuffle_grouping('lines')\n"
        "topology = builder.build()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    servers = ["--bootstrap", topic.kafka.bootstrap, "--zookeeper", zookeeper.connect]

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["offsets", *arguments, *servers])
        return ended.value.code, *capsys.readouterr()

    whole = ["--topology", "several_topics:topology"]
    said = run("reset", "--to", "latest", *whole)
    assert said[:2] == (0, f"{topic.name}.a[0]: none → 2\n{topic.name}.b[0]: none → 2\n")
    assert "select one with --root" in run("set", "0=1", *whole)[2]
    one = [
        "--root",
        f"/several/{topic.name}",
        "--id",
        f"{topic.name}.b",
        "--topic",
        f"{topic.name}.b",
    ]
    assert run("set", "0=1", *one)[0] == 0
    assert [row[1] for row in rows(run("show", *whole)[1])] == ["2", "1"]


@pytest.mark.slow
def test_missing_topic_is_named(topic: Topic, offsets: Command) -> None:
    code, _, told = offsets("show")
    assert code == 2
    assert f"topic {topic.name!r} cannot be read" in told
