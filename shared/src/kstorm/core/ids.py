"""Random 64-bit ids of roots and edges.

The safety of the ledger rests on every emission having a fresh id: then duplicates and re-executions can only delay a
tree, never complete it (architecture, section 4). Zero is no id: it stands for "not tracked" and for a finished tree.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from struct import unpack

import numpy as np

from kstorm.core.columns import Ids

NextId = Callable[[], int]
"""Returns a fresh id at each call; a simulation passes a seeded one."""

NextIds = Callable[[int], Ids]
"""Returns so many fresh ids as a column."""

_BLOCK = 512


def random_ids() -> NextId:
    """Ids from the operating system's randomness, drawn in blocks: about 40 ns an id."""
    return chain.from_iterable(_blocks()).__next__


def _blocks() -> Iterator[Iterable[int]]:
    while True:
        yield filter(None, unpack(f"<{_BLOCK}Q", os.urandom(8 * _BLOCK)))


def random_columns() -> NextIds:
    """Columns of ids from a generator that this process seeds with 256 bits of the operating system's randomness.

    PCG64, since the ledger XORs: generators that are linear over XOR (Mersenne Twister, xorshift) would do for anything
    but this.
    """
    draw = np.random.PCG64DXSM(int.from_bytes(os.urandom(32))).random_raw

    def columns(count: int) -> Ids:
        ids: Ids = draw(count)
        while not ids.all():  # once in 2^64 ids
            ids = draw(count)
        return ids

    return columns


def columns_of(next_id: NextId) -> NextIds:
    """Columns drawn one id after the other, for a simulation."""
    return lambda count: np.fromiter((next_id() for _ in range(count)), np.uint64, count)
