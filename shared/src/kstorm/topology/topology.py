"""A complete topology: the result of `TopologyBuilder.build`, loaded by every service.

It determines everything that must not change while tuples are in flight: task counts, task IDs and
topic names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from kstorm.errors import TopologyError
from kstorm.topology.component import Component
from kstorm.topology.config import Config
from kstorm.topology.declarer import StreamSpec
from kstorm.topology.groupings import Grouping
from kstorm.topology.names import Names
from kstorm.topology.positioned import Positioned
from kstorm.topology.stateful import Stateful

ACKER_COMPONENT: Final = "__acker"


@dataclass(frozen=True, slots=True)
class Input:
    """One subscription of a bolt."""

    component: str
    stream: str
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """One spout or bolt with all its declarations."""

    id: str
    kind: Literal["spout", "bolt"]
    component: Component
    """A `Spout`, a `Bolt` or a `BasicBolt`. Each task runs a copy of it."""
    parallelism: int
    """Executors: the number of processes to start with."""
    num_tasks: int
    """Tasks, which is also the number of partitions of the component's input topic."""
    streams: Mapping[str, StreamSpec]
    inputs: Sequence[Input]
    config: Config
    """The topology's settings with this component's overrides."""


@dataclass(frozen=True)
class Topology(Names):
    """A name, settings, and components by id in declaration order."""

    name: str
    config: Config
    components: Mapping[str, ComponentSpec]
    _task_ids: dict[str, range] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        # Spouts first, then by id, so that task ids do not depend on the order of declarations.
        ordered = sorted(self.components.values(), key=lambda spec: (spec.kind != "spout", spec.id))
        first = 1
        for spec in ordered:
            self._task_ids[spec.id] = range(first, first + spec.num_tasks)
            first += spec.num_tasks

    @property
    def spouts(self) -> list[ComponentSpec]:
        """The spouts, in declaration order."""
        return [spec for spec in self.components.values() if spec.kind == "spout"]

    @property
    def bolts(self) -> list[ComponentSpec]:
        """The bolts, in declaration order."""
        return [spec for spec in self.components.values() if spec.kind == "bolt"]

    def component(self, component: str) -> ComponentSpec:
        """Return a component by id. Raises `TopologyError` with the known ids if it does not exist."""
        try:
            return self.components[component]
        except KeyError:
            raise TopologyError(
                f"topology {self.name!r} has no component {component!r}: it has "
                f"{', '.join(self.components)}"
            ) from None

    def task_ids(self, component: str) -> range:
        """Return the topology-wide task ids of a component, by task index."""
        self.component(component)
        return self._task_ids[component]

    def locate_task(self, task: int) -> tuple[str, int]:
        """Return the component and task index of a topology-wide task id.

        Raises `TopologyError` if it does not exist.
        """
        for component, ids in self._task_ids.items():
            if task in ids:
                return component, task - ids.start
        raise TopologyError(
            f"topology {self.name!r} has no task {task}: its tasks are 1 to {self.total_tasks}"
        )

    @property
    def total_tasks(self) -> int:
        """Tasks of all spouts and bolts."""
        return sum(len(ids) for ids in self._task_ids.values())

    @property
    def longest_message_timeout_secs(self) -> float:
        """The longest message timeout of all spouts, which may differ. Infinite if a spout has no
        timeout.

        Ackers must keep rows for longer than this.
        """
        return max(spout.config.message_timeout_secs for spout in self.spouts)

    def consumers(self, component: str, stream: str) -> list[tuple[ComponentSpec, Grouping]]:
        """Return the bolts that subscribe to a stream, each with its grouping."""
        return [
            (bolt, declared.grouping)
            for bolt in self.bolts
            for declared in bolt.inputs
            if (declared.component, declared.stream) == (component, stream)
        ]

    def topics(self) -> dict[str, int]:
        """Return every topic of the topology except changelogs, with its partition count."""
        counts = {self.bolt_topic(bolt.id): bolt.num_tasks for bolt in self.bolts}
        counts |= {self.completions_topic(spout.id): spout.num_tasks for spout in self.spouts}
        if self.config.acker_tasks:
            counts[self.acker_topic] = self.config.acker_tasks
        counts[self.dead_letters_topic] = counts[self.events_topic] = 1
        if any(isinstance(spout.component, Positioned) for spout in self.spouts):
            counts[self.finished_topic] = counts[self.orders_topic] = 1
        return counts

    def changelogs(self) -> dict[str, int]:
        """Return the compacted topics from which state is recovered, with their partition counts."""
        kept = [
            b for b in self.bolts if self.config.exactly_once or isinstance(b.component, Stateful)
        ]
        counts = {self.state_topic(bolt.id): bolt.num_tasks for bolt in kept}
        if self.config.acker_tasks:
            counts[self.ledger_topic] = self.config.acker_tasks
        return counts
