"""Spans of integers: a short description of a batch, used in conditions that skip files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


CELL = 256
"""Number of offsets in a cell. Cells show gaps in a batch's offsets of a source partition."""
MOST_CELLS = 20_000
"""The most cells to collect."""
MOST_SOURCES = 64
"""Names with more distinct topics and partitions than this are not offsets of messages."""
_MOST_GAPS = 24
"""The most gaps in a batch's offsets or hours in a condition. With more, Spark's generated method
is too large for Java."""


@dataclass(frozen=True, slots=True, order=True)
class IntegerSpan:
    """The numbers `first` to `last`, inclusive, of one owner. Each owner has its own numbers."""

    owner: tuple[str, int]
    first: int
    last: int


def join_spans(spans: Iterable[IntegerSpan], most_gaps: int = _MOST_GAPS) -> list[IntegerSpan]:
    """Merge the spans into fewer ones, in order. Only the widest `most_gaps` gaps within owners
    remain.

    Then many new numbers and a single old number remain two spans, and the numbers in between are
    not searched.
    """
    ordered = sorted(spans)
    gaps = {
        place: after.first - before.last
        for place, (before, after) in enumerate(pairwise(ordered), 1)
        if before.owner == after.owner and after.first > before.last + 1
    }
    kept = set(nlargest(most_gaps, gaps, key=gaps.__getitem__))
    joined: list[IntegerSpan] = []
    for place, span in enumerate(ordered):
        if joined and joined[-1].owner == span.owner and place not in kept:
            joined[-1] = replace(joined[-1], last=max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return joined
