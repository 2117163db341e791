"""`FakeKafka`: topics, a store of offsets and a producer in memory, and the faults that a test wants of them."""

from collections.abc import Mapping
from typing import Any

from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import KAFKA, UNKNOWN_BROKER, Headers, KafkaPorts, Partition
from kstorm.testing.kafka.broker import Answers, FakeRecord, Topics, as_bytes, as_headers
from kstorm.testing.kafka.cluster import KafkaCluster
from kstorm.testing.kafka.epochs import CommittedRecords, FakePositions
from kstorm.testing.kafka.offsets import FakeOffsets, Nodes, path_of
from kstorm.testing.kafka.orders import FakeOrders
from kstorm.testing.kafka.source import FakeSource
from kstorm.testing.kafka.writer import FakeWriter, Refuse
from kstorm.testing.outside import OUTSIDE
from kstorm.testing.processes import POSITION
from kstorm.topology import Topology, TopologyContext


class FakeKafka:
    """A Kafka, and the ZooKeeper that keeps the offsets. `topics` are the partitions of each topic by name.

    It lies outside of the cluster: whatever dies there, records and stored offsets stay. As with real servers, nothing is
    answered in the call that asks: look-ups, locks, stored offsets and delivery reports come later, one by one, as `act`
    does it. A `cluster` of this Kafka does that by itself; without one call `settle`.
    """

    def __init__(
        self, topics: Mapping[str, int] | None = None, topology_id: str = "fake-1"
    ) -> None:
        self.topology_id: str | None = topology_id
        """Id of the deployment (`KSTORM_TOPOLOGY_ID`). Those who start later find what it is then."""
        self.refuse: Refuse = lambda topic, key, value: None
        """Says of each record that a bolt writes why the broker does not take it; None: it does. Exactly once, `ForGood` says that
        it never will."""
        self._topics, self._answers, self._nodes = Topics(), Answers(), Nodes()
        for topic, partitions in (topics or {}).items():
            self.create_topic(topic, partitions)

    # The topology's side.

    @property
    def resources(self) -> dict[str, Any]:
        """What to lend to components: `BoltTester(bolt, resources=kafka.resources)`."""
        ports = KafkaPorts(
            open_source=lambda config: FakeSource(self._topics, self._answers, config),
            open_offsets=self._open_offsets,
            open_shared_writer=lambda: self._writer(None),
            open_writer=self._writer,
            topology_id=self.topology_id,
            open_positions=lambda context: FakePositions(
                self._answers, context.resources[POSITION]
            ),
            open_orders=lambda context: FakeOrders(
                self._topics, self._answers, context.topology.orders_topic
            ),
        )
        return {
            KAFKA: ports,
            OUTSIDE: CommittedRecords(self._topics, self._answers, self._asked_to_refuse),
        }

    def cluster(
        self,
        topology: Topology,
        seed: int = 0,
        resources: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> KafkaCluster:
        """A `LocalCluster` whose KafkaSpouts and KafkaBolts have this Kafka; takes the same arguments."""
        return KafkaCluster(
            self, topology, seed, {**self.resources, **(resources or {})}, **arguments
        )

    def act(self) -> bool:
        """Lets the servers do one thing that they were asked; whether there was any."""
        return self._answers.next()

    def settle(self) -> bool:
        """Lets them do everything, and what comes of it; whether there was anything."""
        acted = False
        while self.act():
            acted = True
        return acted

    # The test's side: topics.

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Makes a topic, or adds partitions to it. Raises `TopicError` if it has more."""
        self._topics.create(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic with its records; stored offsets stay."""
        self._topics.delete(topic)

    def produce(
        self,
        topic: str,
        value: str | bytes | None,
        key: str | bytes | None = None,
        *,
        partition: int | None = None,
        offset: int | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> FakeRecord:
        """Adds a record at once. Without a `partition` it goes where its key belongs, or to each partition in turn.

        An `offset` beyond the end leaves a gap, as compaction and aborted transactions do. `timestamp` is a Unix time in ms.
        Raises `TopicError` if there is no such topic or partition.
        """
        return self._topics.append(
            topic, as_bytes(key), as_bytes(value), as_headers(headers), partition, offset, timestamp
        )

    def produce_undecodable(
        self, topic: str, count: int = 1, partition: int = 0
    ) -> tuple[int, int]:
        """Adds a batch of so many records that no reader can decode; its first offset, and the one behind its last."""
        return self._topics.log(topic, partition).append_undecodable(count)

    def expire(self, topic: str, before: int, partition: int = 0) -> None:
        """Deletes the records before an offset, as retention does."""
        self._topics.log(topic, partition).expire(before)

    def records(self, topic: str, partition: int | None = None) -> list[FakeRecord]:
        """The records of a topic, partition by partition, or of one. Raises `TopicError` if there is no such topic."""
        numbers = [place.partition for place in self._topics.partitions(topic)] or [0]
        logs = [
            self._topics.log(topic, number)
            for number in (numbers if partition is None else [partition])
        ]
        return [record for log in logs for record in log.records]

    # Offsets.

    def stored_offset(
        self, config: SpoutConfig, partition: int = 0, topic: str | None = None
    ) -> int | None:
        """The offset that is stored for a partition of a spout's topic; None if none is. With a wildcard, name the topic."""
        place = Partition(topic or config.topic, partition)
        path = path_of(config, place)
        data = self._nodes.data.get(path)
        return None if data is None else StoredOffset.from_json(data, place, path).offset

    def store_offset(
        self, config: SpoutConfig, offset: int, partition: int = 0, topic: str | None = None
    ) -> None:
        """Stores one, as an earlier deployment of this topology would have left it."""
        place = Partition(topic or config.topic, partition)
        who = TopologyRef(self.topology_id or "", "")
        stored = StoredOffset.of(who, place, offset, UNKNOWN_BROKER)
        self._nodes.data[path_of(config, place)] = stored.to_json()

    # Faults.

    @property
    def away(self) -> bool:
        """Whether the servers cannot be reached. Then nothing is read, and what was asked waits until they are back."""
        return self._answers.away

    @away.setter
    def away(self, away: bool) -> None:
        self._answers.away = away

    def _open_offsets(self, config: SpoutConfig, context: TopologyContext) -> FakeOffsets:
        """For a spout; its topology has the topics that spouts write, as a service would have made them."""
        topology = context.topology
        for topic in (
            topology.finished_topic,
            topology.dead_letters_topic,
            topology.orders_topic,
            topology.events_topic,
        ):
            self._topics.create(topic, 1)
        return FakeOffsets(self._nodes, self._answers, config, context)

    def _writer(self, properties: Mapping[str, Any] | None) -> FakeWriter:
        return FakeWriter(self._topics, self._answers, self._asked_to_refuse, properties)

    def _asked_to_refuse(self, topic: str, key: bytes | None, value: bytes | None) -> str | None:
        return self.refuse(topic, key, value)
