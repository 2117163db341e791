"""Random 64-bit ids of roots and edges.

The ledger is only safe if every emission gets a fresh id. Then duplicates and re-executions can
delay a tree but never complete it (docs/concepts/why-it-holds.md). Zero is not an ID. It means "not tracked",
or a finished tree.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from struct import unpack

import numpy as np

from kstorm.core.columns import Ids

NextId = Callable[[], int]
"""Returns a fresh id at each call. A simulation passes a seeded one."""

NextIds = Callable[[int], Ids]
"""Returns a column of the given number of fresh ids."""

_BLOCK = 512


def random_ids() -> NextId:
    """Return ids from the operating system's random source, drawn in blocks (about 40 ns per id)."""
    return chain.from_iterable(_blocks()).__next__


def _blocks() -> Iterator[Iterable[int]]:
    while True:
        yield filter(None, unpack(f"<{_BLOCK}Q", os.urandom(8 * _BLOCK)))


def random_columns() -> NextIds:
    """Return columns of ids from a generator seeded with 256 bits of the operating system's random
    source.

    The generator is PCG64 because the ledger uses XOR. Generators that are linear over XOR
    (Mersenne Twister, xorshift) are unsuitable here.
    """
    draw = np.random.PCG64DXSM(int.from_bytes(os.urandom(32))).random_raw

    def columns(count: int) -> Ids:
        ids: Ids = draw(count)
        while not ids.all():  # once in 2^64 ids
            ids = draw(count)
        return ids

    return columns


def columns_of(next_id: NextId) -> NextIds:
    """Return columns whose ids are drawn one by one, for a simulation."""
    return lambda count: np.fromiter((next_id() for _ in range(count)), np.uint64, count)
