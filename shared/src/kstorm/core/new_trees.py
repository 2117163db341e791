"""New trees of a spout task, in columns."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kstorm.core.columns import Ids
from kstorm.core.origin_numbers import Numbers


class NewTrees(NamedTuple):
    task: int
    roots: Ids
    vals: Ids
    """XOR of the edges of each root's first tuples."""
    places: Numbers
    """Numbers for the source of each message, assigned by `kstorm.core.origin_numbers.OriginNumbers`."""
    offsets: Numbers

    def of(self, rows: Any) -> "NewTrees":
        """Select rows by a slice or a mask."""
        return NewTrees(self.task, *(column[rows] for column in self[1:]))

    def parts(self, most: int) -> Iterator["NewTrees"]:
        """Yield chunks of at most `most` rows."""
        return (self.of(slice(at, at + most)) for at in range(0, self.roots.size, most))


def joined(several: Sequence[NewTrees]) -> NewTrees:
    """Concatenate trees of one task."""
    if len(several) == 1:
        return several[0]
    return NewTrees(
        several[0].task, *map(np.concatenate, zip(*(trees[1:] for trees in several), strict=True))
    )
