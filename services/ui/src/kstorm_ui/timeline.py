"""Marks on the chart: restarts, moved tasks and deployments that the polls show, and the operators'
events."""

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kstorm.events import Event
from kstorm_ui.sources.report import ComponentReport, TopologyReport

_MOST: Final = 500
_TOGETHER_SECS: Final = 5.0
"""Changes of the same kind within this time are one mark."""
_MOST_NAMED: Final = 2
"""If more processes have changed, the mark names their components."""
_MOST_LISTED: Final = 4
KINDS: Final[Mapping[str, str]] = {
    "kill": "K",
    "start": "S",
    "rebalance": "R",
    "deployment": "D",
    "operator": "O",
}
"""Letter of each kind of mark, so that colour is not the only signal."""
_DEPLOYS: Final = re.compile("deploy|upgrade|restart|prepare|roll")


class TimelineMark(msgspec.Struct, frozen=True):
    at: float
    """Unix time."""
    kind: str
    """One of `KINDS`."""
    said: str


class Timeline:
    """Changes of one topology's processes between polls."""

    def __init__(self) -> None:
        self._marks: deque[TimelineMark] = deque(maxlen=_MOST)
        self._names: dict[str, list[str]] = {}
        self._component_of: dict[str, str] = {}
        self._before: dict[str, tuple[Any, frozenset[int]] | None] = {}
        self._outline: object = None
        self._components: dict[str, ComponentReport] = {}
        self._new_images: dict[str, str] = {}
        """By component, empty if only something else has changed."""

    def learn(self, report: TopologyReport, clock: float) -> None:
        """Add a poll. The first one is the state to compare with."""
        first = not self._before
        now: dict[str, tuple[Any, frozenset[int]] | None] = {
            each.name: None
            if each.status is None
            else (
                (each.status.get("pid"), each.status.get("begun_at")),
                frozenset(each.status.get("tasks") or ()),
            )
            for each in report.processes
        }
        components = {each.name: each.component for each in report.processes}
        self._component_of |= components
        for component in report.components:
            self._deployed(component, clock)
        if not first:
            if report.outline is not None and self._outline not in (None, report.outline):
                self._add(clock, "deployment", "the topology's code")
            for name in sorted({*self._before, *now}):
                self._compare(name, self._before.get(name), now.get(name), clock)
        self._before = now
        marked = {name for names in self._names.values() for name in names}
        self._component_of = {
            name: component
            for name, component in self._component_of.items()
            if name in components or name in marked
        }
        self._outline = report.outline or self._outline

    def _deployed(self, now: ComponentReport, clock: float) -> None:
        """Note a new revision. Kubernetes reports it some time after the image."""
        before = self._components.get(now.component)
        if before is None or (now.revision and before.revision != now.revision):
            self._components[now.component] = now
            if before is not None and before.revision:
                changed = now.image != before.image
                self._new_images[now.component] = now.image.rpartition("/")[2] if changed else ""
                self._add(clock, "deployment", now.component)

    def _compare(
        self,
        name: str,
        before: tuple[Any, frozenset[int]] | None,
        now: tuple[Any, frozenset[int]] | None,
        clock: float,
    ) -> None:
        if before is not None and (now is None or now[0] != before[0]):
            self._add(clock, "kill", name)
        if now is None:
            return
        if before is None or now[0] != before[0]:
            self._add(clock, "start", name)
        elif now[1] != before[1]:
            self._add(clock, "rebalance", name)

    def _add(self, clock: float, kind: str, name: str) -> None:
        last = next((mark for mark in reversed(self._marks) if mark.kind == kind), None)
        if last is not None and clock - last.at < _TOGETHER_SECS:
            names = self._names[kind]
            if name not in names:
                names.append(name)
            self._marks[self._marks.index(last)] = TimelineMark(
                last.at, kind, self._said(kind, names)
            )
            return
        self._names[kind] = [name]
        self._marks.append(TimelineMark(clock, kind, self._said(kind, [name])))

    def _said(self, kind: str, names: Sequence[str]) -> str:
        """Name the processes, or only their components if there are many."""
        if kind == "deployment":
            by_image: dict[str, list[str]] = {}
            for name in names:
                by_image.setdefault(self._new_images.get(name, ""), []).append(name)
            parts = (
                f"{_listed(found)} ({image})" if image else _listed(found)
                for image, found in by_image.items()
            )
            return f"{_SAID[kind]} {'; '.join(parts)}"
        if len(names) <= _MOST_NAMED:
            return f"{_SAID[kind]} {_listed(names)}"
        components = dict.fromkeys(self._component_of.get(name, name) for name in names)
        return f"{_SAID[kind]} {len(names)} processes of {_listed(list(components))}"

    @property
    def marks(self) -> Sequence[TimelineMark]:
        """The marks, oldest first."""
        return list(self._marks)


def marks_of(events: Iterable[Event]) -> list[TimelineMark]:
    return [
        TimelineMark(
            event.at / 1000,
            "deployment" if _DEPLOYS.search(event.verb) else "operator",
            " ".join(filter(None, [event.verb, event.what, f"by {event.who}"])),
        )
        for event in events
    ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{', '.join(names[:_MOST_LISTED])}{more}"


_SAID: Final = {
    "kill": "ended or stopped responding:",
    "start": "started:",
    "rebalance": "tasks moved:",
    "deployment": "changed:",
}
