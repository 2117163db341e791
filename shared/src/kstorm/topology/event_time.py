"""Event time: which components of a topology compute watermarks, and which pass them on.

A *watermark* is a time in Unix milliseconds: its sender expects no more tuples up to this time.
Spouts compute it per source partition. Each task sends it to all tasks behind it. A task combines
what it received as the minimum over all tasks of its inputs.

Only components on the way to a windowed bolt with event time send watermarks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kstorm.errors import ConfigError
from kstorm.fitting import check_fields
from kstorm.topology.fields import Fields
from kstorm.topology.topology import ComponentSpec, Topology
from kstorm.topology.tuple import Source, Tuple

NEVER: Final = -(2**61)
"""The watermark before the first one: a time before every tuple's."""
MOST: Final = 2**61
"""Times of tuples are between `NEVER` and this."""


class Mark(NamedTuple):
    """A watermark on its way."""

    at: int
    idle: bool = False
    """True if its sender has nothing to send: others do not wait for it."""


UNKNOWN: Final = Mark(NEVER)
"""The watermark of a task that has sent none."""


def lowest(marks: Iterable[Mark]) -> Mark:
    """Combine watermarks. The lowest counts, without idle ones. If all are idle, the highest."""
    found = list(marks)
    active = [mark.at for mark in found if not mark.idle]
    if active:
        return Mark(min(active))
    return Mark(max((mark.at for mark in found), default=NEVER), idle=True)


Latest = Callable[[Sequence[Sequence[Any]]], int]
"""Returns the latest time of some rows of values, or `NEVER` if none has a valid time."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """The place of the event time in a spout's tuples."""

    read: str | Callable[[Tuple], Any]
    """A field, or a function of the tuple. The time is in Unix milliseconds."""
    idle_ms: int | None = None
    """Milliseconds without a message after which a partition does not hold the watermark back.
    None: a partition is always waited for."""

    def __post_init__(self) -> None:
        """Raise `ConfigError` for a value of another type or out of range."""
        check_fields(self)
        if self.idle_ms is not None and self.idle_ms < 1:
            raise ConfigError(f"idle_ms is {self.idle_ms}: it must be at least 1")

    def latest(self, component: str, stream: str, task: int, fields: Fields) -> Latest:
        """Return a function for the rows of one stream."""
        if callable(self.read):
            source = Source(component, stream, task, fields)
            read = self.read
            return lambda rows: _highest(_each(read, rows, source))
        if self.read not in fields:
            return lambda rows: NEVER
        column = fields.index(self.read)
        return lambda rows: _highest([row[column] for row in rows])


class TellsTime:
    """Mixin of bolts that follow watermarks and compute their own (windowed bolts)."""

    @property
    def event_time(self) -> EventTime | None:
        """The place of the event time in its input. None if it does not use event time."""
        raise NotImplementedError

    def follow(self, tasks: Mapping[str, Sequence[int]]) -> None:
        """Called before the state is loaded: these tasks, by component, send their watermarks."""

    def store_watermarks(self) -> None:
        """Put the received watermarks into the state. Called before a checkpoint takes changes."""

    def receive_watermark(self, component: str, task: int, mark: Mark) -> None:
        """Called with a watermark, when all tuples that came before it are finished."""

    @property
    def watermark_is_due(self) -> bool:
        """True if the bolt should get a tick tuple now, because its watermark can advance."""
        return False

    @property
    def watermark(self) -> Mark:
        """The watermark of the bolt's output."""
        return UNKNOWN

    @property
    def reached(self) -> int:
        """The bolt's own watermark, up to which its windows are complete."""
        return NEVER

    def holders(self) -> Iterable[tuple[int, Mark]]:
        """Return the tasks of its inputs, each with its last known watermark."""
        return ()


class Timed:
    """Mixin of spouts that compute the watermark of their partitions themselves."""

    def watermark(self) -> Mark:
        """Return the task's watermark: the lowest of its partitions."""
        raise NotImplementedError

    def holders(self) -> Iterable[tuple[str, Mark]]:
        """Return its partitions, each with its watermark."""
        return ()


class TimePlan:
    """The role of each component of a topology in event time."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._consumers: dict[str, list[ComponentSpec]] = {name: [] for name in topology.components}
        for bolt in topology.bolts:
            for name in dict.fromkeys(one.component for one in bolt.inputs):
                self._consumers[name].append(bolt)
        self.spouts: dict[str, EventTime] = {}
        """The event time of each spout whose watermark is used."""
        self._declared: set[str] = set()
        for spout in topology.spouts:
            declared = spout.component.event_time()  # type: ignore[attr-defined]
            found = declared or self._of_windows_behind(spout.id)
            if declared is not None:
                self._declared.add(spout.id)
            if found is not None:
                self.spouts[spout.id] = found
        self._passes: dict[str, bool] = {}
        self._needed: dict[str, bool] = {}
        self.spouts = {name: time for name, time in self.spouts.items() if self.targets(name)}

    def targets(self, component: str) -> list[str]:
        """Return the bolts to which a component sends its watermark."""
        spec = self._topology.components[component]
        if spec.kind == "spout" and component not in self.spouts:
            return []
        if spec.kind == "bolt" and not self._passes_on(component):
            return []
        declared = spec.kind == "bolt" or component in self._declared
        return [
            bolt.id
            for bolt in self._consumers[component]
            if _tells_time(bolt)
            or (declared and self._passes_on(bolt.id) and self._is_needed(bolt.id))
        ]

    def inputs(self, component: str) -> dict[str, range]:
        """Return the components that send their watermarks to this bolt, with their tasks."""
        return {
            name: self._topology.task_ids(name)
            for name in dict.fromkeys(
                one.component for one in self._topology.components[component].inputs
            )
            if component in self.targets(name)
        }

    def _of_windows_behind(self, spout: str) -> EventTime | None:
        """Return the event time that the windowed bolts right behind a spout use, if it is one."""
        found = [
            bolt.component.event_time
            for bolt in self._consumers[spout]
            if isinstance(bolt.component, TellsTime) and bolt.component.event_time is not None
        ]
        if len({time.read for time in found}) != 1:
            return None
        idle = [time.idle_ms for time in found if time.idle_ms is not None]
        return EventTime(found[0].read, min(idle, default=None))

    def _passes_on(self, bolt: str) -> bool:
        """Return True if all inputs of a bolt have a watermark, or if it computes its own."""
        if bolt not in self._passes:
            self._passes[bolt] = False  # also the answer within a cycle
            spec = self._topology.components[bolt]
            if isinstance(spec.component, TellsTime):
                self._passes[bolt] = _tells_time(spec)
            else:
                self._passes[bolt] = all(
                    one.component in self._declared
                    if self._topology.components[one.component].kind == "spout"
                    else self._passes_on(one.component)
                    for one in spec.inputs
                )
        return self._passes[bolt]

    def _is_needed(self, bolt: str) -> bool:
        if bolt not in self._needed:
            self._needed[bolt] = False
            self._needed[bolt] = any(
                _tells_time(one) or (self._passes_on(one.id) and self._is_needed(one.id))
                for one in self._consumers[bolt]
            )
        return self._needed[bolt]


def _tells_time(spec: ComponentSpec) -> bool:
    return isinstance(spec.component, TellsTime) and spec.component.event_time is not None


def is_time(value: Any) -> bool:
    """Return True if a value can be the time of a tuple."""
    return type(value) is int and NEVER < value < MOST


def _each(read: Callable[[Tuple], Any], rows: Sequence[Sequence[Any]], source: Source) -> list[Any]:
    found = []
    for row in rows:
        with suppress(Exception):  # the bolt fails this tuple; here it has no time
            found.append(read(Tuple(row, source)))
    return found


def _highest(times: list[Any]) -> int:
    if set(map(type, times)) != {int} or not NEVER < max(times) < MOST:
        times = [time for time in times if is_time(time)]
    return max(times, default=NEVER)
