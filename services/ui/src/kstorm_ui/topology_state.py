"""State of a topology at one moment, as the pages show it. All classes are plain data, built by
`kstorm_ui.topology_memory`."""

from collections.abc import Mapping, Sequence

import msgspec

from kstorm.introspection.outline import Outline
from kstorm.operations.status.bottlenecks import Bottleneck


class TaskRow(msgspec.Struct, frozen=True):
    """A task, with the counts that its process reports."""

    task: int
    process: str
    lag: int | None
    """Records behind in the task's partition. None if Kafka was not queried or did not respond."""
    executed: int | None
    emitted: int | None
    failed: int | None
    pending: int | None
    watermark: int | None = None
    """Unix time in milliseconds. None if the task has none."""
    waits_for: str = ""
    """The input that holds the watermark back: a partition or a task. Empty if there is none."""


class ProcessState(msgspec.Struct, frozen=True):
    """One process of a component."""

    name: str
    place: str
    trouble: str
    """Reason why it is not ready, or ""."""
    remark: str
    """Remarks that are not problems."""
    tasks: Sequence[int]
    starts: int
    """Number of observed starts, which is 1 if the process never died."""
    up: float | None
    """Seconds since its run began, by its own clock. None if it does not respond."""
    emitted: int
    executed: int
    acked: int
    failed: int
    pending: int
    rate: float
    """Tuples executed per second. For a spout, tuples emitted."""
    p50: float | None
    p99: float | None
    errors: int
    last_error: str
    last_error_age: float | None
    busy: float | None
    """Share of time in which it was busy, from 0 to 1. None if it does not report this."""


class ComponentState(msgspec.Struct, frozen=True):
    """One component. Counts begin when its processes or the web UI started."""

    component: str
    kind: str
    processes: int
    """Number of processes that should run."""
    ready: int
    tasks: int | None
    """None until a process has responded."""
    tasks_assigned: int
    emitted: int
    executed: int
    acked: int
    failed: int
    pending: int
    p50: float | None
    p99: float | None
    emit_rate: float
    """Tuples per second, over the last seconds, like all rates."""
    execute_rate: float
    ack_rate: float
    fail_rate: float
    lag: int | None
    """Lag in records. For a KafkaSpout, in messages."""
    behind: float | None
    """Seconds needed to process `lag` at the current rate. None if not known."""
    busy: float | None
    waits: Mapping[str, float]
    """Share of time spent waiting, by cause."""
    errors: int
    last_error: str
    last_error_age: float | None
    own: Mapping[str, float]
    """The component's own metrics."""
    blocked: float | None = None
    """Largest share of time that it waits for others, from 0 to 1: backpressure. None if unknown."""
    watermark: int | None = None
    """The lowest watermark of its tasks, Unix time in milliseconds. None without one."""
    timed: bool = False
    """True if it has event time, although it may have no watermark yet."""


class EdgeState(msgspec.Struct, frozen=True):
    """An edge of the topology's graph."""

    source: str
    target: str
    streams: Sequence[str]
    groupings: Sequence[str]
    rate: float
    """Tuples per second."""
    counted: bool
    """True if the rate was counted on this edge. Otherwise it is the source's total emit rate."""
    held: str
    """Bottleneck at its target, which slows the edge too. Empty if there is none."""


class TopologyState(msgspec.Struct, frozen=True):
    name: str
    place: str
    bootstrap: str
    """Kafka's bootstrap servers, if the source knows them. Empty: those of the environment."""
    zookeeper: str
    outline: Outline | None
    """Outline of the topology. None until a process has reported it."""
    active: bool
    components: Sequence[ComponentState]
    """Spouts first, ackers last."""
    edges: Sequence[EdgeState]
    causes: Sequence[Bottleneck]
    """Bottlenecks, the most significant first."""
    looked: float
    """Unix time of the poll."""
    processes: Mapping[str, Sequence[ProcessState]]
    """Processes by component."""
    tasks: Mapping[str, Sequence[TaskRow]]
    seen: float
    """Seconds since the web UI first saw it."""
    answered: bool
    """True if the last poll found it."""
    late: float | None = None
    """Share of late tuples in the last ten minutes, from 0 to 1. None without windowed bolts."""

    def component(self, name: str) -> ComponentState | None:
        return next((each for each in self.components if each.component == name), None)

    @property
    def troubles(self) -> list[tuple[str, str]]:
        """Processes that are not ready, with the reasons."""
        return [
            (each.name, each.trouble)
            for some in self.processes.values()
            for each in some
            if each.trouble
        ]

    @property
    def missing(self) -> list[str]:
        """Components with fewer processes than they should have."""
        return [
            each.component
            for each in self.components
            if len(self.processes.get(each.component, ())) < each.processes
        ]
