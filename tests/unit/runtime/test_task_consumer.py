"""A task starts at the group's committed offset. Without a valid answer, it does not start."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import Mock

import pytest
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from structlog.testing import capture_logs

from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka import consumer as consumer_module
from kstorm.runtime.kafka.consumer import TaskConsumer, TaskOwner

PLACES = [TopicPartition("in", 0), TopicPartition("in", 1)]


class Committed:
    """One partition in the result of `Consumer.committed`.

    A test cannot set the error of the real class.
    """

    def __init__(self, partition: int, offset: int, error: KafkaError | None = None) -> None:
        self.topic, self.partition, self.offset, self.error = "in", partition, offset, error


class Group:
    """A `Consumer` whose group answers with offsets or an exception."""

    def __init__(self, answer: list[Committed] | Exception) -> None:
        self._answer = answer

    def committed(self, places: list[TopicPartition], timeout: float) -> list[Committed]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[Committed]:
        """Returns 10 as the end of each partition."""
        return [Committed(place.partition, 10) for place in places]


class Silent:
    """A `Consumer` whose `close` blocks until the test continues it."""

    def __init__(self, consumer: Consumer, answers: threading.Event) -> None:
        self._consumer, self._answers = consumer, answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def close(self) -> None:
        assert self._answers.wait(30)


@contextmanager
def consumer(**more: Any) -> Iterator[TaskConsumer]:
    """Builds a consumer without a connection."""
    loop = asyncio.new_event_loop()
    made = TaskConsumer(
        Settings(
            topology="a:b",
            bootstrap_servers="kafka:9092",
            kafka_properties={"test.mock.num.brokers": "1"},
        ),
        topic="in",
        group="words",
        session_timeout_ms=6000,
        revoke_secs=10,
        owner=cast("TaskOwner", None),
        loop=loop,
        fatal=lambda error: None,
        log=structlog.get_logger(),
        **more,
    )
    try:
        yield made
    finally:
        made._consumer.close()
        loop.close()


def test_a_close_that_never_returns_keeps_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without brokers, librdkafka's `close` sometimes does not return."""
    monkeypatch.setattr(consumer_module, "_CLOSE_SECONDS", 0.2)
    answers = threading.Event()
    with consumer() as made, capture_logs() as logs:
        real = made._consumer
        made._consumer = cast("Consumer", Silent(real, answers))
        made.start()
        made.stop()
        made._consumer = real
        answers.set()
    assert logs[-1]["event"] == "consumer_not_closed"


class Fetched:
    """A `Consumer` that has fetched messages of a given size."""

    def __init__(self, messages: int, size: int) -> None:
        self._left, self._size = messages, size

    def consume(self, most: int, timeout: float) -> list[bytes]:
        found = min(most, self._left)
        self._left -= found
        return [bytes(self._size)] * found


@pytest.mark.parametrize(
    ("fetched", "size", "polled"),
    [(0, 10, 1), (7, 10, 8), (350, 10, 351), (5000, 10, 1001), (5000, 1000, 301), (9, 300_000, 1)],
    ids=["nothing more", "few", "all", "many small ones", "medium ones", "large ones"],
)
def test_a_poll_is_limited_by_bytes(fetched: int, size: int, polled: int) -> None:
    """Many small records are executed together, but only a few large ones."""
    with consumer() as made:
        real, made._consumer = made._consumer, cast("Consumer", Fetched(fetched, size))
        try:
            assert len(made._ready_after(cast("Message", bytes(size)))) == polled
        finally:
            made._consumer = real


class OneRecordAPoll:
    """A `Consumer` that has one more record of 100 bytes at each poll."""

    def poll(self, timeout: float) -> Any:
        return self

    def consume(self, most: int, timeout: float) -> list[Any]:
        return []

    def error(self) -> None:
        return None

    def __len__(self) -> int:
        return 100


class RecordedWaits(threading.Event):
    """Waits no time, but records for how long it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return False


def test_the_next_poll_gathers() -> None:
    """The pause is measured from the poll before, and begins after records only."""
    with consumer(gathering=lambda records, size: records * size) as made:
        real, made._consumer = made._consumer, cast("Consumer", OneRecordAPoll())
        made._stopping = waits = RecordedWaits()
        made._owner = Mock()
        try:
            made._turn()
            made._turn()
        finally:
            made._consumer = real
    assert waits.waits == [0.0, pytest.approx(100, abs=10)]


def committed(answer: list[Committed] | Exception) -> dict[int, int]:
    """Returns the start offsets of a consumer's tasks after this answer."""
    with consumer() as made:
        return made._committed(cast("Consumer", Group(answer)), PLACES)


def test_tasks_begin_where_the_group_is() -> None:
    """Without a committed offset, a task starts at 0."""
    assert committed([Committed(0, 7), Committed(1, -1001)]) == {0: 7, 1: 0}


@pytest.mark.parametrize(
    "answer",
    [
        [Committed(0, 7), Committed(1, -1001, KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))],
        KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)),
    ],
    ids=["for one partition", "for all"],
)
def test_offsets_that_cannot_be_read_begin_no_task(answer: Any) -> None:
    """A partition with an error has no offset.

    Without the check, the task would execute its whole log.
    """
    with pytest.raises(
        BrokerError,
        match=r"offsets of the group 'words' cannot be read from Kafka at kafka:9092: .*Group",
    ):
        committed(answer)


def test_group_metadata_is_requested_once_per_rebalance() -> None:
    """Each transaction needs it, and the consumer's thread responds only between two polls."""

    async def ask(made: TaskConsumer, *, anew: bool = False, served: bool) -> Any:
        asking = asyncio.ensure_future(made.group_metadata(anew=anew))
        await asyncio.sleep(0)
        assert asking.done() != served, "who is asked for is not known yet"
        if served:
            made._orders.serve()
        return await asyncio.wait_for(asking, 10)

    async def run(made: TaskConsumer) -> None:
        first = await ask(made, served=True)
        assert await ask(made, served=False) is first
        assert await ask(made, anew=True, served=True) is not first
        made._release(made._consumer, [], lost=False)
        await ask(made, served=True)

    with consumer() as made:
        asyncio.run(run(made))
