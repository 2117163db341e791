"""What the Kafka ends need of the outside world: reading a topic, keeping offsets, writing records.

These are protocols; the clients behind them are `kstorm.runtime`'s (librdkafka, kazoo) or a test's. The rule: **no method
that a spout or bolt calls while it works may wait.** What needs a round trip is begun by the call and answered by a
later one, which is why several methods return None for "not known yet, ask again". Only `flush` and `close` wait, and
each says for how long.
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
    "OrderReader",
    "Ownership",
    "Partition",
    "PositionReader",
    "RecordColumn",
    "RecordWriter",
    "SourceFault",
    "SourceMessage",
    "SourceReader",
]

KAFKA = "kafka"
"""Under this name the runtime puts the `KafkaPorts` into `TopologyContext.resources`."""


@dataclass(frozen=True, slots=True)
class SourceFault:
    """Something that went wrong while reading."""

    reason: str
    partition: Partition | None = None
    """The partition it is about; None if it is about the cluster or the whole topic."""
    out_of_range: bool = False
    """Whether the partition was to be read from an offset that the broker does not have."""
    undecodable: tuple[int, int] | None = None
    """Offsets, the first and the one behind the last, of which no message can ever be read. Everything before them was read, and
    nothing behind them is until the partition is assigned anew."""


class SourceReader(Protocol):
    """Reads partitions that it is told to read, from offsets that it is told; knows of no consumer group's rebalances.

    It was opened for one `SpoutConfig`; `topic` is that config's, so a regular expression if the config says so.
    """

    def refresh(self, topic: str) -> None:
        """Begins to look up the topic's partitions; a second call while that is under way does nothing."""
        ...

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        """The partitions and their leaders as last looked up, in order; the same object until a look-up has ended.

        None before the first has, empty if that found no such topic. A look-up that fails changes nothing else, and is told
        among the `faults`.
        """
        ...

    def offset_for(self, partition: Partition, time: int) -> int | None:
        """The first offset at or after a Unix time in ms, or for `EARLIEST_TIME` and `LATEST_TIME`.

        None while it is being looked up; once it was handed out, the next call looks it up anew.
        """
        ...

    def assign(self, partition: Partition, offset: int) -> None:
        """Reads this partition from `offset`, from now on; also if it is read already, or was paused."""
        ...

    def unassign(self, partition: Partition) -> None:
        """Reads this partition no more; forgets that it was paused, and what was being looked up of it."""
        ...

    def pause(self, partition: Partition) -> None:
        """Stops to fetch a partition that is assigned, and keeps its position. It ends with `resume`, or with the assignment."""
        ...

    def resume(self, partition: Partition) -> None:
        """Goes on where `pause` stopped."""
        ...

    def read(self, max_messages: int) -> Sequence[SourceMessage]:
        """What has been fetched, at most `max_messages`; possibly nothing. Each partition's messages are in order."""
        ...

    def faults(self) -> Sequence[SourceFault]:
        """What went wrong since the last call."""
        ...

    def end_offset(self, partition: Partition) -> int | None:
        """The offset after the partition's last message, as last heard from the broker."""
        ...

    def commit(self, partition: Partition, offset: int) -> None:
        """Shows `offset` as the consumer group's, for lag tools; best effort."""
        ...

    def close(self) -> None:
        """Closes the connections; waits at most a few seconds."""
        ...


class Ownership(Enum):
    """How a partition's lock stands."""

    WAITING = auto()
    """Not held: another process holds it, or the session was lost. Emit nothing; what is in flight may complete."""
    HELD = auto()
    """Held."""
    FENCED = auto()
    """Another process held it, or wrote the offset, in between: forget the partition's messages and `release`."""


class OffsetStore(Protocol):
    """Keeps the offset up to which each partition is done, and the lock that says who may read it.

    The work happens on a thread of its own. One store serves one spout task.
    """

    def acquire(self, partition: Partition) -> Ownership:
        """Asks for the partition's lock at the first call; says how it stands at every call, cheaply."""
        ...

    def load(self, partition: Partition) -> StoredOffset | None:
        """What is known to be stored, see `stored_offset`; None if nothing is. Only while the lock is held.

        Raises `ConfigError` if what is stored there is no offset of this topic.
        """
        ...

    def save(self, partition: Partition, stored: StoredOffset) -> None:
        """Stores an offset soon; of several waiting for one partition the latest is stored.

        Raises `FencedError` if another process has taken the partition over.
        """
        ...

    def stored_offset(self, partition: Partition) -> int | None:
        """The offset that is known to be stored: found when the lock was taken, or saved by this process since then, once
        ZooKeeper has said so. None if there is none, or if the lock was not asked for."""
        ...

    def release(self, partition: Partition) -> None:
        """Stores what waits to be stored, then gives up the lock; a later `acquire` begins anew."""
        ...

    def flush(self, timeout: float) -> bool:
        """Waits, at most `timeout` seconds, until nothing waits to be stored or released; whether it came to that."""
        ...

    def problem(self) -> KstormError | None:
        """Why offsets cannot be stored at the moment; None if they can."""
        ...

    def close(self) -> None:
        """Gives up every lock that is still held. Waits at most a few seconds; call `flush` first."""
        ...


class PositionReader(Protocol):
    """Knows what a spout's consumer group has committed of its source, which an exactly-once spout starts from."""

    def position(self, partition: Partition) -> int | None:
        """The offset committed for a partition, and -1 if there is none; None while it is being looked up. Once it was handed out
        the next call looks it up anew. What is open in a transaction is waited for."""
        ...

    def problem(self) -> KstormError | None:
        """Why it cannot be looked up at the moment; None if it can."""
        ...

    def close(self) -> None:
        """Ends what is being looked up, and the connection. May wait for some seconds."""
        ...


class OrderReader(Protocol):
    """Reads a topology's orders, from the first that there is."""

    def read(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        """Keys and values that have come since the last call, in order; a value of None is a tombstone. It does not wait."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


OnDelivery = Callable[[object | None, object], None]
"""Called once per written record with an error, or None if the broker has it; the second argument is the record."""


RecordColumn = Sequence[str | bytes | None]
"""Keys or values of records; text is written as UTF-8."""

Headers = list[tuple[str, str | bytes | None]]
"""A record's headers: names and values; text is written as UTF-8."""

OnBatchDelivery = Callable[[Sequence[object]], None]
"""Called with the errors of those records that the broker does not have; empty if it has them all."""


class RecordWriter(Protocol):
    """Writes records to topics, in batches of its own."""

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        """Hands a record over; `on_delivery` is called later, on the event loop's thread.

        Raises `BrokerError` if it can not even be queued; `on_delivery` is not called then.
        """
        ...

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        """Hands over many records, with `headers` each its own; `on_done` is called once, when the last is reported.

        Never raises.
        """
        ...

    async def close(self) -> None:
        """Waits, at most a few seconds, for what is on its way. Does nothing on a writer shared with others."""
        ...


@dataclass(frozen=True, slots=True)
class KafkaPorts:
    """What the runtime lends to `KafkaSpout` and `KafkaBolt`."""

    open_source: Callable[[SpoutConfig], SourceReader]
    """Opens a reader for one spout task."""
    open_offsets: Callable[[SpoutConfig, TopologyContext], OffsetStore]
    """Opens an offset store for one spout task."""
    open_shared_writer: Callable[[], RecordWriter]
    """The writer that all tasks of the process share."""
    open_writer: Callable[[Mapping[str, Any]], RecordWriter]
    """Opens a writer with producer properties of its own."""
    topology_id: str | None = None
    """Id of this deployment of the topology, as Storm's `wordcount-1-1489642910`: another deployment has another, a
    restarted process the same. None: the runtime has none, and the topology's name stands for it."""
    open_positions: Callable[[TopologyContext], PositionReader] | None = None
    """Opens a reader of committed positions for one spout task; only exactly-once topologies have one."""
    open_orders: Callable[[TopologyContext], OrderReader] | None = None
    """Opens a reader of orders for one spout task. None: nobody gives any."""

    @staticmethod
    def of(context: TopologyContext) -> "KafkaPorts":
        """The ports lent to a component; raises `KstormError` if there are none."""
        ports = context.resources.get(KAFKA)
        if not isinstance(ports, KafkaPorts):
            raise KstormError(
                f"{context.component!r} reads or writes Kafka, but was given no Kafka clients: run it in a kstorm "
                f"service, or in a test put a KafkaPorts into the context's resources[{KAFKA!r}]"
            )
        return ports
