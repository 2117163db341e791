"""Batches that librdkafka cannot decode: their range, and the readers that continue after them."""

import logging
import threading
from typing import Any, ClassVar

import pytest
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.kafka.cluster import Partition
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka import undecodable
from kstorm.runtime.kafka.completions import CompletionsReader
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.source import KafkaSource
from kstorm.runtime.kafka.undecodable import (
    UndecodableBatchProbe,
    UndecodableRange,
    batch_end,
    probe_batch,
)
from tests.conftest import Eventually

PLACE = Partition("in", 0)
SETTINGS = Settings(topology="a:b", bootstrap_servers="kafka:9092")


def trouble(offset: int, code: int = KafkaError._BAD_COMPRESSION) -> Message:
    return Message("in", 0, offset, None, None, error=KafkaError(code, "as told"))


class Log:
    """A partition with an undecodable batch, as librdkafka reads it.

    The fault has the batch's first offset for every start in the batch, and repeats.
    """

    def __init__(self, first: int, end: int, high: int, *, low: int = 0) -> None:
        self.first, self.end, self.high, self.low = first, end, high, low
        self.passes_after = 1_000_000
        """The number of failed reads before the batch can be decoded."""
        self.fetches: list[int] = []

    def at(self, offset: int) -> Message:
        self.fetches.append(offset)
        if not self.low <= offset <= self.high:
            return trouble(offset, KafkaError._AUTO_OFFSET_RESET)
        if offset < self.end and len(self.fetches) <= self.passes_after:
            return trouble(self.first)
        if offset == self.high:
            return trouble(offset, KafkaError._PARTITION_EOF)
        return Message("in", 0, offset, None, b"good")


class Client:
    """A `Consumer` of such a log."""

    log: ClassVar[Log]
    refuses: ClassVar[bool] = False

    def __init__(self, config: dict[str, Any], logger: Any = None) -> None:
        self.config, self.position, self.closed = config, -1, False
        self.seeks: list[int] = []

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        if Client.refuses:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "away"))
        return Client.log.low, Client.log.high

    def assign(self, places: list[TopicPartition]) -> None:
        self.position = places[0].offset

    incremental_assign = assign

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        self.position = -1

    def seek(self, place: TopicPartition) -> None:
        self.position = place.offset
        self.seeks.append(place.offset)

    def poll(self, timeout: float) -> Message | None:
        return Client.log.at(self.position)

    def consume(self, count: int, timeout: float) -> list[Message]:
        return (
            [Client.log.at(self.position)]
            if self.config.get("client.id") == "reads" and self.position >= 0
            else []
        )

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _client(monkeypatch: pytest.MonkeyPatch) -> None:
    Client.refuses = False
    for module in ("undecodable", "completions", "consumer", "source"):
        monkeypatch.setattr(f"kstorm.runtime.kafka.{module}.Consumer", Client)
    monkeypatch.setattr(undecodable, "_BETWEEN_TRIES_SECS", 0.0)


def looked(log: Log, offset: int | None = None) -> UndecodableRange | None:
    Client.log = log
    return probe_batch({}, PLACE, log.first if offset is None else offset, threading.Event())


@given(st.integers(0, 50), st.integers(1, 200_000), st.integers(0, 3))
def test_the_end_of_a_batch_is_found_with_few_fetches(first: int, size: int, behind: int) -> None:
    """Each fetch takes a moment, and a batch may have a hundred thousand records."""
    fetched = []

    def is_in(offset: int) -> bool:
        fetched.append(offset)
        return first <= offset < first + size

    assert batch_end(is_in, first, first + size + behind) == first + size
    assert len(fetched) <= 2 * size.bit_length() + 2
    assert all(offset < first + size + behind for offset in fetched)


@pytest.mark.parametrize(("size", "behind"), [(1, 0), (1, 5), (7, 0), (7, 1), (4000, 12)])
def test_undecodable_batch_is_reported_with_its_offsets(size: int, behind: int) -> None:
    found = looked(Log(10, 10 + size, 10 + size + behind))
    assert found is not None
    assert (found.first, found.end) == (10, 10 + size)
    assert found.reason == f"the batch of offsets 10 to {9 + size} cannot be decoded: as told"


@pytest.mark.parametrize("times", [0, 1, 2])
def test_temporary_fault_skips_nothing(times: int) -> None:
    """A broker short of memory and a corrupted byte are temporary faults."""
    log = Log(10, 15, 20)
    log.passes_after = times
    assert looked(log) is None


def test_deleted_part_of_a_batch_is_not_requested() -> None:
    """Otherwise the broker would reject the offset, and the end of the batch would stay unknown."""
    found = looked(Log(10, 15, 20, low=12), 10)
    assert found is not None
    assert (found.first, found.end) == (12, 15)


def test_only_a_proven_fault_is_a_warning(
    eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """After a pause, a reader reports faults that are gone. Each suspicion is taken back: the
    second reader could read the batch, Kafka did not answer it, or the partition has moved."""
    caplog.set_level(logging.INFO)
    Client.log = Log(3, 5, 9)
    Client.log.passes_after = 1
    searches = UndecodableBatchProbe({"bootstrap.servers": "kafka:9092"})

    def ends(text: str) -> bool:
        return not list(searches.ended()) and text in caplog.text

    searches.begin(trouble(3))
    assert "in[0] may not be readable at offset 3: as told" in caplog.text
    eventually(lambda: ends("in[0] can be read after all"), 10)
    Client.refuses = True
    searches.begin(trouble(3))
    eventually(lambda: ends("in[0] may be readable or not at offset 3, because Kafka at kafka"), 10)
    searches.begin(trouble(3))
    searches.forget(PLACE)
    assert "in[0] is no longer examined" in caplog.text
    assert {each.levelname for each in caplog.records} == {"INFO"}
    Client.log, Client.refuses = Log(3, 5, 9), False
    searches.begin(trouble(3))
    eventually(lambda: list(searches.ended()), 10)
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname != "INFO"]
    assert warning == "in[0] cannot be read from offset 3 to 5"
    searches.close()


def test_a_search_that_fails_is_begun_again_by_the_next_fault(
    eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    Client.log, Client.refuses = Log(3, 5, 9), True
    searches = UndecodableBatchProbe({"bootstrap.servers": "kafka:9092"})
    found: list[tuple[Partition, UndecodableRange]] = []

    def ended() -> list[tuple[Partition, UndecodableRange]]:
        assert searches.begin(trouble(3))
        found.extend(searches.ended())
        return found

    with caplog.at_level(logging.INFO):
        said = "Kafka at kafka:9092 did not return it to a second reader: away"
        eventually(lambda: not ended() and said in caplog.text, 10)
    Client.refuses = False
    eventually(ended, 10)
    assert [(place, batch.end) for place, batch in found] == [(PLACE, 5)]
    searches.close()


def test_a_fault_is_looked_into_once(eventually: Eventually) -> None:
    """The fault repeats during the probe. A late repetition must not skip the batch twice."""
    Client.log = Log(3, 5, 9)
    searches = UndecodableBatchProbe({})
    found: list[tuple[Partition, UndecodableRange]] = []

    def ended() -> list[tuple[Partition, UndecodableRange]]:
        found.extend(searches.ended())
        return found

    for _ in range(20):
        searches.begin(trouble(3))
    eventually(ended, 10)
    fetched = len(Client.log.fetches)
    assert searches.begin(trouble(4))
    assert list(searches.ended()) == []
    assert len(Client.log.fetches) == fetched
    Client.log = Log(5, 6, 9)
    searches.begin(trouble(5))
    eventually(lambda: len(ended()) == 2, 10)
    searches.forget(PLACE)
    Client.log = Log(3, 5, 9)
    searches.begin(trouble(3))
    eventually(lambda: len(ended()) == 3, 10)
    searches.close()


@pytest.mark.parametrize(
    "message",
    [
        Message("in", 0, 3, None, b"good"),
        trouble(3, KafkaError._TRANSPORT),
        trouble(3, KafkaError._PARTITION_EOF),
        trouble(3, KafkaError.MSG_SIZE_TOO_LARGE),
        trouble(3, KafkaError._CRIT_SYS_RESOURCE),
        trouble(-1001),
    ],
)
def test_other_faults_are_ignored(message: Message) -> None:
    assert not UndecodableBatchProbe({}).begin(message)


def test_source_reports_no_batch_of_an_earlier_position(eventually: Eventually) -> None:
    """A batch from before a move of the spout would make it skip newly read records."""
    Client.log = Log(3, 6, 9)
    hosts = KafkaHosts("kafka:9092")
    source = KafkaSource(SpoutConfig(hosts, "in", "", "words", client_id="reads"), {})
    source.assign(PLACE, 3)
    assert list(source.read(1)) == []
    searches = source._searches
    eventually(lambda: searches._running[PLACE].done(), 10)
    source.assign(PLACE, 7)
    assert list(source.faults()) == []
    assert [message.offset() for message in source.read(1)] == [7]
    source.assign(PLACE, 4)

    def told() -> bool:
        source.read(1)
        return bool(source.faults())

    eventually(told, 10)
    source.read(1)
    assert list(source.faults()) == [], "it is told once"
    source.close()


class Loop:
    """An event loop that makes calls at once."""

    def call_soon_threadsafe(self, call: Any, *arguments: Any) -> None:
        call(*arguments)


class Owner:
    def __init__(self) -> None:
        self.passed: list[tuple[int, UndecodableRange]] = []
        self.delivered: list[int] = []

    def deliver(self, records: list[Message]) -> None:
        self.delivered += [message.offset() or 0 for message in records]

    def pass_over(self, partition: int, batch: UndecodableRange) -> None:
        self.passed.append((partition, batch))


def test_task_consumer_continues_after_the_batch(eventually: Eventually) -> None:
    """Its owner receives the batch before the first record after it."""
    Client.log = Log(3, 6, 9)
    owner: Any = Owner()
    made = TaskConsumer(
        SETTINGS,
        topic="in",
        group="words",
        session_timeout_ms=6000,
        revoke_secs=10,
        owner=owner,
        loop=Loop(),  # type: ignore[arg-type]
        fatal=lambda error: None,
        log=structlog.get_logger(),
    )
    client: Any = made._consumer
    client.position = 3

    def read() -> list[int]:
        made._turn()
        found: list[int] = owner.delivered
        return found

    eventually(read, 10)
    assert client.seeks == [6]
    assert [(partition, batch.first, batch.end) for partition, batch in owner.passed] == [(0, 3, 6)]
    assert set(owner.delivered) == {6}
    made._searches.close()


def test_completion_reader_continues_after_the_batch(eventually: Eventually) -> None:
    """Otherwise every tree of its spout would time out."""
    Client.log = Log(3, 6, 9)
    owner = Owner()
    fatal: list[Exception] = []
    reader = CompletionsReader(SETTINGS, "in", Loop(), owner.deliver, owner.pass_over, fatal.append)  # type: ignore[arg-type]
    reader._consumer.assign([TopicPartition("in", 0, 3)])
    reader.start()
    eventually(lambda: owner.delivered, 10)
    reader.stop()
    assert [(partition, batch.first, batch.end) for partition, batch in owner.passed] == [(0, 3, 6)]
    assert set(owner.delivered) == {6}
    assert fatal == []
