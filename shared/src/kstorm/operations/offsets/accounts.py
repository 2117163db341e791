"""Account for the offsets of each source partition from a topology's finished ranges.

Only the union of the ranges matters, because work that is repeated after a crash is in two ranges.
docs/guides/audit.md explains the rules.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from kstorm.kafka.completed_ranges import Run
from kstorm.kafka.finished_ranges import FinishedRange, Skipped

_MOST_SKIPS: Final = 100


class PartitionAccount(Struct, frozen=True, kw_only=True):
    """Account of one partition that one spout reads."""

    reading: str
    topic: str
    partition: int
    start: int
    """First offset that a range covers."""
    end: int
    """The offset after the last one that a range covers."""
    gaps: list[Run]
    """Runs of offsets that no range covers, as `(first, end)` with `end` exclusive."""
    counts: Mapping[str, int]
    """Number of offsets by outcome, summed over the ranges. Offsets in two ranges count twice: see
    `twice`."""
    twice: int
    skipped: list[Skipped]
    """The last 100, in the order written."""
    at: int
    """Time of the last range, in ms since 1970."""

    @property
    def until(self) -> int:
        """End, exclusive, of the run of accounted offsets that begins at `start`."""
        return self.gaps[0][0] if self.gaps else self.end


def accounts_of(ranges: Iterable[FinishedRange]) -> list[PartitionAccount]:
    """Return accounts by reading, topic and partition. `ranges` must be in the order written."""
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
        """Add a range. A range that is written again replaces the earlier record.

        A range that ends before it starts moves the offset back, so it removes the offsets that
        will be read again.
        """
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

    def account(self, reading: str, topic: str, partition: int) -> PartitionAccount:
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
        return PartitionAccount(
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
