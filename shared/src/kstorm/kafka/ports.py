"""What the Kafka ends need of the outside world: reading a topic, keeping offsets, writing records.

These are protocols; the clients behind them are `kstorm.runtime`'s (librdkafka, kazoo) or a test's. The rule: **no method
that a spout or bolt calls while it works may wait.** What needs a round trip is begun by the call and answered by a
later one, which is why several methods return None for "not known yet, ask again". Only `flush` and `close` wait, and
each says for how long.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kstorm.errors import ConfigError, KstormError

if TYPE_CHECKING:
    from kstorm.kafka.config import SpoutConfig
    from kstorm.kafka.offsets import StoredOffset
    from kstorm.topology import TopologyContext

KAFKA = "kafka"
"""Under this name the runtime puts the `KafkaPorts` into `TopologyContext.resources`."""


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Broker(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    @classmethod
    def from_string(cls, address: str) -> "Broker":
        """The broker at `host:port`; raises `ConfigError` if that is none."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"the broker {address!r}: give host:port")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


UNKNOWN_BROKER: Final = Broker("", -1)
"""In place of the leader of a partition that has none at the moment."""


class SourceMessage(Protocol):
    """A message as read; exactly the shape of `confluent_kafka.Message`, so that none has to be wrapped."""

    def topic(self) -> str:
        """The topic it was read from."""
        ...

    def partition(self) -> int:
        """The partition it was read from."""
        ...

    def offset(self) -> int:
        """Its offset there."""
        ...

    def key(self) -> bytes | None:
        """Its key, if it has one."""
        ...

    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        ...


@dataclass(frozen=True, slots=True)
class SourceFault:
    """Something that went wrong while reading."""

    reason: str
    partition: Partition | None = None
    """The partition it is about; None if it is about the cluster or the whole topic."""
    out_of_range: bool = False
    """Whether the partition was to be read from an offset that the broker does not have."""


class SourceReader(Protocol):
    """Reads partitions that it is told to read, from offsets that it is told; knows of no consumer group's rebalances.

    It was opened for one `SpoutConfig`; `topic` is that config's, so a regular expression if the config says so.
    """

    def refresh(self, topic: str) -> None:
        """Begins to look up the topic's partitions; a second call while that is under way does nothing."""
        ...

    def partitions(self, topic: str) -> Mapping[Partition, Broker] | None:
        """The partitions and their leaders as last looked up, in order; the same object until a look-up has ended.

        None before the first has. A look-up that fails changes nothing, and is told among the `faults`.
        """
        ...

    def offset_for(self, partition: Partition, time: int) -> int | None:
        """The first offset at or after a Unix time in ms, or for `EARLIEST_TIME` and `LATEST_TIME`.

        None while it is being looked up; once it was handed out, the next call looks it up anew.
        """
        ...

    def assign(self, partition: Partition, offset: int) -> None:
        """Reads this partition from `offset`, from now on; also if it is read already."""
        ...

    def unassign(self, partition: Partition) -> None:
        """Reads this partition no more, and forgets what was being looked up of it."""
        ...

    def pause(self, partition: Partition) -> None:
        """Stops to fetch a partition that is assigned, and keeps its position."""
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

    def load(self, partition: Partition) -> "StoredOffset | None":
        """What was stored when the lock was taken; None if nothing was. Only while the lock is held.

        Raises `ConfigError` if what is stored there is no offset of this topic.
        """
        ...

    def save(self, partition: Partition, stored: "StoredOffset") -> None:
        """Stores an offset soon; of several waiting for one partition the latest is stored.

        Raises `FencedError` if another process has taken the partition over.
        """
        ...

    def stored_offset(self, partition: Partition) -> int | None:
        """The offset that is known to be stored: by this process, whose `save` may be on its way still, or found when the
        lock was taken. None if there is none, or if the lock was not asked for."""
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


Delivery = Callable[[object | None, object], None]
"""Called once per written record with an error, or None if the broker has it; the second argument is the record."""


RecordColumn = Sequence[str | bytes | None]
"""Keys or values of records; text is written as UTF-8."""

Headers = list[tuple[str, str | bytes | None]]
"""A record's headers: names and values; text is written as UTF-8."""

BatchDelivery = Callable[[Sequence[object]], None]
"""Called with the errors of those records that the broker does not have; empty if it has them all."""


class RecordWriter(Protocol):
    """Writes records to topics, in batches of its own."""

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: Delivery,
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
        on_done: BatchDelivery,
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

    open_source: "Callable[[SpoutConfig], SourceReader]"
    """Opens a reader for one spout task."""
    open_offsets: "Callable[[SpoutConfig, TopologyContext], OffsetStore]"
    """Opens an offset store for one spout task."""
    open_shared_writer: Callable[[], RecordWriter]
    """The writer that all tasks of the process share."""
    open_writer: Callable[[Mapping[str, Any]], RecordWriter]
    """Opens a writer with producer properties of its own."""
    topology_id: str | None = None
    """Id of this deployment of the topology, as Storm's `wordcount-1-1489642910`: another deployment has another, a
    restarted process the same. None: the runtime has none, and the topology's name stands for it."""

    @staticmethod
    def of(context: "TopologyContext") -> "KafkaPorts":
        """The ports lent to a component; raises `KstormError` if there are none."""
        ports = context.resources.get(KAFKA)
        if not isinstance(ports, KafkaPorts):
            raise KstormError(
                f"{context.component!r} reads or writes Kafka, but was given no Kafka clients: run it in a kstorm "
                f"service, or in a test put a KafkaPorts into the context's resources[{KAFKA!r}]"
            )
        return ports
