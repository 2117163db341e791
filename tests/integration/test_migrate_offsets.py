"""`kstorm migrate offsets` on real servers: it takes over offsets of both Kafka spouts of Storm."""

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.runtime.kafka.event_log import read_events
from tests.integration.dead_letters import Letters
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import SpoutProcess, stored_offset
from tests.kstorm_command import Command, run_kstorm

STORM_ID = "word-count-1-1764230400"


@pytest.fixture
def migrate(
    topic: Topic, zookeeper: EmbeddedZooKeeper, capsys: pytest.CaptureFixture[str]
) -> Command:
    """A function that runs the command for the test's topic and spout. It watches for 0 s."""
    where = ["--root", f"/{topic.name}", "--id", topic.config().id, "--topic", topic.name]
    servers = ["--bootstrap", topic.kafka.bootstrap, "--zookeeper", zookeeper.connect]
    return lambda *words: run_kstorm(
        capsys, "migrate", "offsets", "--watch=0", *words, *where, *servers
    )


@pytest.fixture
def storm(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A client that writes to ZooKeeper what Storm writes."""
    client = KazooClient(zookeeper.connect)
    client.start(30)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def group(topic: Topic) -> str:
    return f"storm-{topic.name}"


def commit(topic: Topic, group: str, offsets: dict[int, int], topology: str = STORM_ID) -> None:
    """Commit offsets as storm-kafka-client does: without members, and with its metadata."""
    consumer = Consumer({**topic.client_config, "group.id": group})
    metadata = json.dumps({"topologyId": topology, "taskId": 3, "threadName": "Thread-21"})
    consumer.commit(
        offsets=[
            TopicPartition(topic.name, number, offset, metadata=metadata)
            for number, offset in offsets.items()
        ],
        asynchronous=False,
    )
    consumer.close()


def write_node(storm: KazooClient, path: str, topic: Topic, partition: int, offset: int) -> None:
    """Write a node as storm-kafka does."""
    content = {
        "topology": {"id": STORM_ID, "name": "word-count"},
        "offset": offset,
        "partition": partition,
        "broker": {"host": "kafka-0", "port": 9092},
        "topic": topic.name,
    }
    storm.ensure_path(f"{path}/partition_{partition}")
    storm.set(f"{path}/partition_{partition}", json.dumps(content).encode())


def rows(shown: str) -> list[list[str]]:
    """Return the cells of a printed table by line."""
    return [re.split(r"\s*│\s*", line.strip("│ ")) for line in shown.splitlines() if "│" in line]


def nothing_stored(zookeeper: EmbeddedZooKeeper, topic: Topic) -> bool:
    client = KazooClient(zookeeper.connect)
    client.start(30)
    try:
        return client.exists(f"{topic.config().zk_path}/partition_0") is None
    finally:
        client.stop()
        client.close()


def test_offsets_of_a_group_are_shown_and_then_stored(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, group: str
) -> None:
    """A partition that was always empty starts at its end. Without --yes nothing is stored."""
    topic.create(3).produce(*[b"x"] * 5)
    topic.produce(*[b"x"] * 4, partition=1)
    commit(topic, group, {0: 3, 1: 4})
    code, shown, _ = migrate("--group", group)
    assert code == 0
    assert rows(shown) == [
        ["0", "3", "–", "3", "2"],
        ["1", "4", "–", "4", "0"],
        ["2", "–", "–", "0", "0"],
    ]
    assert "total of messages left: 2" in shown
    assert "nothing was changed: give --yes" in shown
    assert nothing_stored(zookeeper, topic)
    code, shown, _ = migrate("--group", group, "--yes")
    assert code == 0
    assert f"{topic.name}[0]: none → 3" in shown
    assert [stored_offset(zookeeper.connect, topic, number)["offset"] for number in range(3)] == [
        3,
        4,
        0,
    ]


def test_spout_continues_where_storm_stopped(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, group: str
) -> None:
    topic.create().produce(b"a", b"b", b"c")
    commit(topic, group, {0: 1})
    assert migrate("--group", group, "--yes")[0] == 0
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(2)
    assert process.collector.values == ["b", "c"]
    process.stop()


def test_nodes_of_storm_kafka_are_taken_over(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, storm: KazooClient
) -> None:
    """The stored owner becomes kstorm's topology, because `ignore_zk_offsets` depends on it."""
    path = f"/storm-kafka/{topic.name}"
    topic.create(2).produce(*[b"x"] * 5)
    for number, offset in ((0, 3), (1, 0)):
        write_node(storm, path, topic, number, offset)
    code, shown, _ = migrate("--node", path, "--json")
    assert (code, json.loads(shown)[0]) == (
        0,
        {"topic": topic.name, "partition": 0, "storm": 3, "now": None, "new": 3, "left": 2},
    )
    assert migrate("--node", path, "--yes")[0] == 0
    stored = stored_offset(zookeeper.connect, topic)
    assert (stored["offset"], stored["topology"]["name"]) == (3, topic.config().id)


def test_nodes_at_kstorms_own_place_are_taken_over(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, storm: KazooClient
) -> None:
    """kstorm and storm-kafka have one format, so both may have the same zkRoot and id."""
    topic.create().produce(*[b"x"] * 5)
    write_node(storm, topic.config().zk_path, topic, 0, 3)
    code, shown, _ = migrate("--node", topic.config().zk_path, "--yes")
    assert (code, rows(shown)) == (0, [["0", "3", "3", "3", "2"]])
    assert stored_offset(zookeeper.connect, topic)["offset"] == 3


def test_takeover_is_an_event_of_the_topology(topic: Topic, migrate: Command, group: str) -> None:
    topic.create().produce(b"a")
    name = topic.config().id
    letters = Letters(topic.kafka, name)
    commit(topic, group, {0: 1})
    assert migrate("--group", group, "--yes")[0] == 0
    (event,) = read_events(letters.settings, name)
    assert (event.verb, event.outcome) == (
        f"migrate offsets --group {group}",
        f"{topic.name}[0]: none → 1",
    )


def test_offsets_behind_kstorms_are_pointed_out(topic: Topic, migrate: Command, group: str) -> None:
    topic.create().produce(*[b"x"] * 5)
    commit(topic, group, {0: 4})
    migrate("--group", group, "--yes")
    commit(topic, group, {0: 1})
    _, shown, _ = migrate("--group", group)
    assert f"{topic.name}[0]: kstorm is already at 4, and would process 3 messages again" in shown


def refused(
    run: tuple[object, str, str], why: str, zookeeper: EmbeddedZooKeeper, topic: Topic
) -> None:
    code, _, told = run
    assert (code, told.count("\n")) == (2, 1), told
    assert re.search(why, told), told
    assert nothing_stored(zookeeper, topic)


def test_group_with_live_members_is_refused(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, group: str
) -> None:
    """Storm 1's spout subscribes, and so may other programs of the group."""
    topic.create().produce(b"a")
    commit(topic, group, {0: 1})
    member = Consumer({**topic.client_config, "group.id": group, "client.id": "storm"})
    joined = threading.Event()
    member.subscribe([topic.name], on_assign=lambda *_: joined.set())
    while not joined.is_set():
        member.poll(0.2)
    refused(
        migrate("--group", group, "--yes"),
        r"has 1 live members \(storm on .*storm kill",
        zookeeper,
        topic,
    )
    member.close()


@contextmanager
def repeated(action: Callable[[int], None]) -> Iterator[None]:
    """Call an action with 1, 2, 3, … in another thread, a few times per second."""
    end = threading.Event()

    def work() -> None:
        for number in count(1):
            action(number)
            if end.wait(0.3):
                return

    thread = threading.Thread(target=work)
    thread.start()
    yield
    end.set()
    thread.join()


def test_storm_that_commits_meanwhile_is_refused(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, group: str
) -> None:
    """Storm 2's spout is not a member of its group, but its offsets move."""
    topic.create().produce(*[b"x"] * 1000)
    commit(topic, group, {0: 0})
    with repeated(lambda number: commit(topic, group, {0: number})):
        refused(
            migrate("--group", group, "--yes", "--watch=60"),
            r"Storm still runs: its offset of .*\[0\] in the group .* moved from \d+ to \d+",
            zookeeper,
            topic,
        )


def test_storm_that_writes_its_node_meanwhile_is_refused(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, storm: KazooClient
) -> None:
    """A write of the same offset shows it too."""
    topic.create().produce(*[b"x"] * 5)
    path = f"/storm-kafka/{topic.name}"
    write_node(storm, path, topic, 0, 1)
    with repeated(lambda _: write_node(storm, path, topic, 0, 1)):
        refused(
            migrate("--node", path, "--yes", "--watch=60"), "Storm still runs", zookeeper, topic
        )


def test_topology_that_storm_lists_is_refused(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, group: str, storm: KazooClient
) -> None:
    """An idle Storm commits nothing, but its ZooKeeper has its topology."""
    topology = f"idle-{uuid.uuid4().hex}"
    topic.create().produce(b"a")
    commit(topic, group, {0: 1}, topology)
    storm.create(f"/storm/storms/{topology}", makepath=True)
    refused(
        migrate("--group", group, "--yes"),
        f"Storm's topology '{topology}' still exists: ZooKeeper has /storm/storms/{topology}",
        zookeeper,
        topic,
    )
    storm.delete(f"/storm/storms/{topology}")
    assert migrate("--group", group, "--yes")[0] == 0


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ({0: 9, 1: 0}, r"9 of .*\[0\] is after the log's end 5.*kstorm offsets set 0=0 1=0"),
        ({0: 3}, r"Storm has no offset of .*\[1\], which has the offsets 0 to 2.* 0=3 1=0"),
        ({}, r"the group .* has no offsets: check the group.id"),
    ],
)
def test_unusable_offsets_are_refused(
    topic: Topic,
    zookeeper: EmbeddedZooKeeper,
    migrate: Command,
    group: str,
    offsets: dict[int, int],
    why: str,
) -> None:
    topic.create(2).produce(*[b"x"] * 5)
    topic.produce(*[b"x"] * 2, partition=1)
    if offsets:
        commit(topic, group, offsets)
    refused(migrate("--group", group, "--yes"), why, zookeeper, topic)


def test_expired_offset_is_refused_until_it_is_set_by_hand(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, group: str
) -> None:
    topic.create().produce(*[b"x"] * 5)
    commit(topic, group, {0: 1})
    admin = AdminClient(topic.client_config)
    for answer in admin.delete_records([TopicPartition(topic.name, 0, 3)]).values():
        answer.result(30)
    refused(
        migrate("--group", group, "--yes"),
        r"Storm's offset 1 of .*\[0\] has expired: the log starts at 3, so 2 messages are lost"
        r".*`kstorm offsets set 0=3`",
        zookeeper,
        topic,
    )


def test_offsets_of_another_topic_are_refused(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, group: str, storm: KazooClient
) -> None:
    topic.create().produce(b"a")
    other = Topic(f"{topic.name}-other", topic.kafka).create()
    commit(other, group, {0: 0})
    refused(
        migrate("--group", group), f"has offsets of '{other.name}', but none of", zookeeper, topic
    )
    write_node(storm, f"/storm-kafka/{topic.name}", other, 0, 0)
    refused(
        migrate("--node", f"/storm-kafka/{topic.name}"),
        f"has an offset of the topic '{other.name}', but kstorm's spout reads",
        zookeeper,
        topic,
    )
    refused(migrate("--node", "/nowhere"), "has no partition_0: give --node", zookeeper, topic)


def test_partitions_that_the_topic_lacks_are_refused(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, storm: KazooClient
) -> None:
    topic.create().produce(b"a")
    for number in (0, 1):
        write_node(storm, f"/storm-kafka/{topic.name}", topic, number, 0)
    refused(
        migrate("--node", f"/storm-kafka/{topic.name}", "--yes"),
        "has 1 partitions, but Storm stored offsets of partition 1 too",
        zookeeper,
        topic,
    )


def test_running_spout_of_kstorm_is_not_moved(
    topic: Topic, zookeeper: EmbeddedZooKeeper, migrate: Command, group: str
) -> None:
    topic.create().produce(b"a", b"b")
    commit(topic, group, {0: 2})
    process = SpoutProcess(topic, zookeeper.connect)
    process.emit(2)
    code, _, told = migrate("--group", group, "--yes")
    assert (code, "is in use: its lock is held by task 0 of 'lines'" in told) == (2, True)
    process.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 0


def test_one_source_must_be_named(migrate: Command) -> None:
    for words in ((), ("--group", "a", "--node", "/a/b")):
        code, _, told = migrate(*words)
        assert (code, "give --group" in told) == (2, True)
