"""Protocols for the external clients of `KafkaSpout` and `KafkaBolt`: reading, offsets, writing.

`kstorm.runtime` implements them with librdkafka and kazoo, and `kstorm.testing` in memory.

**Methods that a spout or bolt calls while it works must not block.**

An operation that needs a round trip is started by one call, and a later call returns the result. So
several methods return None if the result is not known yet and the caller should ask again. Only
`flush` and `close` wait, and their docstrings give the time limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from kstorm.errors import KstormError
from kstorm.kafka.cluster import UNKNOWN_BROKER, Broker, Partition
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.message import SourceMessage
from kstorm.kafka.offsets import StoredOffset
from kstorm.topology import TopologyContext

__all__ = [
    "KAFKA",
    "UNKNOWN_BROKER",
    "Broker",
    "Headers",
    "KafkaPorts",
    "OffsetStore",
    "OnBatchDelivery",
    "OnDelivery",
    "Ownership",
    "Partition",
    "PositionReader",
    "RecordColumn",
    "RecordWriter",
    "ReplayRequestReader",
    "SourceFault",
    "SourceMessage",
    "SourceReader",
]

KAFKA = "kafka"
"""Key of the `KafkaPorts` in `TopologyContext.resources`."""


@dataclass(frozen=True, slots=True)
class SourceFault:
    """An error while reading."""

    reason: str
    partition: Partition | None = None
    """The affected partition, or None for the cluster or the whole topic."""
    out_of_range: bool = False
    """True if the broker does not have the offset to read from."""
    undecodable: tuple[int, int] | None = None
    """The first offset, and the offset after the last one, of messages that can never be decoded.
    Everything before them has been read. Later offsets are read only after the partition is
    assigned again."""


class SourceReader(Protocol):
    """Reads the partitions assigned by the caller from the given offsets, without group rebalances.

    A reader serves one `SpoutConfig`. `topic` is the config's, so it may be a regular expression.
    """

    def refresh(self, topic: str) -> None:
        """Start looking up the topic's partitions. Does nothing if a look-up is in progress."""

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        """Return the partitions in order and their leaders, as of the last look-up.

        None before the first look-up has ended, empty if the topic does not exist. Returns the same
        object until another look-up has ended. A failed look-up changes nothing and is reported in
        `faults`.
        """

    def offset_for(self, partition: Partition, time: int) -> int | None:
        """Return the first offset at or after a Unix time in ms, `EARLIEST_TIME` or `LATEST_TIME`.

        None while it is being looked up. The call after the one that returned it starts another
        look-up.
        """

    def assign(self, partition: Partition, offset: int) -> None:
        """Read this partition from `offset` from now on, even if it is already read or paused."""

    def unassign(self, partition: Partition) -> None:
        """Stop reading this partition. Forgets its pause and its pending offset look-up."""

    def pause(self, partition: Partition) -> None:
        """Stop fetching, and keep the position, until `resume` or the next assignment."""

    def resume(self, partition: Partition) -> None:
        """Continue where `pause` stopped."""

    def read(self, max_messages: int) -> Sequence[SourceMessage]:
        """Return up to `max_messages` fetched messages. Messages of a partition are in order."""

    def faults(self) -> Sequence[SourceFault]:
        """Return the errors since the last call."""

    def ends_reached(self) -> Mapping[Partition, int]:
        """Return the partitions whose end was reached since the last call, with that end.

        `read` has returned every message before it. So there are no messages at the offsets between
        the last message and the end: these are transaction markers, or were aborted or compacted
        away.
        """

    def end_offset(self, partition: Partition) -> int | None:
        """Return the end offset of the partition, as last reported by the broker."""

    def commit(self, partition: Partition, offset: int) -> None:
        """Publish `offset` as the consumer group's offset, for lag tools. Failures are ignored."""

    def close(self) -> None:
        """Close the connections. Waits at most a few seconds."""


class Ownership(Enum):
    """State of a partition's lock."""

    WAITING = auto()
    """Not held: another process holds it, or the session was lost. Do not emit. In-flight tuples
    may still complete."""
    HELD = auto()
    FENCED = auto()
    """Another process held it or wrote the offset. Drop the partition's messages and `release`."""


class OffsetStore(Protocol):
    """Stores each partition's offset and the lock that permits reading it.

    The work happens on its own thread. One store serves one spout task.
    """

    def acquire(self, partition: Partition) -> Ownership:
        """Request the partition's lock at the first call. Return its state, which is a cheap
        operation."""

    def load(self, partition: Partition) -> StoredOffset | None:
        """Return the stored progress (see `stored_offset`), or None. Valid only with the lock.

        Raises `ConfigError` if the stored data is not an offset of this topic.
        """

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """Request that an offset be stored. Of several pending offsets of a partition, only the
        latest one is stored.

        Raises `FencedError` if another process has taken over the partition.
        """

    def stored_offset(self, partition: Partition) -> int | None:
        """Return the offset that is known to be stored, or None.

        It was read when the lock was acquired, or this process has saved it and ZooKeeper has
        confirmed it. The result is also None if the lock was not requested.
        """

    def release(self, partition: Partition) -> None:
        """Store the pending offset, and then release the lock. A later `acquire` requests the lock
        again."""

    def flush(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for pending writes and releases. Return True if none is
        left."""

    def problem(self) -> KstormError | None:
        """Return why offsets cannot be stored at the moment, or None if they can."""

    def close(self) -> None:
        """Release all locks. Waits at most a few seconds. Call `flush` first."""


class PositionReader(Protocol):
    """Reads the committed positions of a spout's group, where exactly-once spouts start."""

    def position(self, partition: Partition) -> int | None:
        """Return the committed offset, -1 if there is none, or None while it is being looked up.

        It is a `Position` if the latest event time before it was committed too.

        Once an offset has been returned, the next call looks it up again. Waits for open transactions.
        """

    def problem(self) -> KstormError | None:
        """Return why positions cannot be looked up at the moment, or None if they can."""

    def close(self) -> None:
        """Stop pending look-ups and close the connection. May take a few seconds."""


class ReplayRequestReader(Protocol):
    """Reads a topology's committed replay requests from the first one in the topic."""

    at_end: bool
    """True once it has read everything that existed when `ask_end` was last called, or when it was
    opened. Before that, a request that seems to be open may have ended. Records of transactions
    that were open then count too, unless they are aborted."""

    def ask_end(self) -> None:
        """Ask for the end of the topic again. `at_end` is False until everything before that end
        has been read."""

    def read(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        """Return new keys and values since the last call, in order, without blocking.

        A value of None is a tombstone.
        """

    def close(self) -> None: ...


OnDelivery = Callable[[object | None, object], None]
"""Called once per record with an error, or None if the broker has it, and with the record."""


RecordColumn = Sequence[str | bytes | None]
"""Keys or values of records. Text is written as UTF-8."""

Headers = list[tuple[str, str | bytes | None]]
"""Names and values of a record's headers. Text is written as UTF-8."""

OnBatchDelivery = Callable[[Sequence[object]], None]
"""Called with the errors of the records that the broker does not have, if any."""


class RecordWriter(Protocol):
    """Writes records to topics in batches."""

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        """Write a record. `on_delivery` is called later, on the event loop's thread.

        Raises `BrokerError` if the record cannot be queued. In that case `on_delivery` is not
        called.
        """

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        """Write many records with their `headers`. `on_done` is called once, after the last report.

        Never raises.
        """

    async def close(self) -> None:
        """Wait at most a few seconds for pending records. Does nothing on a shared writer."""


@dataclass(frozen=True, slots=True)
class KafkaPorts:
    """Kafka clients that the runtime provides to `KafkaSpout` and `KafkaBolt`."""

    open_source: Callable[[SpoutConfig], SourceReader]
    """Opens a reader for one spout task."""
    open_offsets: Callable[[SpoutConfig, TopologyContext], OffsetStore]
    """Opens an offset store for one spout task."""
    open_shared_writer: Callable[[], RecordWriter]
    """Returns the writer that all tasks of the process share."""
    open_writer: Callable[[Mapping[str, Any]], RecordWriter]
    """Opens a writer with these producer properties. Without any, its producer may be shared."""
    topology_id: str | None = None
    """Id of this deployment of the topology, like Storm's `wordcount-1-1489642910`. It stays the
    same when a process restarts. None: the runtime does not provide one, and the topology's name is
    used."""
    open_positions: Callable[[TopologyContext], PositionReader] | None = None
    """Opens a reader of committed positions for one spout task (exactly-once only)."""
    open_epoch_writer: Callable[[], RecordWriter] | None = None
    """Opens a writer whose records are committed with the tuples that a spout emits (exactly-once
    only)."""
    open_orders: Callable[[TopologyContext], ReplayRequestReader] | None = None
    """Opens a reader of replay requests for one spout task. None: replay is not available."""

    @staticmethod
    def of(context: TopologyContext) -> "KafkaPorts":
        """Return the component's clients. Raises `KstormError` if the runtime provides none."""
        ports = context.resources.get(KAFKA)
        if not isinstance(ports, KafkaPorts):
            raise KstormError(
                f"{context.component!r} reads or writes Kafka, but was given no Kafka clients: "
                "run it in a kstorm service, or in a test put a KafkaPorts into the context's "
                f"resources[{KAFKA!r}]"
            )
        return ports
