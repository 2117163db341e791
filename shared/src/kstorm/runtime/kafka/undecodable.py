"""Examines batches that librdkafka cannot decode: whether the error persists, and where the batch
ends.

Instead of such a batch, librdkafka returns the same error at each fetch, or nothing at all
(`stuck_fetch`). It never skips the batch, so the partition is stuck. The batch may be damaged, or
larger than `receive.message.max.bytes` when decompressed. Or one record in it is broken, and later
ones can be read. librdkafka does not report the last offset. So a separate client fetches from
later offsets until the result differs. The client's steps are first doubled and then halved,
because a batch may contain a hundred thousand records. If the batch can be decoded after all,
nothing is skipped.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kstorm.errors import BrokerError
from kstorm.kafka.cluster import Partition
from kstorm.runtime.kafka.statistics import ClientStatistics, read_statistics
from kstorm.runtime.kafka.stuck_fetch import StuckFetchDetector

log = logging.getLogger(__name__)

_CODES: Final = (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG, KafkaError._NOT_IMPLEMENTED)
_GONE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_TRIES: Final = 3
_BETWEEN_TRIES_SECS: Final = 0.3
_POLL_SECS: Final = 0.2
_PATIENCE_SECS: Final = 20.0
_NOT_THE_PROBES: Final = (
    "error_cb",
    "on_commit",
    "stats_cb",
    "statistics.interval.ms",
    "group.instance.id",
)
_SILENT: Final = "librdkafka fetches it repeatedly, but returns neither a record nor an error"


class UndecodableRange(NamedTuple):
    """A batch in which no record can be decoded."""

    first: int
    end: int
    """The offset after the last one."""
    reason: str


class _FetchFault(NamedTuple):
    """Result of fetching such a batch."""

    reason: str
    first: int | None
    """The batch's first offset, or None if librdkafka does not report it."""


class UndecodableBatchProbe:
    """Examines undecodable offsets of one reader on a separate thread.

    All methods are called on the reader's thread. `properties` are those of the reader. After a
    result, errors at earlier offsets of that partition are ignored until `forget`.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = properties
        self._closing = threading.Event()
        self._pool: ThreadPoolExecutor | None = None
        self._running: dict[Partition, Future[UndecodableRange | None]] = {}
        self._passed: dict[Partition, int] = {}
        self._silences = StuckFetchDetector()

    def begin(self, message: Message) -> bool:
        """Examine a message that reports an undecodable batch. Returns False for other messages."""
        error, offset, number = message.error(), message.offset(), message.partition()
        if (
            error is None
            or error.code() not in _CODES
            or offset is None
            or offset < 0
            or number is None
        ):
            return False
        self._suspect(Partition(str(message.topic()), number), offset, error.str())
        return True

    def heard(self, statistics: ClientStatistics, read: Collection[Partition]) -> None:
        """Examine the partitions that are stuck according to the reader's statistics. `read`
        contains those being fetched."""
        for place, offset in self._silences.heard(statistics, read):
            self._suspect(place, offset, _SILENT)

    def _suspect(self, place: Partition, offset: int, why: str) -> None:
        if place not in self._running and offset >= self._passed.get(place, 0):
            log.info("%s[%d] may not be readable at offset %d: %s", *place, offset, why)
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="undecodable")
            self._running[place] = self._pool.submit(self._look, place, offset)

    def ended(self) -> Iterator[tuple[Partition, UndecodableRange]]:
        """Yield the results since the last call. Temporary errors produce none."""
        for place in [place for place, running in self._running.items() if running.done()]:
            try:
                found = self._running.pop(place).result()
            except BrokerError as error:  # the reader will report the error again
                log.info("%s", error)
                continue
            if found is None:
                log.info("%s[%d] can be read after all", *place)
                continue
            log.warning(
                "%s[%d] cannot be read from offset %d to %d", *place, found.first, found.end
            )
            self._passed[place] = found.end
            yield place, found

    def forget(self, place: Partition) -> None:
        """Forget a partition that was reassigned or is read from another offset."""
        if self._running.pop(place, None) is not None:
            log.info("%s[%d] is no longer examined, because it is read elsewhere", *place)
        self._passed.pop(place, None)

    def close(self) -> None:
        """Cancel pending work, and wait a moment for it."""
        self._closing.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _look(self, place: Partition, offset: int) -> UndecodableRange | None:
        return probe_batch(self._properties, place, offset, self._closing)


def probe_batch(
    properties: Mapping[str, Any], place: Partition, offset: int, closing: threading.Event
) -> UndecodableRange | None:
    """Return the undecodable batch at an offset, or None if it can be decoded now.

    Blocks. Raises `BrokerError`.
    """
    probe = _OffsetProbe(properties, place, offset, closing)
    try:
        low, high = probe.bounds()
        first, reason = max(offset, low), ""
        for attempt in range(_TRIES):
            if attempt:
                closing.wait(_BETWEEN_TRIES_SECS)
            fault = probe.fault_at(first)
            if fault is None or fault.first not in (offset, None):
                return None
            reason, begins = fault
        end = batch_end(lambda at: _begins(probe.fault_at(at)) == (begins,), first, high)
    finally:
        probe.close()
    return UndecodableRange(
        first, end, f"the batch of offsets {first} to {end - 1} cannot be decoded: {reason}"
    )


def _begins(fault: _FetchFault | None) -> tuple[int | None, ...]:
    return () if fault is None else (fault.first,)


def batch_end(is_in: Callable[[int], bool], first: int, high: int) -> int:
    """Return the lowest offset above `first` that is not in a batch. `high` is assumed to be
    outside."""
    last, step = first, 1
    while first + step < high and is_in(first + step):
        last, step = first + step, 2 * step
    end = min(first + step, high)
    while end - last > 1:
        middle = (last + end) // 2
        if is_in(middle):
            last = middle
        else:
            end = middle
    return max(end, first + 1)


class _OffsetProbe:
    """Fetches from single offsets like the reader, and returns the first result."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        place: Partition,
        offset: int,
        closing: threading.Event,
    ) -> None:
        self._place, self._offset, self._closing = place, offset, closing
        self._silences, self._silent = StuckFetchDetector(), False
        own = {name: value for name, value in properties.items() if name not in _NOT_THE_PROBES}
        self._brokers = own.get("bootstrap.servers")
        self._consumer = Consumer(
            {
                **own,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "fetch.error.backoff.ms": 10,
                "statistics.interval.ms": 200,
                "stats_cb": self._heard,
            }
        )

    def bounds(self) -> tuple[int, int]:
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(*self._place), _PATIENCE_SECS
            )
        except KafkaException as error:
            raise self._failed(error.args[0].str()) from None
        return low, high

    def fault_at(self, offset: int) -> _FetchFault | None:
        """Return the fault if the first batch from an offset on is undecodable."""
        try:
            self._consumer.assign([TopicPartition(*self._place, offset)])
            self._silences, self._silent = StuckFetchDetector(), False
            deadline = time.monotonic() + _PATIENCE_SECS
            while time.monotonic() < deadline and not self._closing.is_set():
                message = self._consumer.poll(_POLL_SECS)
                error = None if message is None else message.error()
                if message is None:
                    if self._silent:
                        return _FetchFault(_SILENT, None)
                elif error is None or error.code() == KafkaError._PARTITION_EOF:
                    return None
                elif error.code() in _CODES:
                    return _FetchFault(error.str(), message.offset())
                elif error.code() in _GONE:
                    raise self._failed(error.str())
        except KafkaException as error:
            raise self._failed(error.args[0].str()) from None
        raise self._failed(f"no response within {_PATIENCE_SECS:.0f} s")

    def _heard(self, statistics: str) -> None:
        self._silent = any(self._silences.heard(read_statistics(statistics), [self._place]))

    def close(self) -> None:
        self._consumer.close()

    def _failed(self, reason: str) -> BrokerError:
        topic, partition = self._place
        return BrokerError(
            f"{topic}[{partition}] may be readable or not at offset {self._offset}, because Kafka "
            f"at {self._brokers} did not return it to a second reader: {reason}; the next error at "
            "that offset starts another check"
        )
