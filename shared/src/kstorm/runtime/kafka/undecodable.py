"""Batches that librdkafka cannot decode: whether one stays so, and how far it reaches.

In place of such a batch librdkafka gives an error, the same at each fetch, or nothing (`silence`), and never goes behind it: the
partition stands still. The batch may be damaged, or hold more than `receive.message.max.bytes` once it is decompressed; or one
record of it is broken, and those behind that can be read. Which offset is the last is not told. So a client of its own fetches from
offsets behind the first one until it meets something else, first in steps that double and then in steps that are halved, as a batch
may hold a hundred thousand records. A batch that can be read after all is left alone.
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
from kstorm.runtime.kafka.silence import Silences
from kstorm.runtime.kafka.statistics import Statistics, read_statistics

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
_SILENT: Final = "librdkafka fetches it again and again, and gives neither a record nor an error"


class Undecodable(NamedTuple):
    """A batch of which no record can be read."""

    first: int
    end: int
    """The offset behind its last."""
    reason: str


class _Fault(NamedTuple):
    """What a fetch gives of such a batch."""

    reason: str
    first: int | None
    """The batch's first offset; None if nothing is told."""


class Searches:
    """Looks into what one reader could not decode, on a thread beside it. All is called by the reader's thread.

    `properties` are the reader's. A partition about which something was found stands until it is forgotten, or something is
    wrong behind that.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = properties
        self._closing = threading.Event()
        self._pool: ThreadPoolExecutor | None = None
        self._running: dict[Partition, Future[Undecodable | None]] = {}
        self._passed: dict[Partition, int] = {}
        self._silences = Silences()

    def begin(self, message: Message) -> bool:
        """Whether a message stands for what cannot be decoded. Then that is looked into, unless it is already."""
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

    def heard(self, statistics: Statistics, read: Collection[Partition]) -> None:
        """Takes notice of the reader's statistics; what is silent among the partitions that it fetches now is looked into."""
        for place, offset in self._silences.heard(statistics, read):
            self._suspect(place, offset, _SILENT)

    def _suspect(self, place: Partition, offset: int, why: str) -> None:
        if place not in self._running and offset >= self._passed.get(place, 0):
            log.warning("%s[%d] cannot be read at offset %d: %s", *place, offset, why)
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="undecodable")
            self._running[place] = self._pool.submit(self._look, place, offset)

    def ended(self) -> Iterator[tuple[Partition, Undecodable]]:
        """What was found since the last call. A fault that has passed is none."""
        for place in [place for place, running in self._running.items() if running.done()]:
            try:
                found = self._running.pop(place).result()
            except BrokerError as error:  # the reader will say once more that it cannot go on
                log.warning("%s", error)
                continue
            if found is not None:
                self._passed[place] = found.end
                yield place, found

    def forget(self, place: Partition) -> None:
        """The partition is another's, or is read from elsewhere."""
        self._running.pop(place, None)
        self._passed.pop(place, None)

    def close(self) -> None:
        """Ends what is under way; waits a moment for it."""
        self._closing.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _look(self, place: Partition, offset: int) -> Undecodable | None:
        return look(self._properties, place, offset, self._closing)


def look(
    properties: Mapping[str, Any], place: Partition, offset: int, closing: threading.Event
) -> Undecodable | None:
    """The batch at an offset that could not be decoded; None if it can be by now. Blocks. Raises `BrokerError`."""
    probe = _Probe(properties, place, closing)
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
        end = end_of(lambda at: _begins(probe.fault_at(at)) == (begins,), first, high)
    finally:
        probe.close()
    return Undecodable(
        first, end, f"the batch of offsets {first} to {end - 1} cannot be decoded: {reason}"
    )


def _begins(fault: _Fault | None) -> tuple[int | None, ...]:
    return () if fault is None else (fault.first,)


def end_of(is_in: Callable[[int], bool], first: int, high: int) -> int:
    """The lowest offset above `first` that is not in a batch; `high` is in none."""
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


class _Probe:
    """Fetches from single offsets, as the reader would, and says what comes first."""

    def __init__(
        self, properties: Mapping[str, Any], place: Partition, closing: threading.Event
    ) -> None:
        self._place, self._closing = place, closing
        self._silences, self._silent = Silences(), False
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
        """The partition's first offset, and its end."""
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(*self._place), _PATIENCE_SECS
            )
        except KafkaException as error:
            raise self._failed(error.args[0].str()) from None
        return low, high

    def fault_at(self, offset: int) -> _Fault | None:
        """What is given of a batch that cannot be decoded, if that is the first thing from an offset on."""
        try:
            self._consumer.assign([TopicPartition(*self._place, offset)])
            self._silences, self._silent = Silences(), False
            deadline = time.monotonic() + _PATIENCE_SECS
            while time.monotonic() < deadline and not self._closing.is_set():
                message = self._consumer.poll(_POLL_SECS)
                error = None if message is None else message.error()
                if message is None:
                    if self._silent:
                        return _Fault(_SILENT, None)
                elif error is None or error.code() == KafkaError._PARTITION_EOF:
                    return None
                elif error.code() in _CODES:
                    return _Fault(error.str(), message.offset())
                elif error.code() in _GONE:
                    raise self._failed(error.str())
        except KafkaException as error:
            raise self._failed(error.args[0].str()) from None
        raise self._failed(f"no answer in {_PATIENCE_SECS:.0f} s")

    def _heard(self, statistics: str) -> None:
        self._silent = any(self._silences.heard(read_statistics(statistics), [self._place]))

    def close(self) -> None:
        self._consumer.close()

    def _failed(self, reason: str) -> BrokerError:
        topic, partition = self._place
        return BrokerError(
            f"how far a batch of {topic}[{partition}] reaches that cannot be decoded is not known, as Kafka at {self._brokers} "
            f"did not tell it: {reason}"
        )
