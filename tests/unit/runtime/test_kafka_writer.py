"""The `KafkaBolt`'s writer on librdkafka's mock broker: its reports, and its fatal errors."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kstorm.errors import BrokerError
from kstorm.kafka.ports import KAFKA
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.sink import KafkaWriter
from kstorm.runtime.service.resources import Resources

MOCK = {"test.mock.num.brokers": 1, "log_level": 0}


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Switch the garbage collector off, so that reference cycles are never freed."""
    gc.disable()
    yield
    gc.enable()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("headers", [None, [[("name", "value")]] * 3])
async def test_a_batch_is_reported_without_the_garbage_collector(
    no_collector: None, headers: Any
) -> None:
    """A report is freed after its last record, also if records were refused."""
    writer = KafkaWriter(MOCK)
    ends: list[list[object]] = []
    writer.write_batch(
        "t", ["k"] * 3, ["a", "b", "c"], lambda errors: ends.append(list(errors)), headers
    )
    writer.write_batch(
        "t",
        ["k"] * 3,
        ["a", "\ud800", "x" * 2_000_000],
        lambda errors: ends.append(list(errors)),
        headers,
    )
    await until(lambda: len(ends) == 2)
    assert sorted(map(len, ends)) == [0, 2]
    await writer.close()


class HoldingProducer:
    """A producer that delivers a record at the second poll, and keeps references to all reports."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.reports: list[Any] = []
        self.polls = self.outstanding = 0

    def __len__(self) -> int:
        return self.outstanding

    def poll(self, _: float) -> int:
        self.polls += 1
        if self.polls > 1:
            self.outstanding = 0
        return 0

    def produce(self, topic: str, value: object, key: object, partition: int, report: Any) -> None:
        self.reports.append(report)
        self.outstanding += 1


async def test_a_stray_reference_does_not_prevent_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty queue means that every record has ended."""
    monkeypatch.setattr("kstorm.runtime.kafka.sink.Producer", HoldingProducer)
    writer = KafkaWriter({})
    ends: list[object] = []
    writer.write_batch("t", ["k"] * 2, ["a", "b"], ends.append)
    writer.write("t", b"k", b"c", lambda *end: ends.append(end))
    await until(lambda: len(ends) == 2)
    assert ends == [[], (None, None)]
    await writer.close()


class OneByOneProducer(HoldingProducer):
    """Delivers one record per poll, the latest first, and keeps references to the others."""

    def poll(self, _: float) -> int:
        if self.reports:
            del self.reports[-1]
        return 0

    def __len__(self) -> int:
        return len(self.reports)


async def test_reports_do_not_wait_for_earlier_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition without a leader would otherwise delay all others."""
    monkeypatch.setattr("kstorm.runtime.kafka.sink.Producer", OneByOneProducer)
    writer = KafkaWriter({})
    ends: list[str] = []
    for name in "abc":
        writer.write_batch("t", ["k"], ["v"], lambda _, name=name: ends.append(name))  # type: ignore[misc]
    await until(lambda: len(ends) == 3)
    assert ends == ["c", "b", "a"]
    await writer.close()


async def test_batch_report_that_raises_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kstorm.runtime.kafka.sink.Producer", HoldingProducer)
    shown: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, shows: shown.append(shows))
    writer = KafkaWriter({})
    ends: list[object] = []

    def raises(errors: object) -> None:
        raise ValueError("in a report")

    writer.write_batch("t", ["k"], ["a"], raises)
    writer.write_batch("t", ["k"], ["b"], ends.append)
    await until(lambda: ends)
    assert len(shown) == 1
    await writer.close()


async def test_a_single_record_is_reported_without_the_garbage_collector(
    no_collector: None,
) -> None:
    """A success is reported once and without an offset. A record that is refused at once raises."""
    writer = KafkaWriter(MOCK)
    ends: list[tuple[object, object]] = []
    writer.write("t", b"k", b"v", lambda *end: ends.append(end))
    with pytest.raises(BrokerError, match=r"a record for topic 't' was refused: .*too large"):
        writer.write("t", b"k", b"x" * 2_000_000, lambda *end: ends.append(end))
    await until(lambda: ends)
    assert ends == [(None, None)]
    await writer.close()


async def test_callback_receives_the_offset_of_each_record() -> None:
    """The bolt's callback needs it. Batches are also reported without errors."""
    writer = KafkaWriter(MOCK, {"delivery.report.only.error": False})
    found: list[Any] = []
    batches: list[object] = []
    for value in (b"1", b"2"):
        writer.write("t", b"k", value, lambda error, record: found.append((error, record)))
    await until(lambda: len(found) == 2)
    assert [error for error, _ in found] == [None, None]
    assert [(record.topic(), record.offset()) for _, record in found] == [("t", 0), ("t", 1)]
    writer.write_batch("t", ["k", "k"], ["3", "4"], batches.append)
    await until(lambda: batches)
    assert batches == [[]]
    await writer.close()


class HoardingProducer:
    """Delivers the first record, keeps its report, and has another record in flight forever."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.reports: list[Any] = []

    def __len__(self) -> int:
        return 1

    def poll(self, _: float) -> int:
        if self.reports:
            self.reports[0](None, None)
        return 1

    def produce(self, topic: str, value: object, key: object, partition: int, report: Any) -> None:
        self.reports.append(report)


async def test_stored_offset_of_a_spout_does_not_depend_on_reference_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker's report alone settles the range below the offset."""
    monkeypatch.setattr("kstorm.runtime.kafka.sink.Producer", HoardingProducer)
    settings = Settings(topology="unused", bootstrap_servers="kafka:9092")
    writer = Resources(settings).lent[KAFKA].open_writer({})
    written: list[Any] = []
    for key in (b"1", b"2"):
        writer.write("t.__finished", key, b"v", lambda *end: written.append(end))
    await until(lambda: written)
    assert written[0] == (None, None)


class FatalProducer:
    """A producer without permission to write, with the behaviour of confluent-kafka and a real broker.

    Queued records fail with their own error. Later, when none is in flight, `poll` raises the fatal
    error once. A further record is refused with an error without the cause. No `error_cb` is called.
    """

    fatal = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "may write nothing", fatal=True)
    refused = KafkaError(KafkaError._FATAL, "Unable to produce message: Local: Fatal error")

    def __init__(self, config: dict[str, Any]) -> None:
        self.waiting: list[Any] = []
        self.polls = 0
        self.told = False

    def __len__(self) -> int:
        return len(self.waiting)

    def poll(self, _: float) -> int:
        self.polls += 1
        if self.polls > 1 and not self.told:
            self.told = True
            raise KafkaException(self.fatal)
        while self.waiting:
            self.waiting.pop()(
                KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not this topic"), None
            )
        return 1

    def produce(self, topic: str, value: object, key: object, partition: int, report: Any) -> None:
        if self.polls:
            raise KafkaException(self.refused)
        self.waiting.append(report)


class SlowlyFatalProducer(FatalProducer):
    """Reports the fatal error while records are in flight."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.polls = 1

    def produce(self, topic: str, value: object, key: object, partition: int, report: Any) -> None:
        self.waiting.append(report)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("own", [None, {"acks": "all"}])
async def test_fatal_producer_error_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str] | None, batch: bool
) -> None:
    """This holds for the process's producer and for one of the bolt's own.

    The error names the address, the topic and the remedy. It comes as soon as the cause is known.
    """
    monkeypatch.setattr("kstorm.runtime.kafka.sink.Producer", FatalProducer)
    ends: list[Exception] = []
    ports = Resources(
        Settings(topology="unused", bootstrap_servers="kafka:9092"), ends.append
    ).lent[KAFKA]
    writer = ports.open_shared_writer() if own is None else ports.open_writer(own)
    ended: list[Any] = []
    writer.write("counts", b"k", b"v", lambda *end: ended.append(end))
    await until(lambda: ended)
    assert ended[0][0].str() == "not this topic"
    assert ends == []
    if batch:
        writer.write_batch("counts", ["k"], ["v"], ended.extend)
        await until(lambda: ended[1:])
        assert ended[1:] == [FatalProducer.refused.str()]
    else:
        with pytest.raises(
            BrokerError, match="a record for topic 'counts' was refused: Unable to produce"
        ):
            writer.write("counts", b"k", b"v", lambda *end: ended.append(end))
    for part in (
        "topic 'counts' of Kafka at kafka:9092",
        "may write nothing",
        "allow its user WRITE on that topic",
    ):
        assert part in str(ends[0])


async def test_fatal_error_is_reported_with_records_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The records are still reported."""
    monkeypatch.setattr("kstorm.runtime.kafka.sink.Producer", SlowlyFatalProducer)
    ends: list[Exception] = []
    ended: list[object] = []
    writer = KafkaWriter({"bootstrap.servers": "kafka:9092"}, None, ends.append)
    writer.write_batch("counts", ["k"], ["v"], ended.extend)
    await until(lambda: ends and ended)
    assert ["may write nothing" in str(end) for end in ends] == [True]


async def test_raising_report_does_not_stop_later_reports() -> None:
    """The event loop handles the exception, and polling continues."""
    writer = KafkaWriter(MOCK, {"delivery.report.only.error": False})
    heard: list[Any] = []
    shown: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, shows: shown.append(shows))

    def report(error: object, record: object) -> None:
        heard.append(record)
        raise ValueError("in a report")

    writer.write("t", b"k", b"1", report)
    await until(lambda: shown)
    for value in (b"2", b"3"):
        writer.write("t", b"k", value, lambda _, record: heard.append(record))
    await until(lambda: len(heard) == 3)
    await writer.close()


ALONE = """
import asyncio
from kstorm.runtime.kafka import sink
from tests.unit.runtime.test_kafka_writer import SlowlyFatalProducer

async def main():
    sink.Producer = SlowlyFatalProducer
    sink.KafkaWriter({"bootstrap.servers": "kafka:9092"}).write_batch("counts", ["k"], ["v"], print)
    await asyncio.sleep(20)

asyncio.run(main())
"""


def test_by_default_it_ends_the_process() -> None:
    """The process exits at once and prints the reason."""
    ended = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "a producer can no longer write to topic 'counts' of Kafka at kafka:9092" in ended.stderr
