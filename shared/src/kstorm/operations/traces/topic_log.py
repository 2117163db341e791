"""Read ranges of topics without a consumer group, within a limit of bytes and time."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.errors import BrokerError, ConfigError
from kstorm.operations.trees.tree_reader import TopicRecord
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.client_errors import raise_first_error
from kstorm.runtime.kafka.partition_bounds import partition_bounds

_ASK_SECS: Final = 20.0
_POLL_SECS: Final = 0.1
_BATCH: Final = 500
_AT_ONCE: Final = 16
_TOLD_BYTES: Final = 1_000_000
"""Interval of progress reports."""

PartitionId = tuple[str, int]
"""A topic and one of its partitions."""
Ranges = Mapping[PartitionId, tuple[int, int]]
"""By partition, the first offset and the offset after the last one."""


class ReadBudget:
    """Limits on reading. `tell` is called from time to time with the progress."""

    def __init__(
        self, most_bytes: int, seconds: float, tell: Callable[[str], None] = lambda said: None
    ) -> None:
        self.most_bytes, self.seconds, self._tell = most_bytes, seconds, tell
        self.read = 0
        """Bytes read so far."""
        self.doing = ""
        """Short description of the current step."""
        self._began = time.monotonic()
        self._unsaid = 0

    @property
    def exhausted(self) -> str:
        """Reason why no more may be read, or ""."""
        if self.read >= self.most_bytes:
            return (
                f"{self.read / 1e6:,.0f} MB were read, which is the limit: raise it with --limit-mb"
            )
        if time.monotonic() - self._began >= self.seconds:
            return f"{self.seconds:g} s have passed, which is the limit: raise it with --within"
        return ""

    def spend(self, size: int) -> None:
        self.read += size
        self._unsaid += size
        if self._unsaid < _TOLD_BYTES:
            return
        self._unsaid = 0
        self._tell(f"{self.doing}: {self.read / 1e6:,.0f} MB read")


class PartitionBounds(NamedTuple):
    """Offsets of a partition: the first one, and the one after the last."""

    start: int
    end: int


class TopicLog:
    """Reads topics. Each method raises `BrokerError` if Kafka does not respond or denies access."""

    def __init__(self, settings: Settings, budget: ReadBudget) -> None:
        self._settings, self.budget = settings, budget
        config: dict[str, Any] = {
            **settings.client_config,
            # The client requires a group, but does not join it or commit anything.
            "group.id": "kstorm-trace",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 10,
            "queued.max.messages.kbytes": 64 * 1024,
        }
        self._consumer = Consumer(config)
        self._bounds: dict[PartitionId, PartitionBounds] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def look_again(self) -> None:
        """Forget the cached ends of partitions, because the partitions have grown."""
        self._bounds.clear()

    def bounds(self, place: PartitionId) -> PartitionBounds:
        """Return the bounds of a partition, as of the first call for it."""
        if place not in self._bounds:
            try:
                self._bounds[place] = PartitionBounds(
                    *partition_bounds(self._consumer, TopicPartition(*place), _ASK_SECS)
                )
            except KafkaException as error:
                raise self._error(place[0], error.args[0]) from None
        return self._bounds[place]

    def offsets_at(self, places: Sequence[PartitionId], ms: float) -> dict[PartitionId, int]:
        """Return each partition's first offset at or after a Unix time in ms, or its end."""
        # Each partition needs a separate request.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            bounds = dict(zip(places, pool.map(self.bounds, places), strict=True))
        if ms <= 0:
            return {place: start for place, (start, _) in bounds.items()}
        wanted = [TopicPartition(*place, int(ms)) for place in places]
        try:
            found = self._consumer.offsets_for_times(wanted, timeout=_ASK_SECS)
            raise_first_error(found)
        except KafkaException as error:
            raise self._error(
                ", ".join(sorted({topic for topic, _ in places})), error.args[0]
            ) from None
        offsets = {(place.topic, place.partition): place.offset for place in found}
        return {
            place: end if offsets[place] < 0 else min(max(offsets[place], start), end)
            for place, (start, end) in bounds.items()
        }

    def read(self, ranges: Ranges) -> Iterator[TopicRecord]:
        """Yield the records of some partitions, in order within each partition. Stops early when
        the budget is exhausted."""
        left = {place: end for place, (start, end) in ranges.items() if start < end}
        try:
            self._consumer.assign([TopicPartition(*place, ranges[place][0]) for place in left])
            while left and not self.budget.exhausted:
                yield from self._polled(left)
        except KafkaException as error:
            raise self._error(
                ", ".join(sorted({topic for topic, _ in ranges})), error.args[0]
            ) from None
        finally:
            self._consumer.unassign()

    def headers_at(self, place: PartitionId, offset: int) -> tuple[list[tuple[str, str]], int]:
        """Return a record's headers as text, and its timestamp. Raises `ConfigError` if the record
        does not exist."""
        start, end = self.bounds(place)
        if not start <= offset < end:
            raise ConfigError(
                f"{place[0]}/{place[1]} has the offsets {start} to {end - 1}: {offset} is out of "
                "range"
            )
        self._consumer.assign([TopicPartition(*place, offset)])
        try:
            while not (reason := self.budget.exhausted):
                message = self._consumer.poll(_POLL_SECS)
                if message is not None and message.error() is None and message.offset() == offset:
                    return list(map(_text_of, message.headers() or ())), message.timestamp()[1]
                if message is not None:
                    break
        finally:
            self._consumer.unassign()
        raise ConfigError(
            f"{place[0]}/{place[1]} has no record at {offset}{reason and f': {reason}'}"
        )

    def _polled(self, left: dict[PartitionId, int]) -> Iterator[TopicRecord]:
        polled = self._consumer.consume(1, _POLL_SECS)
        for message in [*polled, *self._consumer.consume(_BATCH, 0)] if polled else ():
            place = (message.topic() or "", message.partition() or 0)
            if place not in left:
                continue
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise self._error(place[0], error)
                del left[place]
                continue
            record = as_record(message)
            self.budget.spend(len(record.value or b""))
            if record.offset < left[place]:
                yield record
            if record.offset >= left[place] - 1:
                self._done(place, left)

    def _done(self, place: PartitionId, left: dict[PartitionId, int]) -> None:
        del left[place]
        if left:
            self._consumer.incremental_unassign([TopicPartition(*place)])

    def _error(self, topic: str, error: KafkaError) -> BrokerError:
        return BrokerError(
            f"{topic!r} cannot be read from Kafka at {self._settings.bootstrap_servers!r}: "
            f"{error.str()}"
        )


def _text_of(header: Any) -> tuple[str, str]:
    name, value = header
    return name, value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def as_record(message: Message) -> TopicRecord:
    """Convert a record of Kafka's client."""
    value = message.value()
    data = value.encode() if isinstance(value, str) else value
    offset = message.offset()
    return TopicRecord(
        message.topic() or "",
        message.partition() or 0,
        -1 if offset is None else offset,
        message.timestamp()[1],
        data,
    )
