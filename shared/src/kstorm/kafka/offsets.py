"""The stored offset of a partition, as JSON in Storm's format (Storm's documentation, *Storm Kafka
Integration*).

    {"topology":{"id":"kafka-spout-demo-1-1489642910","name":"kafka-spout-demo"},
     "offset":2,"partition":0,"broker":{"host":"kafka-0","port":9092},"topic":"topic-storm"}

`offset` is the first unfinished one, where a spout resumes. These fields may follow:

- `group` (exactly-once spouts): if that consumer group has a position in Kafka, the position takes
  precedence, and `offset` follows it.
- `done` (at-least-once spouts): finished runs above `offset`, e.g. `[[5,9],[12,13]]` for 5 to 8 and
  12.
- `reached` (spouts with event time): the latest event time of the messages before `offset`.
"""

from collections.abc import Sequence
from itertools import chain, pairwise

import msgspec

from kstorm.errors import ConfigError
from kstorm.kafka.cluster import Broker, Partition
from kstorm.kafka.completed_ranges import Run

_MAX_OFFSET = (1 << 63) - 1


class TopologyRef(msgspec.Struct, frozen=True):
    """The topology that stored an offset."""

    id: str
    """Id of the deployment."""
    name: str


class BrokerRef(msgspec.Struct, frozen=True):
    """The partition's leader when an offset was stored. It is informational, and not used to
    connect."""

    host: str
    port: int


class StoredOffset(msgspec.Struct, frozen=True, omit_defaults=True):
    topology: TopologyRef
    offset: int
    partition: int
    broker: BrokerRef
    topic: str
    group: str = ""
    """The consumer group whose position takes precedence. "": `offset` takes precedence over any
    position."""
    done: list[Run] = []
    """Finished runs above `offset`, in order."""
    reached: int | None = None
    """Latest event time of the messages before `offset`, if the spout computes it."""

    @classmethod
    def of(
        cls,
        topology: TopologyRef,
        partition: Partition,
        offset: int,
        leader: Broker,
        done: Sequence[Run] = (),
        reached: int | None = None,
    ) -> "StoredOffset":
        """Build the progress of `partition`."""
        where, (topic, number) = BrokerRef(*leader), partition
        return cls(topology, offset, number, where, topic, done=list(done), reached=reached)

    def to_json(self) -> bytes:
        """Encode as compact JSON with fields in Storm's order."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes, partition: Partition, where: str) -> "StoredOffset":
        """Decode data found at `where`. Raises `ConfigError` if the data is not an offset of the
        partition."""
        try:
            stored = msgspec.json.decode(data, type=cls)
            if not 0 <= stored.offset <= _MAX_OFFSET:
                raise msgspec.ValidationError(f"an offset is a number from 0 to {_MAX_OFFSET}")
            bounds = [stored.offset - 1, *chain.from_iterable(stored.done)]
            if any(one >= other for one, other in pairwise(bounds)) or bounds[-1] > _MAX_OFFSET:
                raise msgspec.ValidationError(
                    "the finished runs must be in order and above the offset"
                )
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"{where} holds {data[:200]!r}, which is not a stored offset ({error}): delete "
                "that node, or give the spout another zk_root or id"
            ) from None
        if (stored.topic, stored.partition) != partition:
            raise ConfigError(
                f"{where} holds the offset of {stored.topic}[{stored.partition}], not of "
                f"{partition}: two spouts share one zk_root and id; "
                "give each its own id"
            )
        return stored
