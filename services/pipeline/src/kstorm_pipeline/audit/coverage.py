"""Level 0: determines the offsets of a partition that are accounted for. Without I/O.

The union of all ranges is accounted for. An operator may set a spout back, or the source topic may
be recreated. Then the offsets from the new position on are removed. The spout reads them again, so
later ranges must contain them again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Interval = tuple[int, int]
"""The first number, and the last plus one."""


@dataclass(slots=True)
class Intervals:
    """A set of integers, stored as the fewest possible intervals in ascending order."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Interval]:
        return zip(self.starts, self.ends, strict=True)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.starts, number) - 1
        return place >= 0 and number < self.ends[place]

    def __len__(self) -> int:
        return sum(self.ends) - sum(self.starts)

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first, behind = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if first < behind:
            start, end = min(start, self.starts[first]), max(end, self.ends[behind - 1])
        self.starts[first:behind], self.ends[first:behind] = [start], [end]

    def remove(self, start: int, end: int) -> None:
        if start >= end:
            return
        first, behind = bisect_right(self.ends, start), bisect_left(self.starts, end)
        cut = [*zip(self.starts[first:behind], self.ends[first:behind], strict=True)]
        kept = [(low, min(high, start)) for low, high in cut if low < start]
        kept += [(max(low, end), high) for low, high in cut if high > end]
        self.starts[first:behind] = [low for low, _ in kept]
        self.ends[first:behind] = [high for _, high in kept]

    def missing(self, start: int, end: int) -> list[Interval]:
        """Return the numbers from `start` to before `end` that are not in the set."""
        left = Intervals([start], [end]) if start < end else Intervals()
        for low, high in self._meeting(start, end):
            left.remove(low, high)
        return list(left)

    def within(self, start: int, end: int) -> Intervals:
        """Return the numbers from `start` to before `end` that are in the set."""
        found = Intervals()
        for low, high in self._meeting(start, end):
            found.add(max(low, start), min(high, end))
        return found

    def _meeting(self, start: int, end: int) -> list[Interval]:
        first, behind = bisect_right(self.ends, start), bisect_left(self.starts, end)
        return list(zip(self.starts[first:behind], self.ends[first:behind], strict=True))


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Offsets that were skipped on purpose."""

    start: int
    end: int
    why: str
    who: str = ""


@dataclass(frozen=True, slots=True)
class FinishedRange:
    """One record of `<topology>.__finished`. Ranges are in the order of that topic."""

    start: int
    end: int
    counts: dict[str, int] = field(default_factory=dict)
    dead: tuple[Interval, ...] = ()
    empty: tuple[Interval, ...] = ()
    skipped: tuple[SkippedRange, ...] = ()


@dataclass(slots=True)
class CoverageAccount:
    """The combined ranges of one partition."""

    covered: Intervals = field(default_factory=Intervals)
    dead: Intervals = field(default_factory=Intervals)
    empty: Intervals = field(default_factory=Intervals)
    skipped: list[SkippedRange] = field(default_factory=list)
    ranges: list[FinishedRange] = field(default_factory=list)
    """The ranges that still have all of their offsets: the spout has not gone back into them."""

    @classmethod
    def of(cls, ranges: Iterable[FinishedRange]) -> CoverageAccount:
        """Combine ranges, which come in the order of their topic."""
        account = cls()
        for each in ranges:
            if each.end < each.start:
                account._step_back(each.end, each.start)
            else:
                account._add(each)
        return account

    def _add(self, found: FinishedRange) -> None:
        self.covered.add(found.start, found.end)
        for runs, known in ((found.dead, self.dead), (found.empty, self.empty)):
            for start, end in runs:
                known.add(start, end)
        self.skipped += found.skipped
        self.ranges.append(found)

    def _step_back(self, start: int, end: int) -> None:
        for known in (self.covered, self.dead, self.empty):
            known.remove(start, end)
        self.skipped = [each for each in self.skipped if each.end <= start or end <= each.start]
        self.ranges = [each for each in self.ranges if each.end <= start or end <= each.start]

    def gaps(self, first: int, end: int, stored: int | None) -> list[Interval]:
        """Return the offsets from `first` to before `end` that are due but in no range."""
        return self.covered.missing(first, min(end, self.due(first, stored)))

    def due(self, first: int, stored: int | None) -> int:
        """Return the first offset from `first` on that is not yet due.

        `stored` is the offset that the spout resumes from. If it is unknown (None), offsets after
        the last range are not due.
        """
        return stored if stored is not None else max(self.covered.ends, default=first)
