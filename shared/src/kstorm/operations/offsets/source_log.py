"""Offsets of a spout's source topic in Kafka, read in the same way as by the spout, so that both
agree."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from kstorm.errors import BrokerError
from kstorm.kafka import EARLIEST_TIME, LATEST_TIME
from kstorm.kafka.ports import Broker, Partition, SourceReader
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.runtime.kafka.source import KafkaSource

_PATIENCE_SECS: Final = 20.0
_LOOK_SECS: Final = 0.01

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogRange:
    start: int
    """First offset that the broker still has."""
    end: int
    """Offset after the last one."""
    leader: Broker


class SourceLog:
    """The logs of a topic's partitions. Each method raises `BrokerError` if Kafka does not respond."""

    def __init__(self, source: SourceReader, topic: str) -> None:
        self._source, self._topic = source, topic

    def partitions(self) -> Mapping[Partition, LogRange]:
        """Return every partition, in order."""
        self._source.refresh(self._topic)
        leaders = self._answer(lambda: self._source.partitions(self._topic))
        if not leaders:
            self._raise_faults()  # a topic given by name may not exist
        starts = self.offsets_at(list(leaders), EARLIEST_TIME)
        ends = self.offsets_at(list(leaders), LATEST_TIME)
        return {
            partition: LogRange(starts[partition], ends[partition], leader)
            for partition, leader in leaders.items()
        }

    def offsets_at(self, partitions: Sequence[Partition], moment: int) -> Mapping[Partition, int]:
        """Return each partition's first offset at or after a Unix time in ms.

        `EARLIEST_TIME` and `LATEST_TIME` are allowed too.
        """
        found: dict[Partition, int] = {}

        def ask() -> Mapping[Partition, int] | None:
            for partition in partitions:
                if (
                    partition not in found
                    and (offset := self._source.offset_for(partition, moment)) is not None
                ):
                    found[partition] = offset
            return found if len(found) == len(partitions) else None

        return self._answer(ask)

    def show_as_group(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets to the consumer group for display, as the spout does."""
        for partition, offset in offsets.items():
            self._source.commit(partition, offset)

    def _answer(self, ask: Callable[[], T | None]) -> T:
        deadline = time.monotonic() + _PATIENCE_SECS
        while (found := ask()) is None:
            self._raise_faults()
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"Kafka did not describe the topic {self._topic!r} "
                    f"within {_PATIENCE_SECS:.0f} s"
                )
            time.sleep(_LOOK_SECS)
        return found

    def _raise_faults(self) -> None:
        for fault in self._source.faults():
            raise BrokerError(fault.reason)


@contextmanager
def open_log(reading: SpoutOffsets) -> Iterator[SourceLog]:
    source = KafkaSource(
        reading.config, reading.settings.client_config, reading.settings.zookeeper_tls
    )
    try:
        yield SourceLog(source, reading.config.topic)
    finally:
        source.close()
