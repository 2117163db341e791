"""A client that has forgotten all brokers is replaced. It would otherwise stay silent forever."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
import structlog
from confluent_kafka import TopicPartition

from kstorm.core.engine.units import Unit
from kstorm.core.outgoing import OutgoingRecord
from kstorm.errors import BrokerError
from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.kafka.ports import Partition
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.broker_loss import BrokerLossDetector
from kstorm.runtime.kafka.completions import CompletionsReader
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.producer import UnitProducer
from kstorm.runtime.kafka.sink import KafkaWriter
from kstorm.runtime.kafka.source import KafkaSource
from kstorm.runtime.kafka.statistics import read_statistics
from tests.conftest import Eventually

SETTINGS = Settings(topology="unused")


def statistics(*sources: str) -> str:
    """Builds librdkafka's statistics with brokers of these sources."""
    return json.dumps(
        {"brokers": {f"{place}": {"source": source} for place, source in enumerate(sources)}}
    )


NONE, SOME = statistics("logical"), statistics("logical", "learned")


@pytest.mark.parametrize(
    ("told", "is_all"),
    [
        ([], False),
        ([NONE], False),
        ([NONE, NONE], True),
        ([statistics(), statistics()], True),
        ([NONE, SOME, NONE], False),
        ([NONE, NONE, SOME], False),
        ([statistics("configured")] * 3, False),
    ],
)
def test_loss_needs_two_consecutive_reports(told: Sequence[str], is_all: bool) -> None:
    """A single report may lack brokers. A group coordinator does not count as a broker."""
    forgotten = BrokerLossDetector()
    for each in told:
        forgotten.heard(read_statistics(each))
    assert forgotten.all is is_all


class Client:
    """A consumer that reads nothing."""

    made: ClassVar[list["Client"]] = []

    def __init__(self, config: dict[str, Any], **others: Any) -> None:
        self.tell = config["stats_cb"]
        self.assigned: dict[tuple[str, int], int] = {}
        self.paused: set[tuple[str, int]] = set()
        self.read = self.closed = False
        Client.made.append(self)

    def poll(self, seconds: float) -> None:
        self.tell(NONE)

    def consume(self, count: int, seconds: float) -> list[Any]:
        self.tell(NONE if self is Client.made[0] else SOME)
        return []

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = {(place.topic, place.partition): place.offset for place in places}

    incremental_assign = assign

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [
            TopicPartition(place.topic, place.partition, 9 if self.read else -1001)
            for place in places
        ]

    def pause(self, places: list[TopicPartition]) -> None:
        self.paused |= {(place.topic, place.partition) for place in places}

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """Provides the list of created clients."""
    Client.made = []
    for module in ("completions", "consumer", "source", "brokers"):
        monkeypatch.setattr(f"kstorm.runtime.kafka.{module}.Consumer", Client)
    return Client.made


def test_a_reader_of_completions_ends_its_process(eventually: Eventually) -> None:
    """Otherwise its spout would wait for its trees forever."""
    fatal: list[Exception] = []
    reader = CompletionsReader(SETTINGS, "news", None, print, print, fatal.append)  # type: ignore[arg-type]
    reader.start()
    eventually(lambda: fatal, 10)
    reader.stop()
    assert isinstance(fatal[0], BrokerError)
    assert "the client that reads 'news' has lost the addresses of all brokers" in str(fatal[0])


def test_a_task_consumer_ends_its_process(clients: list[Client]) -> None:
    made = TaskConsumer(
        SETTINGS,
        topic="in",
        group="words",
        session_timeout_ms=6000,
        revoke_secs=10,
        owner=None,  # type: ignore[arg-type]
        loop=None,  # type: ignore[arg-type]
        fatal=lambda error: None,
        log=structlog.get_logger(),
    )
    made._turn()
    made._turn()
    with pytest.raises(BrokerError, match="'in' has lost the addresses of all brokers"):
        made._turn()


@pytest.mark.parametrize(("has_read", "offset"), [(True, 9), (False, 3)])
def test_a_source_reads_on_by_another_client(
    clients: list[Client], eventually: Eventually, has_read: bool, offset: int
) -> None:
    """Each partition continues at its position or its start. Paused partitions stay paused."""
    source = KafkaSource(
        SpoutConfig(KafkaHosts("kafka:9092"), "in", "", "words", client_id="reads"), {}
    )
    source.assign(Partition("in", 0), 3)
    source.pause(Partition("in", 0))
    clients[0].read = has_read
    for _ in range(5):
        source.read(1)
        source.faults()
    old, new = clients
    assert new.assigned == {("in", 0): offset}
    assert new.paused == {("in", 0)}
    eventually(lambda: old.closed, 10)
    for _ in range(2):
        old.tell(NONE)  # librdkafka may do so while it is being closed
    source.faults()
    assert clients == [old, new]
    source.close()
    assert new.closed


class Writing:
    """A producer that writes nothing, and reports statistics at each poll."""

    told = NONE
    polls = 0

    def __init__(self, config: dict[str, Any]) -> None:
        self._tell = config["stats_cb"]

    def __len__(self) -> int:
        return 0

    def produce(self, *record: Any) -> None:
        pass

    def poll(self, seconds: float) -> int:
        Writing.polls += 1
        self._tell(self.told)
        return 0


def test_a_producer_of_frames_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its records would time out after two minutes, with the same effect."""
    monkeypatch.setattr("kstorm.runtime.kafka.producer.Producer", Writing)
    fatal: list[Exception] = []
    made = UnitProducer(SETTINGS, fatal.append)
    made.send(Unit(), [OutgoingRecord("news", 0, b"")])
    made.poll()
    assert not fatal
    made.poll()
    assert "the client that writes to 'news' has lost the addresses of all brokers" in str(fatal[0])


async def test_a_writer_of_a_sink_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its tuples would fail and be replayed forever. The writer itself is idle here."""
    monkeypatch.setattr("kstorm.runtime.kafka.sink.Producer", Writing)
    monkeypatch.setattr("kstorm.runtime.kafka.sink.SELDOM_MS", 1)
    monkeypatch.setattr(Writing, "polls", 0)
    ended = asyncio.get_running_loop().create_future()
    KafkaWriter({"bootstrap.servers": "kafka:9092"}, None, ended.set_result)
    assert "has lost the addresses of all brokers" in str(await asyncio.wait_for(ended, 10))
    assert Writing.polls == 2


async def test_idle_writer_is_polled_until_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka queues its events until a poll, and they would fill the memory."""
    monkeypatch.setattr("kstorm.runtime.kafka.sink.Producer", Writing)
    monkeypatch.setattr("kstorm.runtime.kafka.sink.SELDOM_MS", 1)
    monkeypatch.setattr(Writing, "told", SOME)
    monkeypatch.setattr(Writing, "polls", 0)
    writer = KafkaWriter(
        {"bootstrap.servers": "kafka:9092"}, None, lambda error: pytest.fail(str(error))
    )
    async with asyncio.timeout(10):
        while Writing.polls < 5:
            await asyncio.sleep(0.001)
    await writer.close()
    assert writer._looking.cancelled()
