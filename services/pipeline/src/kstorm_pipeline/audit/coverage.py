"""Level 0: which offsets of a partition are accounted for. Pure: intervals in, intervals out.

What is accounted for is the union of all ranges. A step back (an operator's, or a source topic that was made anew) takes away what
lies between: that is read again, and has to be in later ranges again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Interval = tuple[int, int]
"""The first number, and the one behind the last."""


@dataclass(slots=True)
class Intervals:
    """A set of whole numbers, as few intervals, in order and apart."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Interval]:
        return zip(self.starts, self.ends, strict=True)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.starts, number) - 1
        return place >= 0 and number < self.ends[place]

    def __len__(self) -> int:
        """How many numbers there are."""
        return sum(self.ends) - sum(self.starts)

    def add(self, start: int, end: int) -> None:
        """These numbers too."""
        if start >= end:
            return
        first, behind = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if first < behind:
            start, end = min(start, self.starts[first]), max(end, self.ends[behind - 1])
        self.starts[first:behind], self.ends[first:behind] = [start], [end]

    def remove(self, start: int, end: int) -> None:
        """None of these numbers."""
        if start >= end:
            return
        first, behind = bisect_right(self.ends, start), bisect_left(self.starts, end)
        cut = [*zip(self.starts[first:behind], self.ends[first:behind], strict=True)]
        kept = [(low, min(high, start)) for low, high in cut if low < start]
        kept += [(max(low, end), high) for low, high in cut if high > end]
        self.starts[first:behind] = [low for low, _ in kept]
        self.ends[first:behind] = [high for _, high in kept]

    def missing(self, start: int, end: int) -> list[Interval]:
        """What of these numbers is not there."""
        left = Intervals([start], [end]) if start < end else Intervals()
        for low, high in self._meeting(start, end):
            left.remove(low, high)
        return list(left)

    def within(self, start: int, end: int) -> Intervals:
        """What of these numbers is there."""
        found = Intervals()
        for low, high in self._meeting(start, end):
            found.add(max(low, start), min(high, end))
        return found

    def _meeting(self, start: int, end: int) -> list[Interval]:
        first, behind = bisect_right(self.ends, start), bisect_left(self.starts, end)
        return list(zip(self.starts[first:behind], self.ends[first:behind], strict=True))


@dataclass(frozen=True, slots=True)
class Skip:
    """Offsets that nobody was to process."""

    start: int
    end: int
    why: str
    who: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """What one record of `<topology>.__finished` says; ranges are in the order of that topic."""

    start: int
    end: int
    counts: dict[str, int] = field(default_factory=dict)
    dead: tuple[Interval, ...] = ()
    empty: tuple[Interval, ...] = ()
    skipped: tuple[Skip, ...] = ()


@dataclass(slots=True)
class Account:
    """What the ranges of one partition say, put together."""

    covered: Intervals = field(default_factory=Intervals)
    dead: Intervals = field(default_factory=Intervals)
    empty: Intervals = field(default_factory=Intervals)
    skipped: list[Skip] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    """Those that no step back has taken away, not even a part of them."""

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> Account:
        """Put ranges together, which come in the order of their topic."""
        account = cls()
        for each in ranges:
            if each.end < each.start:
                account._step_back(each.end, each.start)
            else:
                account._add(each)
        return account

    def _add(self, found: Range) -> None:
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
        """The offsets from `first` to before `end` that are due and in no range."""
        return self.covered.missing(first, min(end, self.due(first, stored)))

    def due(self, first: int, stored: int | None) -> int:
        """The first offset from `first` on that is not yet due. `stored`: what the spout goes on from; if that is not known (None),
        what comes after the last range is not due."""
        return stored if stored is not None else max(self.covered.ends, default=first)
