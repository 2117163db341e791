"""The embedded servers, with the clients of kstorm's services."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import LocalError
from tests.conftest import Eventually


def create_topic(bootstrap: str, topic: str) -> None:
    """Create a topic with one partition and wait until the broker has it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    """Write one record and wait until the broker has it."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """Read the first records of a topic, as a member of a new consumer group."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


@pytest.fixture
def zookeeper_client(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """Return a connected client of the session's ZooKeeper."""
    client = KazooClient(zookeeper.connect, timeout=4.0)
    client.start(timeout=30)
    yield client
    client.stop()
    client.close()


@pytest.mark.slow
def test_kafka_does_not_create_topics_automatically(
    kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """Producing to a missing topic is an error."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.timeout.ms": 3000})
    outcomes: list[str] = []
    producer.produce(
        topic_prefix, b"lost", on_delivery=lambda error, _message: outcomes.append(str(error))
    )
    assert producer.flush(30) == 0
    assert "unknown topic" in outcomes[0].lower() or "timed out" in outcomes[0].lower()
    assert (
        topic_prefix
        not in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics
    )


def test_zookeeper_grants_short_sessions(zookeeper_client: KazooClient) -> None:
    """The lock of a dead spout must be free within seconds, so the server must not extend the
    session."""
    assert zookeeper_client._session_timeout == 4000


@pytest.mark.slow
def test_kafka_keeps_port_and_data_over_restarts(tmp_path: Path) -> None:
    """This includes a restart after SIGKILL."""
    with EmbeddedKafka(tmp_path, heap="256m", quick_start=True) as kafka:
        bootstrap = kafka.bootstrap
        create_topic(bootstrap, "kept")
        produce(bootstrap, "kept", b"first")
        kafka.restart()
        produce(bootstrap, "kept", b"second")
        kafka.kill()
        kafka.start()
        assert kafka.bootstrap == bootstrap
        assert consume(bootstrap, "kept", 2) == [b"first", b"second"]
    assert not kafka.process.alive


@pytest.mark.slow
def test_zookeeper_keeps_port_and_data_over_restarts(tmp_path: Path) -> None:
    """This includes a restart after SIGKILL. One client survives both."""
    with EmbeddedZooKeeper(tmp_path) as zookeeper:
        client = KazooClient(zookeeper.connect, timeout=10.0)
        client.start(timeout=30)
        client.create("/kept", b"1")
        zookeeper.restart()
        assert client.retry(client.get, "/kept")[0] == b"1"
        client.retry(client.set, "/kept", b"2")
        zookeeper.kill()
        zookeeper.start()
        assert client.retry(client.get, "/kept")[0] == b"2"
        client.stop()
        client.close()


def test_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    """The error names the server and the location of its log."""
    broken = EmbeddedKafka(tmp_path, settings={"num.io.threads": "none"})
    with pytest.raises(LocalError, match=r"(?s)kafka.*num\.io\.threads"):
        broken.start()


def test_a_copied_format_is_that_of_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's tool formats the first folder, and the second is formatted without it."""
    monkeypatch.setattr("kstorm.dev.kafka_format.cache_directory", lambda: tmp_path / "cache")
    found = []
    for name in ("first", "second"):
        kafka = EmbeddedKafka(tmp_path / name)
        kafka.data_directory.mkdir(parents=True)
        kafka._prepare()
        files = {path.name: path.read_bytes() for path in (kafka.data_directory / "log").iterdir()}
        lines = files.pop("meta.properties").decode().splitlines()
        identity = dict(line.split("=") for line in lines if not line.startswith("#"))
        found.append((files, identity))
        assert (kafka.log_path.parent / "kafka-format.log").exists() == (name == "first")
    (first_files, first), (second_files, second) = found
    assert first_files == second_files
    assert first.keys() == second.keys()
    assert {key for key in first if first[key] != second[key]} == {"cluster.id", "directory.id"}


PARENT = """
import sys, time
from pathlib import Path
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
with EmbeddedZooKeeper(Path(sys.argv[1])) as zookeeper, EmbeddedKafka(Path(sys.argv[1]), heap="256m") as kafka:
    print(zookeeper.process.pid, kafka.process.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            signal.SIGKILL,
            marks=pytest.mark.skipif(
                sys.platform != "linux", reason="needs Linux's parent-death signal"
            ),
            id="killed",
        ),
        pytest.param(signal.SIGINT, id="ctrl-c"),
    ],
)
@pytest.mark.slow
def test_servers_end_with_their_parent(
    tmp_path: Path, eventually: Eventually, how: signal.Signals
) -> None:
    """No server stays after a kill or Ctrl-C."""
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        servers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(servers) == 2
        assert all(psutil.pid_exists(pid) for pid in servers)
        os.kill(parent.pid, how)
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in servers), 30)
