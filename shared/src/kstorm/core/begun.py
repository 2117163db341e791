"""Trees that a spout task has begun, side by side in columns."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kstorm.core.columns import Ids
from kstorm.core.origins import Numbers


class Begun(NamedTuple):
    """Trees of one spout task."""

    task: int
    roots: Ids
    vals: Ids
    """XOR of the edges of each root's first tuples."""
    places: Numbers
    """Where the message of each was, as `kstorm.core.origins.Places` numbers it."""
    offsets: Numbers

    def of(self, rows: Any) -> "Begun":
        """Some of them: a slice, or a mask."""
        return Begun(self.task, *(column[rows] for column in self[1:]))

    def parts(self, most: int) -> Iterator["Begun"]:
        """All of them, at most so many at a time."""
        return (self.of(slice(at, at + most)) for at in range(0, self.roots.size, most))


def joined(several: Sequence[Begun]) -> Begun:
    """Those of one task, one after the other."""
    if len(several) == 1:
        return several[0]
    return Begun(
        several[0].task, *map(np.concatenate, zip(*(trees[1:] for trees in several), strict=True))
    )
