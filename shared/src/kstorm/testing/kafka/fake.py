"""`FakeKafka`: topics, an offset store and a producer in memory, with faults that a test can
inject. `KafkaCluster`: a `LocalCluster` next to it."""

from collections.abc import Mapping
from random import Random
from typing import Any

from kstorm.core.spout_task import SpoutTask
from kstorm.fitting import Natural, Positive, Text, checked
from kstorm.kafka.bolt import KafkaBolt
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import KAFKA, UNKNOWN_BROKER, Headers, KafkaPorts, Partition
from kstorm.kafka.spout import KafkaSpout
from kstorm.kafka.unit_writer import UnitWriter
from kstorm.testing.cluster import LocalCluster
from kstorm.testing.external_topics import OUTSIDE
from kstorm.testing.kafka.broker import FakeRecord, PendingRequests, Topics, as_bytes, as_headers
from kstorm.testing.kafka.committed_records import CommittedRecords, FakePositions
from kstorm.testing.kafka.offset_store import FakeNodes, FakeOffsets, path_of
from kstorm.testing.kafka.replay_request_reader import FakeReplayRequests
from kstorm.testing.kafka.source_reader import FakeSource
from kstorm.testing.kafka.writer import FakeWriter, Refuse
from kstorm.testing.placement import DiskFate
from kstorm.testing.processes import OPEN_TRANSACTIONS, POSITION
from kstorm.topology import Topology, TopologyContext

_ACTS_FIRST = 0.2
"""Probability that the servers act before the cluster takes its next step."""
_CALLS = 2
"""Calls of `next_tuple`: more than needed."""


class FakeKafka:
    """A Kafka, and the ZooKeeper that stores offsets. `topics`: number of partitions by topic name.

    It lives outside the cluster: records and stored offsets survive any crash there. Like real
    servers it never answers in the call that asks. Lookups, locks, stored offsets and delivery
    reports come later, one per `act`. A `cluster` of this Kafka calls `act` itself. Without a
    cluster, call `settle`.
    """

    @checked()
    def __init__(
        self, topics: Mapping[str, int] | None = None, topology_id: Text = "fake-1"
    ) -> None:
        self.topology_id: str | None = topology_id
        """Id of the deployment (`KSTORM_TOPOLOGY_ID`). Components read it when they start."""
        self.refuse: Refuse = lambda topic, key, value: None
        """Returns why the broker refuses a record that a bolt writes, or None to accept it. With
        exactly-once processing, a `PermanentRefusal` reason is permanent."""
        self._topics, self._answers, self._nodes = Topics(), PendingRequests(), FakeNodes()
        for topic, partitions in (topics or {}).items():
            self.create_topic(topic, partitions)

    # The topology's side.

    @property
    def resources(self) -> dict[str, Any]:
        """Resources for components, as in `BoltTester(bolt, resources=kafka.resources)`."""
        ports = KafkaPorts(
            open_source=lambda config: FakeSource(self._topics, self._answers, config),
            open_offsets=self._open_offsets,
            open_shared_writer=lambda: self._writer(None),
            open_writer=self._writer,
            topology_id=self.topology_id,
            open_positions=lambda context: FakePositions(
                self._answers, context.resources[POSITION]
            ),
            open_orders=self._open_orders,
        )
        return {
            KAFKA: ports,
            OUTSIDE: CommittedRecords(self._topics, self._answers, self._asked_to_refuse),
        }

    @checked()
    def cluster(
        self,
        topology: Topology,
        seed: int = 0,
        resources: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> "KafkaCluster":
        """Return a `LocalCluster` whose KafkaSpouts and KafkaBolts use this Kafka. Takes the same
        arguments."""
        return KafkaCluster(
            self, topology, seed, {**self.resources, **(resources or {})}, **arguments
        )

    def act(self) -> bool:
        """Let the servers answer one request. Return False if there was none."""
        return self._answers.next()

    def settle(self) -> bool:
        """Let the servers answer all requests, including those that follow. Return False if there
        were none."""
        acted = False
        while self.act():
            acted = True
        return acted

    # The test's side: topics.

    @checked()
    def create_topic(self, topic: Text, partitions: Positive = 1) -> None:
        """Create a topic or add partitions to it. Raises `TopicError` if it already has more."""
        self._topics.create(topic, partitions)

    @checked()
    def delete_topic(self, topic: Text) -> None:
        """Delete a topic with its records. Stored offsets stay."""
        self._topics.delete(topic)

    @checked()
    def produce(
        self,
        topic: Text,
        value: str | bytes | None,
        key: str | bytes | None = None,
        *,
        partition: Natural | None = None,
        offset: Natural | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> FakeRecord:
        """Append a record immediately. By default it goes to the partition of its key, or to each
        in turn without a key.

        An `offset` beyond the end leaves a gap, like compaction and aborted transactions.
        `timestamp` is a Unix time in ms. Raises `TopicError` if the topic or partition does not
        exist.
        """
        return self._topics.append(
            topic, as_bytes(key), as_bytes(value), as_headers(headers), partition, offset, timestamp
        )

    @checked()
    def produce_undecodable(
        self, topic: Text, count: Natural = 1, partition: Natural = 0
    ) -> tuple[int, int]:
        """Append a batch of `count` records that no reader can decode.

        Returns its first offset, and the offset after its last.
        """
        return self._topics.log(topic, partition).append_undecodable(count)

    @checked()
    def produce_unseen(self, topic: Text, count: Natural = 1, partition: Natural = 0) -> None:
        """Append `count` offsets that no reader sees: transaction markers and aborted records."""
        self._topics.log(topic, partition).append_unseen(count)

    @checked()
    def expire(self, topic: Text, before: Natural, partition: Natural = 0) -> None:
        """Delete the records before an offset, as retention does."""
        self._topics.log(topic, partition).expire(before)

    @checked()
    def records(self, topic: Text, partition: Natural | None = None) -> list[FakeRecord]:
        """Return the records of a topic, partition by partition, or of one partition.

        Raises `TopicError` if the topic does not exist.
        """
        numbers = [place.partition for place in self._topics.partitions(topic)] or [0]
        logs = [
            self._topics.log(topic, number)
            for number in (numbers if partition is None else [partition])
        ]
        return [record for log in logs for record in log.records]

    # Offsets.

    @checked()
    def stored_offset(
        self, config: SpoutConfig, partition: Natural = 0, topic: Text | None = None
    ) -> int | None:
        """Return the offset stored for a partition of a spout's topic, or None. With a wildcard,
        name the topic."""
        place = Partition(topic or config.topic, partition)
        path = path_of(config, place)
        data = self._nodes.data.get(path)
        return None if data is None else StoredOffset.from_json(data, place, path).offset

    @checked()
    def store_offset(
        self,
        config: SpoutConfig,
        offset: Natural,
        partition: Natural = 0,
        topic: Text | None = None,
    ) -> None:
        """Store an offset, as an earlier deployment of this topology would have."""
        place = Partition(topic or config.topic, partition)
        who = TopologyRef(self.topology_id or "", "")
        stored = StoredOffset.of(who, place, offset, UNKNOWN_BROKER)
        self._nodes.data[path_of(config, place)] = stored.to_json()

    # Faults.

    @property
    def away(self) -> bool:
        """True while the servers are unreachable. Then nothing is read, and requests wait until
        they return."""
        return self._answers.away

    @away.setter
    def away(self, away: bool) -> None:
        self._answers.away = away

    def _open_offsets(self, config: SpoutConfig, context: TopologyContext) -> FakeOffsets:
        """Open the offset store of a spout, and create the topics that spouts write, as a service
        would."""
        topology = context.topology
        for topic in (
            topology.finished_topic,
            topology.dead_letters_topic,
            topology.orders_topic,
            topology.events_topic,
        ):
            self._topics.create(topic, 1)
        return FakeOffsets(self._nodes, self._answers, config, context)

    def _open_orders(self, context: TopologyContext) -> FakeReplayRequests:
        open_at = context.resources.get(OPEN_TRANSACTIONS, lambda place: ())
        return FakeReplayRequests(
            self._topics, self._answers, context.topology.orders_topic, open_at
        )

    def _writer(self, properties: Mapping[str, Any] | None) -> FakeWriter:
        return FakeWriter(self._topics, self._answers, self._asked_to_refuse, properties)

    def _asked_to_refuse(self, topic: str, key: bytes | None, value: bytes | None) -> str | None:
        return self.refuse(topic, key, value)


class KafkaCluster(LocalCluster):
    """Runs a topology on a `FakeKafka`. Create it with `FakeKafka.cluster`.

    The seed also determines when the servers act. KafkaSpouts use the cluster's clock. The records
    of one epoch reach different partitions at different steps, like the markers of Kafka's
    transactions.
    """

    def __init__(
        self,
        kafka: FakeKafka,
        topology: Topology,
        seed: int,
        resources: dict[str, Any],
        **arguments: Any,
    ) -> None:
        self.kafka = kafka
        self._chance = Random(f"kafka of {seed}")
        self._sinks = [bolt.id for bolt in topology.bolts if isinstance(bolt.component, KafkaBolt)]
        spouts = [spout.id for spout in topology.spouts if isinstance(spout.component, KafkaSpout)]
        self._writers = [*self._sinks, *spouts]
        self._reported = False
        super().__init__(topology, seed, resources, **arguments)
        if topology.config.exactly_once:
            self._world.delay_markers()

    def step(self) -> bool:
        """Take one step of a random process or of the servers. Return False if nothing can be done
        now."""
        if self._chance.random() < _ACTS_FIRST and self._let_kafka_act():
            return True
        return super().step() or self._let_kafka_act() or self._let_sinks_ack() or self._ask_again()

    def crash(self, component: str, executor: int | None = None, disk: DiskFate = "kept") -> None:
        """Crash as in `LocalCluster`. Records that a producer had not yet sent are lost with its
        process."""
        if component in self._writers:
            for number, process in enumerate(self.processes(component)):
                if executor in (None, number):
                    for tenure in process.engine.tenures.values():
                        if tenure.owned:
                            self._lose_what_waits(tenure.task)
        super().crash(component, executor, disk)

    def _ask_again(self) -> bool:
        """Step again: what a spout received in one `next_tuple` may lead to work, or to a request,
        only in a later call."""
        return any(super(KafkaCluster, self).step() or self._let_kafka_act() for _ in range(_CALLS))

    def _let_kafka_act(self) -> bool:
        if not self.kafka.act():
            return False
        self._reported = True
        self.wake()
        return True

    def _let_sinks_ack(self) -> bool:
        """Start checkpoints of the sinks: acks made in a delivery report, outside all steps, leave
        with a checkpoint."""
        reported, self._reported = self._reported, False
        if reported:
            for sink in self._sinks:
                self.begin_checkpoint(sink)
        return reported

    @staticmethod
    def _lose_what_waits(task: Any) -> None:
        owner = getattr(task.spout, "_storing", None) if isinstance(task, SpoutTask) else task.bolt
        writer = getattr(owner, "_writer", None)  # it may not be open yet
        if isinstance(writer, UnitWriter):
            writer = writer.writer
        if isinstance(writer, FakeWriter):
            writer.lose()
