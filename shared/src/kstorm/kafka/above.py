"""What is finished above the oldest unfinished message of a partition.

It is stored beside the offset, so that whoever reads on from there emits none of it again: one message that fails again and again
would else have thousands repeated that came after it. Only what was acked counts. Dead letters, messages that hold nothing and
gaps are looked at again, so that the next finished range says of them what they are.
"""

from collections.abc import Iterable, Sequence
from typing import Final

Run = tuple[int, int]
"""The first offset of some in a row, and the one behind the last."""

MOST_RUNS: Final = 100
"""Of the longest: what is stored of a partition every two seconds has at most some 3 kB."""


def runs_between(first: int, end: int, but: Iterable[Run]) -> list[Run]:
    """What lies from `first` to `end` without what is in `but`, whose runs are in order; the longest runs of it."""
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


class Above:
    """What a former owner has left. Offsets are asked for in order."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = list(runs)
        self.end = runs[-1][1] if runs else 0
        """Nothing from here on is in it."""

    def has(self, offset: int) -> bool:
        """Whether that was finished. What lies below is forgotten."""
        runs = self._runs
        while runs and runs[0][1] <= offset:
            del runs[0]
        return bool(runs) and runs[0][0] <= offset

    def added_to(self, runs: list[Run], end: int) -> list[Run]:
        """Runs up to `end`, and what there is from there on."""
        beyond = [(max(start, end), behind) for start, behind in self._runs if behind > end]
        if runs and beyond and runs[-1][1] == beyond[0][0]:
            beyond[0] = runs.pop()[0], beyond[0][1]
        return runs + beyond
