"""Random 64-bit ids of roots and edges.

The safety of the ledger rests on every emission having a fresh id: then duplicates and re-executions can only delay a
tree, never complete it (architecture, section 4). Zero is no id: it stands for "not tracked" and for a finished tree.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from struct import unpack

NextId = Callable[[], int]
"""Returns a fresh id at each call; a simulation passes a seeded one."""

_BLOCK = 512


def random_ids() -> NextId:
    """Ids from the operating system's randomness, drawn in blocks: about 40 ns an id."""
    return chain.from_iterable(_blocks()).__next__


def _blocks() -> Iterator[Iterable[int]]:
    while True:
        yield filter(None, unpack(f"<{_BLOCK}Q", os.urandom(8 * _BLOCK)))
