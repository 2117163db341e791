"""Keep track of the time ranges that were read, so that none is read twice."""

from collections.abc import Iterable, Iterator

TimeRange = tuple[float, float]
"""Start (inclusive) and end (exclusive)."""


class TimeRanges:
    """The ranges that were read."""

    def __init__(self) -> None:
        self._read: list[TimeRange] = []
        """In order, without overlaps."""

    def fresh(self, wanted: Iterable[TimeRange]) -> list[TimeRange]:
        """Return the parts of `wanted` that have not been read, in order, and mark them as read."""
        found = [part for span in _united(wanted) for part in self._without(span)]
        self._read = _united([*self._read, *found])
        return found

    def _without(self, span: TimeRange) -> Iterator[TimeRange]:
        start, until = span
        for first, behind in self._read:
            if first >= until:
                break
            if start < first:
                yield start, first
            start = max(start, behind)
        if start < until:
            yield start, until


def _united(spans: Iterable[TimeRange]) -> list[TimeRange]:
    """Sort time ranges, merge adjacent ones, and drop empty ones."""
    found: list[TimeRange] = []
    for start, until in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((start, until))
    return found
