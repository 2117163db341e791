"""Parts of time, of which none is to be read twice."""

from collections.abc import Iterable, Iterator

Span = tuple[float, float]
"""From a moment on, up to another one."""


class Spans:
    """Those that were read."""

    def __init__(self) -> None:
        self._read: list[Span] = []
        """In order, and apart from each other."""

    def fresh(self, wanted: Iterable[Span]) -> list[Span]:
        """What of these was not read yet, in order; from now on it counts as read."""
        found = [part for span in _united(wanted) for part in self._without(span)]
        self._read = _united([*self._read, *found])
        return found

    def _without(self, span: Span) -> Iterator[Span]:
        start, until = span
        for first, behind in self._read:
            if first >= until:
                break
            if start < first:
                yield start, first
            start = max(start, behind)
        if start < until:
            yield start, until


def _united(spans: Iterable[Span]) -> list[Span]:
    """In order; those that touch as one, and none that is empty."""
    found: list[Span] = []
    for start, until in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((start, until))
    return found
