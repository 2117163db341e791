"""Builds the state of one topology from the reports of its source, poll by poll."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final

import msgspec

from kstorm.operations.status.bottlenecks import Bottleneck
from kstorm.operations.status.recent_snapshots import WINDOW_SECS
from kstorm.runtime.kafka.lag import Lags
from kstorm.runtime.service.status_counters import StatusCounters, last_error
from kstorm_ui.counters import CounterSums, ProcessCounters
from kstorm_ui.edges import edges_of
from kstorm_ui.history import History, HistoryPoint
from kstorm_ui.late_share import LateShare
from kstorm_ui.recent_bottlenecks import RecentBottlenecks
from kstorm_ui.sources.report import ComponentReport, ProcessReport, TopologyReport
from kstorm_ui.timeline import Timeline
from kstorm_ui.topology_state import (
    ComponentState,
    EdgeState,
    ProcessState,
    TaskRow,
    TopologyState,
)

_GONE_SECS: Final = 60.0
_ORDER: Final = {"spout": 0, "bolt": 1, "acker": 2}


Totals = Mapping[tuple[str, str], CounterSums]
"""Total counts of processes, by component and process name."""


class TopologyMemory:
    """State and history of one topology, for as long as the web UI runs."""

    def __init__(self, now: float) -> None:
        self.history = History()
        self.state: TopologyState
        self.totals: Mapping[str, StatusCounters] = {}
        """Totals by component."""
        self._first = now
        self._lives: dict[tuple[str, str], ProcessCounters] = {}
        self._seen: dict[tuple[str, str], float] = {}
        self._gone: dict[str, CounterSums] = {}
        self._recent: deque[tuple[float, Totals]] = deque()
        self._causes = RecentBottlenecks()
        self._late = LateShare()
        self.timeline = Timeline()

    def learn(
        self, report: TopologyReport, lags: Lags, now: float, clock: float, no_broker: str = ""
    ) -> TopologyState:
        """Add a poll. `now` is a monotonic time, `clock` the Unix time. `no_broker` is the error if
        no broker responds."""
        for process in report.processes:
            key = process.component, process.name
            self._lives.setdefault(key, ProcessCounters()).learn(process.status)
            self._seen[key] = now
        self._forget(now)
        totals = {key: lives.total for key, lives in self._lives.items()}
        self.totals = {
            each.component: self._sum(totals, each.component).figures for each in report.components
        }
        since = self._remember(now, totals)
        looked = _Look(report, lags, now - since[0], clock)
        components = [
            self._component(each, looked, totals, since[1])
            for each in sorted(report.components, key=lambda each: _ORDER.get(each.kind, 1))
        ]
        causes = self._causes.learn(report, lags, now, no_broker)
        self.timeline.learn(report, clock)
        self.state = TopologyState(
            name=report.name,
            place=report.place,
            bootstrap=report.bootstrap,
            zookeeper=report.zookeeper,
            outline=report.outline,
            active=all(
                process.status.get("active", True) for process in report.processes if process.status
            ),
            components=components,
            edges=self._edges(report, components, totals, since[1], looked.secs, causes),
            causes=causes,
            looked=clock,
            processes={
                each.component: [
                    self._process(process, looked, since[1])
                    for process in looked.of(each.component)
                ]
                for each in report.components
            },
            tasks={each.component: _tasks(looked, each.component) for each in report.components},
            seen=now - self._first,
            answered=True,
            late=self._late.learn(totals.values(), now),
        )
        points = {
            each.component: _point(each, self._recent_of(each.component, since[1], totals))
            for each in components
        }
        self.history.add(now, points, self.totals)
        return self.state

    def lost(self) -> None:
        """Record that a poll did not find the topology."""
        self.state = msgspec.structs.replace(self.state, answered=False)

    def _forget(self, now: float) -> None:
        """Merge processes that are gone into one sum, because pods of a Deployment return under
        other names."""
        for key, seen in list(self._seen.items()):
            if now - seen > _GONE_SECS:
                total = self._lives.pop(key).total.ended()
                self._gone[key[0]] = self._gone.get(key[0], CounterSums()) + total
                del self._seen[key]

    def _sum(self, totals: Totals, component: str) -> CounterSums:
        mine = (counts for key, counts in totals.items() if key[0] == component)
        return sum(mine, self._gone.get(component, CounterSums()))

    def _remember(self, now: float, totals: Totals) -> tuple[float, Totals]:
        """Store the totals, and return those of some seconds ago for comparison."""
        self._recent.append((now, totals))
        while len(self._recent) > 2 and self._recent[1][0] <= now - WINDOW_SECS:
            self._recent.popleft()
        return self._recent[0]

    def _recent_of(self, component: str, before: Totals, totals: Totals) -> CounterSums:
        """Return the counts since `before`, except those of processes that were not seen then."""
        mine = [key for key in totals if key[0] == component and key in before]
        return sum((totals[key] - before[key] for key in mine), CounterSums())

    def _component(
        self, declared: ComponentReport, looked: "_Look", totals: Totals, before: Totals
    ) -> ComponentState:
        name = declared.component
        pages = looked.pages(name)
        total, recent = self._sum(totals, name), self._recent_of(name, before, totals)
        error, age = _newest_error(pages)
        own, waits = _own(pages), recent.waits
        marks = [time for page in pages for time in (page.get("watermarks") or {}).values()]
        lag = _lag(declared.kind, looked.lags.get(name), own)
        worked_off = recent.figures.acked if declared.kind == "spout" else recent.figures.frames_in
        of_all = looked.secs * max(1, len(pages))
        return ComponentState(
            component=name,
            kind=declared.kind,
            processes=declared.processes,
            ready=sum(not page.get("not_ready") for page in pages),
            tasks=next((int(page["num_tasks"]) for page in pages if "num_tasks" in page), None),
            tasks_assigned=sum(len(page.get("tasks", ())) for page in pages),
            emitted=total.figures.emitted,
            executed=total.figures.executed,
            acked=total.figures.acked,
            failed=total.figures.failed,
            pending=total.figures.pending,
            p50=total.figures.latency(0.5),
            p99=total.figures.latency(0.99),
            emit_rate=_rate(recent.figures.emitted, looked.secs),
            execute_rate=_rate(recent.figures.executed, looked.secs),
            ack_rate=_rate(recent.figures.acked, looked.secs),
            fail_rate=_rate(recent.figures.failed, looked.secs),
            lag=lag,
            behind=_behind(lag, _rate(worked_off, looked.secs)),
            busy=None if recent.busy is None else min(1.0, _rate(recent.busy, of_all)),
            waits={
                cause: _rate(seconds, of_all) for cause, seconds in waits.items() if seconds > 0
            },
            blocked=min(1.0, max(_rate(seconds, of_all) for seconds in waits.values()))
            if waits
            else None,
            watermark=min((at for time in marks if (at := time.get("watermark"))), default=None),
            timed=bool(marks),
            errors=total.figures.errors,
            last_error=error,
            last_error_age=age,
            own=own,
        )

    def _process(self, report: ProcessReport, looked: "_Look", before: Totals) -> ProcessState:
        key = report.component, report.name
        lives = self._lives[key]
        total, page = lives.total, report.status or {}
        recent = total - before[key] if key in before else CounterSums()
        figures = total.figures
        executes = lives.status.get("kind") != "spout"
        return ProcessState(
            name=report.name,
            place=report.place,
            trouble=str(page.get("not_ready", ""))
            if report.status is not None
            else report.trouble or "does not answer",
            remark="; ".join(
                str(said)
                for key in ("remark", "control_problem", "input_waits", "unread", "recovered")
                if (said := page.get(key))
            ),
            tasks=list(page.get("tasks", ())),
            starts=lives.starts,
            up=max(0.0, looked.clock - page["begun_at"]) if "begun_at" in page else None,
            emitted=figures.emitted,
            executed=figures.executed,
            acked=figures.acked,
            failed=figures.failed,
            pending=figures.pending,
            rate=_rate(
                recent.figures.executed if executes else recent.figures.emitted, looked.secs
            ),
            p50=figures.latency(0.5),
            p99=figures.latency(0.99),
            errors=figures.errors,
            last_error=last_error(lives.status),
            last_error_age=page.get("last_error_age"),
            busy=None if recent.busy is None else min(1.0, _rate(recent.busy, looked.secs)),
        )

    def _edges(
        self,
        report: TopologyReport,
        components: Sequence[ComponentState],
        totals: Totals,
        before: Totals,
        secs: float,
        causes: Sequence[Bottleneck],
    ) -> Sequence[EdgeState]:
        rates = {}
        for each in components:
            counted = self._recent_of(each.component, before, totals).edges
            if counted is not None:
                rates[each.component] = {
                    edge: _rate(count, secs) for edge, count in counted.items()
                }
        return edges_of(report.outline.edges if report.outline else (), rates, components, causes)


class _Look:
    """One poll, by component."""

    def __init__(self, report: TopologyReport, lags: Lags, secs: float, clock: float) -> None:
        self.lags, self.secs, self.clock = lags, secs, clock
        self._processes: dict[str, list[ProcessReport]] = {}
        for process in report.processes:
            self._processes.setdefault(process.component, []).append(process)

    def of(self, component: str) -> Sequence[ProcessReport]:
        return self._processes.get(component, ())

    def pages(self, component: str) -> Sequence[Mapping[str, Any]]:
        return [process.status for process in self.of(component) if process.status is not None]


def _rate(count: float, secs: float) -> float:
    return max(0.0, count / secs) if secs > 0 else 0.0


def _own(pages: Iterable[Mapping[str, Any]]) -> Mapping[str, float]:
    found: Counter[str] = Counter()
    for page in pages:
        found.update(
            {
                str(name): value
                for name, value in (page.get("source") or page.get("own") or {}).items()
            }
        )
    return dict(found)


def _lag(kind: str, by_task: Mapping[int, int] | None, own: Mapping[str, float]) -> int | None:
    if kind == "spout":
        return int(own["lag"]) if "lag" in own else None
    return None if by_task is None else sum(by_task.values())


def _behind(lag: int | None, rate: float) -> float | None:
    if lag is None or (lag and not rate):
        return None
    return lag / rate if lag else 0.0


def _newest_error(pages: Iterable[Mapping[str, Any]]) -> tuple[str, float | None]:
    errors = [
        (last_error(page), page.get("last_error_age")) for page in pages if page.get("last_error")
    ]
    return min(errors, key=lambda error: inf if error[1] is None else error[1], default=("", None))


def _tasks(looked: _Look, component: str) -> Sequence[TaskRow]:
    lags = looked.lags.get(component, {})
    pages = [(process.name, process.status or {}) for process in looked.of(component)]
    told = _told_of_tasks([page for _, page in pages])
    found = []
    for name, page in pages:
        for task in page.get("tasks", ()):
            counts: dict[str, Any] = {
                key: told.get(task, {}).get(key)
                for key in ("executed", "emitted", "failed", "pending", "watermark")
            }
            if counts["executed"] is not None:
                counts["executed"] -= told.get(task, {}).get("ticks", 0)
            counts["waits_for"] = told.get(task, {}).get("waits_for", "")
            found.append(TaskRow(task=task, process=name, lag=lags.get(task), **counts))
    return sorted(found, key=lambda each: each.task)


def _told_of_tasks(pages: Sequence[Mapping[str, Any]]) -> Mapping[int, Mapping[str, Any]]:
    """Return each task's counts and watermark by its number in the component.

    `by_task` in `/status` has topology-wide ids in the same order. A process that still recovers a
    task has fewer entries there. So the first ID is taken from a process that has recovered all of
    its tasks.
    """
    of_pages = [
        (
            {
                int(id): {**told, **(page.get("watermarks") or {}).get(id, {})}
                for id, told in (page.get("by_task") or {}).items()
            },
            page.get("tasks", ()),
        )
        for page in pages
    ]
    first = next(
        (min(told) - min(tasks) for told, tasks in of_pages if told and len(told) == len(tasks)),
        None,
    )
    return (
        {}
        if first is None
        else {id - first: counts for told, _ in of_pages for id, counts in told.items()}
    )


def _point(state: ComponentState, recent: CounterSums) -> HistoryPoint:
    figures: StatusCounters = recent.figures
    return HistoryPoint(
        emitted=state.emit_rate,
        executed=state.execute_rate,
        acked=state.ack_rate,
        failed=state.fail_rate,
        pending=state.pending,
        lag=state.lag,
        p50=figures.latency(0.5),
        p99=figures.latency(0.99),
    )
