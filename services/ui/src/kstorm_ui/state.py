"""A topology at one moment, as the pages show it. Everything here is data; `kstorm_ui.memory` makes it."""

from collections.abc import Mapping, Sequence

import msgspec

from kstorm.inspect.causes import HoldUp
from kstorm.inspect.outline import Outline


class TaskState(msgspec.Struct, frozen=True):
    """A task, as far as its process tells."""

    task: int
    process: str
    lag: int | None
    """Records behind in the task's partition; None if Kafka was not asked, or does not say."""
    executed: int | None
    emitted: int | None
    failed: int | None
    pending: int | None


class ProcessState(msgspec.Struct, frozen=True):
    """One process of a component."""

    name: str
    place: str
    trouble: str
    """Why it does not do its share; empty if it does."""
    remark: str
    """What to know although nothing is wrong."""
    tasks: Sequence[int]
    starts: int
    """How often it was seen to start: 1 if it never died."""
    up: float | None
    """Seconds since its life began, by its own clock; None if it does not answer."""
    emitted: int
    executed: int
    acked: int
    failed: int
    pending: int
    rate: float
    """Tuples executed a second, of a spout emitted."""
    p50: float | None
    p99: float | None
    errors: int
    last_error: str
    last_error_age: float | None
    busy: float | None
    """The part of the time in which it worked, 0 to 1; None if it does not tell."""


class ComponentState(msgspec.Struct, frozen=True):
    """One component. Counts begin when its processes did, or the page."""

    component: str
    kind: str
    processes: int
    """That there should be."""
    ready: int
    tasks: int | None
    """None while no process has answered."""
    tasks_assigned: int
    emitted: int
    executed: int
    acked: int
    failed: int
    pending: int
    p50: float | None
    p99: float | None
    emit_rate: float
    """A second, over the last seconds, as all rates."""
    execute_rate: float
    ack_rate: float
    fail_rate: float
    lag: int | None
    """Records behind, of a KafkaSpout messages."""
    behind: float | None
    """Seconds that it takes to work off `lag` at the present rate; None if that is not known."""
    busy: float | None
    waits: Mapping[str, float]
    """The part of the time in which it waits, by cause."""
    errors: int
    last_error: str
    last_error_age: float | None
    own: Mapping[str, float]
    """What the component counts itself."""


class EdgeState(msgspec.Struct, frozen=True):
    """Who sends to whom."""

    source: str
    target: str
    streams: Sequence[str]
    groupings: Sequence[str]
    rate: float
    """Tuples a second."""
    counted: bool
    """Whether the rate was counted on this edge; else it is what the source emits in all."""
    held: str
    """What holds its target back, and so what is sent there; empty if nothing does."""


class TopologyState(msgspec.Struct, frozen=True):
    """A topology."""

    name: str
    place: str
    bootstrap: str
    """Kafka's bootstrap servers, where the source says; empty: those of the environment."""
    zookeeper: str
    outline: Outline | None
    """What the topology declares; None while no process has told it."""
    active: bool
    components: Sequence[ComponentState]
    """Spouts first, ackers last."""
    edges: Sequence[EdgeState]
    causes: Sequence[HoldUp]
    """What holds it back, the most telling first."""
    looked: float
    """Unix time of the look."""
    processes: Mapping[str, Sequence[ProcessState]]
    """By component."""
    tasks: Mapping[str, Sequence[TaskState]]
    seen: float
    """Seconds since the page first saw it."""
    answered: bool
    """Whether the last look found it."""

    def component(self, name: str) -> ComponentState | None:
        """A component by its id."""
        return next((each for each in self.components if each.component == name), None)

    @property
    def troubles(self) -> list[tuple[str, str]]:
        """Processes that do not do their share, and why."""
        return [
            (each.name, each.trouble)
            for some in self.processes.values()
            for each in some
            if each.trouble
        ]

    @property
    def missing(self) -> list[str]:
        """Components of which fewer processes were found than there should be."""
        return [
            each.component
            for each in self.components
            if len(self.processes.get(each.component, ())) < each.processes
        ]
