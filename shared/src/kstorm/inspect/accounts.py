"""What the finished ranges of a topology say of each partition of its sources: how far all is accounted for, and what is not.

The union of the ranges is what counts, as work that is done again after a crash is in two. See docs/audit.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from kstorm.kafka.above import Run
from kstorm.kafka.finished import FinishedRange, Skipped

_MOST_SKIPS: Final = 100


class Account(Struct, frozen=True, kw_only=True):
    """One partition of one reading."""

    reading: str
    topic: str
    partition: int
    start: int
    """The first offset that a range speaks of."""
    end: int
    """The one behind the last."""
    gaps: list[Run]
    """Offsets in between of which none does, each run with the offset behind its last."""
    counts: Mapping[str, int]
    """Offsets by outcome, summed over the ranges: `twice` of them are counted more than once."""
    twice: int
    skipped: list[Skipped]
    """The last hundred, in the order in which they were written."""
    at: int
    """When the last range was written, in ms since 1970."""

    @property
    def until(self) -> int:
        """All from `start` to this one is accounted for."""
        return self.gaps[0][0] if self.gaps else self.end


def accounts(ranges: Iterable[FinishedRange]) -> list[Account]:
    """By reading, topic and partition, of ranges in the order in which they were written."""
    found: dict[tuple[str, str, int], _Partition] = {}
    for each in ranges:
        found.setdefault((each.reading, each.topic, each.partition), _Partition()).add(each)
    return [one.account(*place) for place, one in sorted(found.items())]


class _Partition:
    def __init__(self) -> None:
        self._ranges: dict[tuple[int, int], FinishedRange] = {}
        self._skipped: list[Skipped] = []
        self._at = 0

    def add(self, found: FinishedRange) -> None:
        """A range that is written again takes the place of the same one. A step back takes away what is read again."""
        self._at = max(self._at, found.at)
        self._skipped = [*self._skipped, *found.skipped][-_MOST_SKIPS:]
        if found.end < found.start:
            self._ranges = {
                (first, min(end, found.end)): each
                for (first, end), each in self._ranges.items()
                if first < found.end
            }
        elif found.end > found.start:
            self._ranges.pop((found.start, found.end), None)
            self._ranges[found.start, found.end] = found

    def account(self, reading: str, topic: str, partition: int) -> Account:
        runs = sorted(self._ranges)
        counts = Counter[str]()
        for each in self._ranges.values():
            counts.update(each.n)
        start = reached = runs[0][0] if runs else 0
        gaps = []
        for first, end in runs:
            if first > reached:
                gaps.append((reached, first))
            reached = max(reached, end)
        covered = reached - start - sum(end - first for first, end in gaps)
        return Account(
            reading=reading,
            topic=topic,
            partition=partition,
            start=start,
            end=reached,
            gaps=gaps,
            counts=dict(counts),
            twice=counts.total() - covered,
            skipped=self._skipped,
            at=self._at,
        )
