"""Offsets that are finished above the oldest unfinished message of a partition.

They are stored with the offset, so that the next owner does not emit them again. Otherwise one
message that keeps failing would cause thousands of later messages to be repeated. Only acked
offsets are included. Dead letters, messages without tuples and gaps are read again, so that the
next finished range records them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

Run = tuple[int, int]
"""Consecutive offsets: the first one and the one after the last."""

MOST_RUNS: Final = 100
"""Only the longest runs are stored, so a partition takes at most about 3 kB every two seconds."""


def runs_between(first: int, end: int, but: Iterable[Run]) -> list[Run]:
    """Return the longest runs from `first` to `end` that are not in `but`. `but` must be in order."""
    found = []
    for start, behind in but:
        if start >= end:
            break
        if first < start:
            found.append((first, start))
        first = max(first, behind)
    if first < end:
        found.append((first, end))
    if len(found) > MOST_RUNS:
        found = sorted(sorted(found, key=lambda run: run[0] - run[1])[:MOST_RUNS])
    return found


class CompletedRanges:
    """Finished runs that the former owner stored. Query offsets in ascending order."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = list(runs)
        self.end = runs[-1][1] if runs else 0
        """No offset at or above this one is included."""

    def has(self, offset: int) -> bool:
        """Return True if the offset was finished. Discards the runs below it."""
        runs = self._runs
        while runs and runs[0][1] <= offset:
            del runs[0]
        return bool(runs) and runs[0][0] <= offset

    def added_to(self, runs: list[Run], end: int) -> list[Run]:
        """Return `runs`, which end at `end`, plus the stored runs beyond `end`."""
        beyond = [(max(start, end), behind) for start, behind in self._runs if behind > end]
        if runs and beyond and runs[-1][1] == beyond[0][0]:
            beyond[0] = runs.pop()[0], beyond[0][1]
        return runs + beyond
