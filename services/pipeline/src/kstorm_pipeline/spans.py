"""Spans of whole numbers: what a batch touches, said shortly enough to be a condition that skips files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


CELL = 256
"""Offsets of a source partition are looked at in cells of so many, to see where a batch has none."""
MOST_CELLS = 20_000
"""More of them are not collected."""
MOST_SOURCES = 64
"""Names of more topics and partitions than that name something else."""
_MOST_GAPS = 24
"""How many gaps in its offsets, or in its hours, a batch tells Delta of. Of more Spark would make a method that Java refuses."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The numbers `first` to `last`, both included, of one owner; of different owners they have nothing in common."""

    owner: tuple[str, int]
    first: int
    last: int


def join_spans(spans: Iterable[Span], most_gaps: int = _MOST_GAPS) -> list[Span]:
    """Cover the spans by fewer, in order: of the gaps between spans of one owner only the widest `most_gaps` stay open.

    So new numbers and one old one stay two spans, and what lies between them is not looked at.
    """
    ordered = sorted(spans)
    gaps = {
        place: after.first - before.last
        for place, (before, after) in enumerate(pairwise(ordered), 1)
        if before.owner == after.owner and after.first > before.last + 1
    }
    kept = set(nlargest(most_gaps, gaps, key=gaps.__getitem__))
    joined: list[Span] = []
    for place, span in enumerate(ordered):
        if joined and joined[-1].owner == span.owner and place not in kept:
            joined[-1] = replace(joined[-1], last=max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return joined
