"""A `LocalCluster` next to a fake Kafka that acts at random moments."""

from random import Random
from typing import TYPE_CHECKING, Any

from kstorm.core.spout_task import SpoutTask
from kstorm.kafka.bolt import KafkaBolt
from kstorm.kafka.spout import KafkaSpout
from kstorm.kafka.unit_writer import UnitWriter
from kstorm.testing.cluster import LocalCluster
from kstorm.testing.kafka.writer import FakeWriter
from kstorm.testing.placement import DiskFate
from kstorm.topology import Topology

if TYPE_CHECKING:
    from kstorm.testing.kafka.fake import FakeKafka

_ACTS_FIRST = 0.2
"""Probability that the servers act before the cluster takes its next step."""
_CALLS = 2
"""Calls of `next_tuple`: more than needed."""


class KafkaCluster(LocalCluster):
    """Runs a topology on a `FakeKafka`. Create it with `FakeKafka.cluster`.

    The seed also determines when the servers act. KafkaSpouts use the cluster's clock. The records
    of one epoch reach different partitions at different steps, like the markers of Kafka's
    transactions.
    """

    def __init__(
        self,
        kafka: "FakeKafka",
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
