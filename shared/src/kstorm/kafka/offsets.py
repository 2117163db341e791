"""What is stored of a partition: the JSON of Storm's documentation, *Storm Kafka Integration*, field by field.

    {"topology":{"id":"kafka-spout-demo-1-1489642910","name":"kafka-spout-demo"},"offset":2,"partition":0,
     "broker":{"host":"kafka-0","port":9092},"topic":"topic-storm"}

`offset` is the first one that is not done: a spout that resumes reads from it. Exactly-once spouts put a `group` behind these
fields: then that consumer group's position in Kafka counts, where there is one, and `offset` follows it. At-least-once spouts put
`done` there, if any: runs of offsets above `offset` that are finished, `[[5,9],[12,13]]` of 5 to 8 and 12.
"""

from collections.abc import Sequence
from itertools import chain, pairwise

import msgspec

from kstorm.errors import ConfigError
from kstorm.kafka.above import Run
from kstorm.kafka.cluster import Broker, Partition

_MAX_OFFSET = (1 << 63) - 1


class TopologyRef(msgspec.Struct, frozen=True):
    """The topology that stored an offset."""

    id: str
    """Id of the deployment."""
    name: str


class BrokerRef(msgspec.Struct, frozen=True):
    """The partition's leader when an offset was stored; for people, not for connecting."""

    host: str
    port: int


class StoredOffset(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition's progress."""

    topology: TopologyRef
    offset: int
    partition: int
    broker: BrokerRef
    topic: str
    group: str = ""
    """The consumer group whose position counts; empty: `offset` does, whatever Kafka has."""
    done: list[Run] = []
    """What is finished above `offset`, in order."""

    @classmethod
    def of(
        cls,
        topology: TopologyRef,
        partition: Partition,
        offset: int,
        leader: Broker,
        done: Sequence[Run] = (),
    ) -> "StoredOffset":
        """Progress of `partition`, whose leader is `leader`."""
        where = BrokerRef(*leader)
        return cls(topology, offset, partition.partition, where, partition.topic, done=list(done))

    def to_json(self) -> bytes:
        """The JSON, compact, fields in Storm's order."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes, partition: Partition, where: str) -> "StoredOffset":
        """Reads what `where` holds for `partition`; raises `ConfigError` if that is no offset of this partition."""
        try:
            stored = msgspec.json.decode(data, type=cls)
            if not 0 <= stored.offset <= _MAX_OFFSET:
                raise msgspec.ValidationError(f"an offset is a number from 0 to {_MAX_OFFSET}")
            bounds = [stored.offset - 1, *chain.from_iterable(stored.done)]
            if any(one >= other for one, other in pairwise(bounds)) or bounds[-1] > _MAX_OFFSET:
                raise msgspec.ValidationError("what is done lies above the offset, run behind run")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"{where} holds {data[:200]!r}, which is no stored offset ({error}): "
                "delete that node, or give the spout another zk_root or id"
            ) from None
        if (stored.topic, stored.partition) != partition:
            raise ConfigError(
                f"{where} holds the offset of {stored.topic}[{stored.partition}], not of "
                f"{partition.topic}[{partition.partition}]: two spouts share one zk_root and id; give each its own id"
            )
        return stored
