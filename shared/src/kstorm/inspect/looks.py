"""Two looks at a component, and what they tell: how busy it is, how far behind its input, how many of its processes are there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from kstorm.inspect.words import many

_LEAST_LAG: Final = 10
"""Records of a partition that are no lag: marks of transactions, which no group commits, and what has just come."""
_CHANGE: Final = 0.01
"""The part of a lag by which it changes at the least, to rise or fall."""
_MOST: Final = 0.5
"""The part of a lag that one of several partitions has, to be told."""

Page = Mapping[str, Any]
"""What a process says at `/status`."""


class Process(Struct, frozen=True):
    """One process at one moment."""

    name: str
    page: Page | None
    """None if it does not answer."""
    trouble: str = ""
    """Why it does not, as far as that is known."""
    since: float | None = None
    """Unix time since when it is not ready, where that is known."""

    @property
    def not_ready(self) -> str:
        """Why it does not do its share; empty if it does."""
        return (
            self.trouble or "does not answer"
            if self.page is None
            else str(self.page.get("not_ready") or "")
        )


class Backlog(Struct, frozen=True):
    """What a component has before it, by Kafka's word."""

    at: float
    """Seconds, by the clock of all backlogs of this component."""
    behind: Mapping[Any, int]
    """By partition of its input, records that its group has not committed."""


class Look(Struct, frozen=True):
    """One look at a component."""

    at: float
    """Seconds of any clock that goes evenly."""
    processes: Sequence[Process]
    backlog: Backlog | None = None
    """None if Kafka was not asked, or does not say. A KafkaSpout tells its own, in messages."""

    @property
    def pages(self) -> Sequence[Page]:
        """Of the processes that answer."""
        return [process.page for process in self.processes if process.page is not None]


class Snapshot(Struct, frozen=True):
    """One look at a topology."""

    at: float
    """Seconds of any clock that goes evenly."""
    wanted: Mapping[str, tuple[str, int]]
    """By component its kind (`spout`, `bolt`, `acker`), and how many processes of it there should be."""
    processes: Mapping[str, Sequence[Process]]
    """By component, those that were found."""
    backlogs: Mapping[str, Backlog] = {}
    """By component, as far as Kafka was asked and says."""

    def look(self, component: str) -> Look:
        """At one of its components."""
        return Look(self.at, self.processes.get(component, ()), self.backlogs.get(component))


def between(before: Snapshot, after: Snapshot) -> "Sequence[Component]":
    """The components that there are now, each as it was and is."""
    return [
        Component(name, kind, processes, before.look(name), after.look(name))
        for name, (kind, processes) in after.wanted.items()
    ]


class Component(Struct, frozen=True):
    """Two looks at a component."""

    name: str
    kind: str
    """`spout`, `bolt` or `acker`."""
    processes: int
    """That there should be."""
    before: Look
    after: Look

    @property
    def ready(self) -> int:
        """Processes that do their share."""
        return sum(not process.not_ready for process in self.after.processes)

    @property
    def unready(self) -> Sequence[Process]:
        """Processes that do not."""
        return [process for process in self.after.processes if process.not_ready]

    @property
    def secs(self) -> float:
        """Between the looks."""
        return self.after.at - self.before.at

    def pairs(self) -> Iterator[tuple[Page, Page]]:
        """The page of each process now and before; of one that began meanwhile there is none before."""
        before = {_life(page): page for page in self.before.pages}
        for page in self.after.pages:
            yield page, before.get(_life(page), {})

    def shares(self, seconds: Callable[[Page], float]) -> Mapping[str, float]:
        """By process, what part of the time between the looks some seconds are."""
        lived = [(page, before) for page, before in self.pairs() if before and self.secs > 0]
        return {
            str(page.get("instance", "?")): (seconds(page) - seconds(before)) / self.secs
            for page, before in lived
        }

    @property
    def lag(self) -> int | None:
        """Records, or a spout's messages, that it has before it; None if that is not known."""
        return None if self._after is None else sum(self._after.behind.values())

    @property
    def growth(self) -> float | None:
        """Records a second by which the lag rises, negative if it falls; None if that is not known."""
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
        """Whether the lag is worth a word."""
        return self._after is not None and sum(self._after.behind.values()) > _LEAST_LAG * max(
            1, len(self._after.behind)
        )

    @property
    def late(self) -> float | None:
        """Seconds that it takes to work off the lag at its present rate, infinite if it does nothing; None if that is not known."""
        lag = self.lag
        if lag is None or self.secs <= 0:
            return None
        done = "acked" if self.kind == "spout" else "frames_in"
        worked = sum(
            page.get(done, 0) - before.get(done, 0) for page, before in self.pairs() if before
        )
        return lag * self.secs / worked if worked > 0 else float("inf") if lag else 0.0

    def said_of_lag(self) -> str:
        """`lag 53,120 records, rising by 1,200/s`; empty if it is not worth a word."""
        if not self.lags or self.lag is None:
            return ""
        growth = self.growth
        trend = "" if growth is None else " and level"
        if growth:
            trend = f" and {'rising' if growth > 0 else 'falling'} by {max(1, abs(growth)):,.0f}/s"
        return f"lag {many(self.lag, 'message' if self.kind == 'spout' else 'record')}{trend}"

    def most_behind(self) -> str:
        """`count[3] has 52,000 of them`, if one of several partitions has most; else empty."""
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


def _backlog(component: Component, look: Look) -> Backlog | None:
    """Kafka's word; else what a spout's processes say, each as if it were a partition."""
    if look.backlog is not None or component.kind != "spout":
        return look.backlog
    told = {
        _life(page): int(page["source"]["lag"])
        for page in look.pages
        if "lag" in (page.get("source") or {})
    }
    return Backlog(look.at, told) if told else None


def _life(page: Page) -> tuple[Any, ...]:
    return page.get("instance"), page.get("pid"), page.get("begun_at")
