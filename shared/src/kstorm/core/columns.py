"""Columns of 64-bit ids as numpy arrays, and their XOR folds.

With these, work per tuple becomes work per frame.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]

Positions = NDArray[np.intp]

_FEW: Final = 256
"""Values that fold faster one by one than in runs."""


def as_ids(packed: bytes) -> Ids:
    """Return the ids of a packed column without copying."""
    return np.frombuffer(packed, "<u8")


def as_column(id: int) -> Ids:
    return np.array([id], np.uint64)


def fold(roots: Ids, vals: Ids) -> tuple[Ids, Ids]:
    """XOR the values of each root.

    Roots are ascending in the result. Root 0 (untracked) and roots whose XOR is 0 are left out.
    """
    order = np.argsort(roots)
    roots, vals = fold_runs(roots[order], vals[order])
    left = (vals != 0) & (roots != 0)
    return roots[left], vals[left]


def fold_runs(roots: Ids, vals: Ids) -> tuple[Ids, Ids]:
    """XOR values whose equal roots are adjacent.

    This is usually true of the words of a sentence, and saves sorting them.
    """
    if roots.size < 2:
        return roots, vals
    begins = np.empty(roots.size, np.bool_)
    begins[0] = True
    np.not_equal(roots[1:], roots[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    return (
        (roots, vals)
        if starts.size == roots.size
        else (roots[starts], np.bitwise_xor.reduceat(vals, starts))
    )


def fold_positions(positions: Positions, vals: Ids, size: int) -> Ids:
    """XOR the values at each position from 0 to `size`. Positions without values get 0."""
    folded = np.zeros(size, np.uint64)
    if positions.size < _FEW or (positions[1:] < positions[:-1]).any():
        np.bitwise_xor.at(folded, positions, vals)
    else:
        at, found = fold_runs(positions.astype(np.uint64), vals)
        folded[at.astype(np.intp)] = found
    return folded


def as_positions(positions: Sequence[int] | Any) -> Positions:
    """Return positions as an array. Raises `TypeError` or `ValueError` if they are invalid."""
    if isinstance(positions, np.ndarray):
        return positions.astype(np.intp, casting="same_kind", copy=False)
    return np.fromiter(positions, np.intp, len(positions))


def from_pairs(pairs: dict[int, int]) -> tuple[Ids, Ids]:
    """Return the keys and values of a dict as columns."""
    count = len(pairs)
    return np.fromiter(pairs, np.uint64, count), np.fromiter(pairs.values(), np.uint64, count)
