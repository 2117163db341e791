"""The reader of completions, and its reaction to a consumer's errors."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.completions import CompletionsReader
from kstorm.runtime.kafka.undecodable import UndecodableRange
from tests.conftest import Eventually


class FakeConsumer:
    """Returns the test's polls in order. `consume` returns the rest of a poll."""

    polls: ClassVar[list[list[Message] | Exception]] = []
    refuses: ClassVar[bool] = False
    made: ClassVar["FakeConsumer"]

    def __init__(self, config: dict[str, Any]) -> None:
        self.rest: list[Message] = []
        self.closed = False
        self.asked: list[list[int]] = []
        self.assigned: list[int] = []
        FakeConsumer.made = self

    def offsets_for_times(
        self, places: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        self.asked.append([place.partition for place in places])
        if FakeConsumer.refuses:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "forbidden"))
        return [TopicPartition(place.topic, place.partition, 7) for place in places]

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        assert {place.offset for place in places} == {7}
        self.assigned += [place.partition for place in places]

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for place in places:
            self.assigned.remove(place.partition)

    def poll(self, _: float) -> Message | None:
        if not FakeConsumer.polls:
            return None
        polled = FakeConsumer.polls.pop(0)
        if isinstance(polled, Exception):
            raise polled
        first, *self.rest = polled
        return first

    def consume(self, count: int, timeout: float) -> list[Message]:
        return self.rest

    def close(self) -> None:
        self.closed = True


def record(value: bytes) -> Message:
    return Message("news", 0, 1, None, value)


def trouble(code: int, reason: str, fatal: bool = False) -> Message:
    return Message("news", 0, 1, None, None, error=KafkaError(code, reason, fatal))


class Reader:
    """A reader on the fake consumer, with its records, errors and log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kstorm.runtime.kafka.completions.Consumer", FakeConsumer)
        self.delivered: list[list[Message]] = []
        self.fatal: list[Exception] = []
        self._loop = asyncio.new_event_loop()
        # Calls for the loop's thread run at once.
        monkeypatch.setattr(
            self._loop, "call_soon_threadsafe", lambda call, *arguments: call(*arguments)
        )
        self.thread = CompletionsReader(
            Settings(topology="unused"),
            "news",
            self._loop,
            self.delivered.append,
            self._pass_over,
            self.fatal.append,
        )

    def _pass_over(self, partition: int, batch: UndecodableRange) -> None:
        raise AssertionError(f"nothing here is undecodable, and {batch} was passed over")

    def read(self, *polls: list[Message] | Exception) -> None:
        FakeConsumer.polls = list(polls)
        self.thread.start()

    def call(self, *calls: Coroutine[Any, Any, None]) -> list[BaseException | None]:
        """Make the calls at the same time, and start the thread once all have been made."""

        async def all_of_them() -> list[BaseException | None]:
            made = [asyncio.ensure_future(call) for call in calls]
            await asyncio.sleep(0)
            self.thread.start()
            return await asyncio.gather(*made, return_exceptions=True)

        return asyncio.run(all_of_them())

    def close(self) -> None:
        if self.thread.is_alive():
            self.thread.stop()
        self._loop.close()


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.setattr(FakeConsumer, "refuses", False)
    made = Reader(monkeypatch)
    yield made
    made.close()


def test_temporary_error_is_reported_once_per_change(
    reader: Reader, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """Repeated errors in a thousand polls are reported once, and again after a successful read."""
    away, gone = (
        trouble(KafkaError._TRANSPORT, "a broker is away"),
        trouble(KafkaError.UNKNOWN_TOPIC_OR_PART, "no topic"),
    )
    end = trouble(KafkaError._PARTITION_EOF, "the end")
    first, second = record(b"1"), record(b"2")
    with caplog.at_level(logging.WARNING):
        reader.read([away], [away, away], [gone], [end], [gone, first], [away], [second])
        eventually(lambda: len(reader.delivered) == 2, 10)
    assert reader.delivered == [[first], [second]]
    assert [line.getMessage() for line in caplog.records] == [
        "reading 'news': a broker is away",
        "reading 'news': no topic",
        "reading 'news': a broker is away",
    ]
    assert reader.fatal == []


@pytest.mark.parametrize(
    ("polled", "says"),
    [
        (
            [trouble(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed")],
            (
                "Kafka does not let this user read 'news': Topic authorization failed; allow it READ "
                "on the topic"
            ),
        ),
        (
            [trouble(KafkaError._FATAL, "all is lost")],
            "reading 'news' failed permanently: all is lost",
        ),
        (
            [trouble(KafkaError.UNKNOWN_MEMBER_ID, "stranger", fatal=True)],
            "reading 'news' failed permanently: stranger",
        ),
        (
            KafkaException(KafkaError(KafkaError._FATAL, "raised")),
            "reading 'news' failed permanently: raised",
        ),
    ],
    ids=["not allowed", "fatal", "fatal by its flag", "fatal and raised"],
)
def test_errors_that_do_not_pass_end_the_process(
    reader: Reader, eventually: Eventually, polled: list[Message] | Exception, says: str
) -> None:
    """Otherwise the spout would wait forever for completions."""
    reader.read(polled)
    eventually(lambda: reader.fatal, 10)
    (error,) = reader.fatal
    assert isinstance(error, BrokerError)
    assert str(error) == says


def test_ends_of_all_new_tasks_are_looked_up_together(reader: Reader) -> None:
    """A look-up for each would wait for the fetch of the tasks before. A task that left in the
    meantime is not read."""
    add, remove = reader.thread.add, reader.thread.remove
    assert reader.call(add(3), add(0), add(5), remove(0)) == [None] * 4
    assert FakeConsumer.made.asked == [[3, 5]]
    assert FakeConsumer.made.assigned == [3, 5]


def test_unknown_end_fails_every_task_that_waits(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeConsumer, "refuses", True)
    for error in reader.call(reader.thread.add(3), reader.thread.add(1)):
        assert isinstance(error, BrokerError)
        assert str(error) == "the end of 'news', partition 1, 3, cannot be read: forbidden"
    assert reader.fatal == []
