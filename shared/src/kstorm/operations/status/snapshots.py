"""Compare two snapshots of a component: utilisation, lag and process count."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from kstorm.operations.formatting import counted

_LEAST_LAG: Final = 10
"""A lag of fewer records per partition is not reported.

They may be records that have just arrived, and the transaction markers between them.
"""
_CHANGE: Final = 0.01
"""A lag counts as rising or falling if it changes by at least this share."""
_MOST: Final = 0.5
"""A partition is named if it has more than this share of the lag."""

StatusPage = Mapping[str, Any]
"""A process's `/status` response."""


class ProcessSnapshot(Struct, frozen=True):
    name: str
    page: StatusPage | None
    """None if the process does not respond."""
    trouble: str = ""
    """Reason why it does not respond, if known."""
    since: float | None = None
    """Unix time at which it became unready, if known."""

    @property
    def not_ready(self) -> str:
        """Reason why the process is not ready, or empty if it is."""
        return (
            self.trouble or "does not answer"
            if self.page is None
            else str(self.page.get("not_ready") or "")
        )


class Backlog(Struct, frozen=True):
    """A component's lag as Kafka reports it."""

    at: float
    """Time of the measurement in seconds, on a clock that all backlogs of the component share."""
    behind: Mapping[Any, int]
    """Records that the group has not committed, by input partition."""


class ComponentSnapshot(Struct, frozen=True):
    """A snapshot of one component."""

    at: float
    """Seconds on any monotonic clock."""
    processes: Sequence[ProcessSnapshot]
    backlog: Backlog | None = None
    """None if Kafka was not asked or does not report it.

    For a KafkaSpout, its processes report the lag, in messages.
    """

    @property
    def pages(self) -> Sequence[StatusPage]:
        """`/status` of the processes that responded."""
        return [process.page for process in self.processes if process.page is not None]


class TopologySnapshot(Struct, frozen=True):
    """A snapshot of a topology."""

    at: float
    """Seconds on any monotonic clock."""
    wanted: Mapping[str, tuple[str, int]]
    """Kind (`spout`, `bolt` or `acker`) and desired number of processes, by component."""
    processes: Mapping[str, Sequence[ProcessSnapshot]]
    """Processes that were found, by component."""
    backlogs: Mapping[str, Backlog] = {}
    """Backlogs by component, if Kafka reported them."""

    def look(self, component: str) -> ComponentSnapshot:
        return ComponentSnapshot(
            self.at, self.processes.get(component, ()), self.backlogs.get(component)
        )


def compare(before: TopologySnapshot, after: TopologySnapshot) -> "Sequence[ComponentChange]":
    """Return the components of the newer snapshot, each with its state in both."""
    return [
        ComponentChange(name, kind, processes, before.look(name), after.look(name))
        for name, (kind, processes) in after.wanted.items()
    ]


class ComponentChange(Struct, frozen=True):
    """A component in two snapshots."""

    name: str
    kind: str
    """`spout`, `bolt` or `acker`."""
    processes: int
    """Desired number of processes."""
    before: ComponentSnapshot
    after: ComponentSnapshot

    @property
    def ready(self) -> int:
        """Number of ready processes."""
        return sum(not process.not_ready for process in self.after.processes)

    @property
    def unready(self) -> Sequence[ProcessSnapshot]:
        return [process for process in self.after.processes if process.not_ready]

    @property
    def secs(self) -> float:
        """Seconds between the snapshots."""
        return self.after.at - self.before.at

    def pairs(self) -> Iterator[tuple[StatusPage, StatusPage]]:
        """Yield the newer and the older page of each process.

        The older page is empty if the process started in between.
        """
        before = {_life(page): page for page in self.before.pages}
        for page in self.after.pages:
            yield page, before.get(_life(page), {})

    def shares(self, seconds: Callable[[StatusPage], float]) -> Mapping[str, float]:
        """Return for each process the growth of a counter in seconds, as a share of the interval."""
        lived = [(page, before) for page, before in self.pairs() if before and self.secs > 0]
        return {
            str(page.get("instance", "?")): (seconds(page) - seconds(before)) / self.secs
            for page, before in lived
        }

    @property
    def lag(self) -> int | None:
        """Lag in records, or messages for a spout. None if unknown."""
        return None if self._after is None else sum(self._after.behind.values())

    @property
    def growth(self) -> float | None:
        """Growth of the lag in records per second, negative if it falls. None if unknown."""
        now, before = self._after, self._before
        if (
            now is None
            or before is None
            or now.at <= before.at
            or now.behind.keys() != before.behind.keys()
        ):
            return None
        change = sum(now.behind.values()) - sum(before.behind.values())
        least = max(_LEAST_LAG, _CHANGE * sum(before.behind.values()))
        return change / (now.at - before.at) if abs(change) > least else 0.0

    @property
    def lags(self) -> bool:
        """True if the lag is large enough to report."""
        return self._after is not None and sum(self._after.behind.values()) > _LEAST_LAG * max(
            1, len(self._after.behind)
        )

    @property
    def late(self) -> float | None:
        """Seconds needed to process the lag at the present rate. None if unknown.

        Infinite if the component has a lag and processes nothing.
        """
        lag = self.lag
        if lag is None or self.secs <= 0:
            return None
        done = "acked" if self.kind == "spout" else "frames_in"
        worked = sum(
            page.get(done, 0) - before.get(done, 0) for page, before in self.pairs() if before
        )
        return lag * self.secs / worked if worked > 0 else float("inf") if lag else 0.0

    def said_of_lag(self) -> str:
        """Return `lag 53,120 records and rising by 1,200/s`, or empty if the lag is too small."""
        if not self.lags or self.lag is None:
            return ""
        growth = self.growth
        trend = "" if growth is None else " and steady"
        if growth:
            trend = f" and {'rising' if growth > 0 else 'falling'} by {max(1, abs(growth)):,.0f}/s"
        return f"lag {counted(self.lag, 'message' if self.kind == 'spout' else 'record')}{trend}"

    def most_behind(self) -> str:
        """Return `count[3] has 52,000 of them` if one of several partitions has most of the lag."""
        if (
            not self.lags
            or self._after is None
            or len(self._after.behind) < 2
            or self.kind == "spout"
        ):
            return ""
        partition, most = max(self._after.behind.items(), key=lambda item: item[1])
        return (
            f"{self.name}[{partition}] has {most:,} of them"
            if most > _MOST * sum(self._after.behind.values())
            else ""
        )

    @property
    def _after(self) -> Backlog | None:
        return _backlog(self, self.after)

    @property
    def _before(self) -> Backlog | None:
        return _backlog(self, self.before)


def _backlog(component: ComponentChange, look: ComponentSnapshot) -> Backlog | None:
    """Return Kafka's backlog, or the one that a spout's processes report.

    In the latter case each process counts as a partition.
    """
    if look.backlog is not None or component.kind != "spout":
        return look.backlog
    told = {
        _life(page): int(page["source"]["lag"])
        for page in look.pages
        if "lag" in (page.get("source") or {})
    }
    return Backlog(look.at, told) if told else None


def _life(page: StatusPage) -> tuple[Any, ...]:
    return page.get("instance"), page.get("pid"), page.get("begun_at")
