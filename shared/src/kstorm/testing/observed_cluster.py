"""Outcomes of a simulated cluster, and access to its processes and components."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from kstorm.core.dead_letters import DeadLetter, decode_letter
from kstorm.errors import KstormError, TopologyError
from kstorm.fitting import Natural, Text, checked
from kstorm.testing.logs import TopicPartition
from kstorm.testing.placement import Placement
from kstorm.testing.process import SimulatedProcess
from kstorm.testing.processes import AckerProcess, BoltProcess, SpoutProcess
from kstorm.testing.startup import start_task
from kstorm.testing.world import SimulatedWorld, TaskError
from kstorm.topology import DEFAULT_STREAM, BasicBolt, Bolt, Spout, Topology
from kstorm.topology.topology import ACKER_COMPONENT


class ObservedCluster:
    """Base of `LocalCluster`: outcomes, records, errors, processes and components."""

    @checked()
    def __init__(self, topology: Topology, world: SimulatedWorld) -> None:
        self.topology, self._world = topology, world
        self._processes = Placement(world)

    @property
    def now(self) -> float:
        """Seconds since the cluster started, by its clock."""
        return self._world.now

    @checked()
    def acked(self, spout: Text, task: Natural | None = None) -> list[Any]:
        """Return the ids of messages acked to a spout, or to one of its tasks, given by index."""
        return self._outcomes(self._world.acked, spout, task)

    @checked()
    def failed(self, spout: Text, task: Natural | None = None) -> list[Any]:
        """Return the ids of failed or timed-out messages of a spout, or of one of its tasks."""
        return self._outcomes(self._world.failed, spout, task)

    @checked()
    def emitted(self, component: Text, stream: Text = DEFAULT_STREAM) -> list[list[Any]]:
        """Return the values of every tuple that a component emitted on a stream.

        With exactly-once processing, they include tuples of epochs that were rolled back and
        executed again.
        """
        if stream not in self.topology.component(component).streams:
            raise TopologyError(f"{component!r} declares no stream {stream!r}")
        return list(self._world.emitted[component, stream])

    @checked()
    def sent(self, topic: Text) -> list[bytes]:
        """Return the records of one of the topology's topics, partition by partition."""
        return self._world.logs.topic(topic)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Messages that could not be processed."""
        found = self.sent(self.topology.dead_letters_topic)
        return [decode_letter(record) for record in found if record]  # without tombstones

    @property
    def errors(self) -> list[TaskError]:
        """Errors that components raised or reported."""
        return list(self._world.errors)

    @property
    def open_trees(self) -> int:
        """Rows in the ackers' ledgers: incomplete trees, and remains of trees that ended in another
        way."""
        return sum(
            process.engine.open_trees
            for process in self._processes
            if isinstance(process, AckerProcess)
        )

    @property
    def unsettled(self) -> int:
        """Number of processes with output that has not been delivered."""
        return sum(not process.quiet for process in self._processes)

    @property
    def seen(self) -> Counter[str]:
        """Counts of rare events, by name."""
        for process in self._processes:
            process.tally()
        return self._world.seen

    @checked()
    def processes(self, component: Text) -> Sequence[SimulatedProcess[Any]]:
        """Return the simulated processes of a component, for inspection."""
        return self._processes.of(self._known(component))

    @checked()
    def executors(self, component: Text) -> int:
        """Return the number of processes of a component."""
        return len(self._processes.of(self._known(component)))

    def any_place(self, random: Random) -> TopicPartition | None:
        """Return a random partition that has been written or read, if there is one."""
        places = self._world.logs.places()
        return random.choice(places) if places else None

    @property
    def pending(self) -> int:
        """Number of spout tuples that are neither acked nor failed."""
        return sum(
            process.engine.in_flight
            for process in self._processes
            if isinstance(process, SpoutProcess)
        )

    @checked()
    def instance(self, component: Text, task: Natural = 0) -> Spout | Bolt | BasicBolt:
        """Return the spout or bolt object that runs a task now. A crash replaces it."""
        if 0 <= task < self.topology.component(component).num_tasks:
            while not start_task(process := self._processes.holder(component, task), task):
                if not process.dead:  # otherwise user code ended it and it was replaced
                    raise KstormError(
                        f"task {task} of {component!r} cannot start now: a partition that it "
                        "needs is unavailable"
                    )
            if isinstance(process, SpoutProcess):
                return process.engine.tenures[task].task.spout
            if isinstance(process, BoltProcess):
                return process.engine.tenures[task].task.bolt
        raise TopologyError(f"{component!r} has no task {task} that runs a spout or bolt")

    def _known(self, component: str) -> str:
        if component in self.topology.components or component == ACKER_COMPONENT:
            return component
        if component == "acker":
            return ACKER_COMPONENT
        return self.topology.component(component).id  # raises, naming the known ones

    def _outcomes(self, told: dict[int, list[Any]], spout: str, task: int | None) -> list[Any]:
        ids = self.topology.task_ids(spout)
        return [
            message
            for task_id in (ids if task is None else (ids[task],))
            for message in told[task_id]
        ]
