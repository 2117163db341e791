"""Pane aggregates for windows of many panes. A window costs only the panes that enter and leave it,
whatever its length.

This is a queue made of two stacks, for totals whose values can be combined but not subtracted. A
window's panes of one key form two parts. In the older part, each pane stores the total of itself
and all later panes of that part. When the oldest pane leaves, the next one therefore holds the
total of the rest. The newer part has one total, to which each new pane is added. When the older
part is used up, the newer part is *turned* into the older one, from its end to its beginning. So a
pane is combined at most three times, however long it stays.

The state stores several panes of a key in one record, a *link*. Reading and writing each pane by
itself would cost more than anything else.

Late tuples enter no window, so a pane never changes once a window has included it.

A window is shown key by key, after that key's old panes have left and its new ones have been added.
After an error a key may be shown again, and at-least-once processing rolls no change back. In that
case there is nothing left to move, and the key's total is the same.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby, islice
from math import gcd
from operator import itemgetter
from typing import Any, Final
from zlib import crc32

from msgspec import Struct

from kstorm.topology import KeyValueState
from kstorm.topology.event_time import NEVER
from kstorm.windows.panes import TEXT_AT, Combine, Fold, PaneManager, Shown, pane_key

MANY: Final = 10
"""Number of panes in a window above which `PaneAggregateManager` is cheaper than reading all panes."""
LINK: Final = 16
"""Most panes in a link."""
_CHAINS: Final = "w/a/"
_CHAINS_END: Final = "w/a0"
_LINKS: Final = "w/b/"
_AT_ONCE: Final = 1000

Found = tuple[str, int, Any]
"""A key's text, a pane, and the value stored for them. A key's chain has the pane `NEVER`, so that
it sorts before all panes."""
Link = list[Any]
"""Panes by time, each followed by its value (newer part) or by its total (older part).

This is one flat list because Python's garbage collector visits every container object.
"""


class PaneChain(Struct):
    """The panes of one key."""

    key: list[Any]
    first: int
    """Number of the first link."""
    at: int
    """Index of the oldest remaining pane in the first link."""
    turned: int
    """Number of the last link of the older part. Less than `first` if the older part is used up."""
    last: int
    """Number of the last link. Less than `first` if the chain is empty."""
    pane: int
    """Newest pane added."""
    older: Any
    """Total of the older part. None if that part is used up."""
    newer: Any
    """Total of the newer part. None if that part is empty."""
    stored_first: int = 0
    """First link that is still in the state."""

    @property
    def has_older(self) -> bool:
        return self.first <= self.turned

    @property
    def has_newer(self) -> bool:
        return self.last > self.turned


class PaneAggregateManager(PaneManager):
    """A `PaneManager` for windows of many panes."""

    def _next_end(self) -> int | None:
        if next(self._state.range(_CHAINS, _CHAINS_END), None) is not None:
            return self._ended + self._slide
        return super()._next_end()

    def _values(self, end: int) -> Iterator[Shown]:
        gone = (end - self._length) // self._size
        come = [
            self._read(self._start(pane), pane_key(pane + 1), TEXT_AT, pane)
            for pane in self._there(NEVER, end // self._size)
        ]
        behind = "" if self._behind is None else self._behind + "\x00"
        chains = self._read(_CHAINS + behind, _CHAINS_END, len(_CHAINS), NEVER)
        for text, found in groupby(merge(chains, *come, key=itemgetter(0, 1)), key=itemgetter(0)):
            chain = self._move(text, list(found), gone)
            if chain is not None:
                yield text, chain.key, self._total(chain)

    def _read(self, start: str, end: str, text_at: int, pane: int) -> Iterator[Found]:
        """Read a range of the state in batches, because the caller changes other keys between two
        items."""
        while True:
            some = list(islice(self._state.range(start, end), _AT_ONCE))
            for key, found in some:
                yield key[text_at:], pane, found
            if len(some) < _AT_ONCE:
                return
            start = some[-1][0] + "\x00"

    def _move(self, text: str, found: Sequence[Found], gone: int) -> PaneChain | None:
        """Return a key's chain after removing old panes and adding new ones. Return None if it is
        empty."""
        chain: PaneChain | None = None
        changed = False
        for _, pane, stored in found:
            if pane == NEVER:
                chain = PaneChain(*stored)
                chain.stored_first = chain.first
                changed = self._drop(chain, text, gone)
                continue
            key, value = stored
            # else the pane is in a gap between two windows
            if pane > gone:
                chain = chain or PaneChain(key, 0, 0, -1, -1, pane - 1, None, None)
                if pane > chain.pane:
                    self._add(chain, text, pane, value)
                    changed = False
            self._state.discard(pane_key(pane, text))
        if chain is not None and changed:
            self._store(chain, text)
        return chain if chain is not None and chain.first <= chain.last else None

    def _drop(self, chain: PaneChain, text: str, gone: int) -> bool:
        """Remove the panes up to `gone`. Return True if the chain has changed and must be
        stored."""
        first, at = chain.first, chain.at
        while chain.first <= chain.last:
            link = self._link(text, chain.first)
            panes = link[::2]
            left = bisect_right(panes, gone, chain.at)
            if left == chain.at:
                chain.older = link[2 * left + 1] if chain.has_older else None
                break
            if not chain.has_older:
                self._turn(chain, text)
            elif left < len(panes):
                chain.at = left
            else:
                chain.first, chain.at = chain.first + 1, 0
        else:
            chain.older = None
        return (chain.first, chain.at) != (first, at)

    def _add(self, chain: PaneChain, text: str, pane: int, value: Any) -> None:
        """Append a new pane to the newer part. This also stores the removals that `_drop` made."""
        newer = self._combine(chain.newer, value) if chain.has_newer else value
        number, link = chain.last, list[Any]()
        if chain.has_newer:
            link = self._link(text, number)
            # The last execution failed after it wrote the link and before it stored the chain.
            if link[-2] >= pane:
                link = link[:-2]
        if not chain.has_newer or len(link) >= 2 * LINK:
            number, link = number + 1, []
        self._state.put(_link_key(text, number), [*link, pane, value])
        turn = not chain.has_older and self._round(pane, text) > self._round(chain.pane, text)
        chain.last, chain.pane, chain.newer = number, pane, newer
        self._store(chain, text)
        if turn:
            self._turn(chain, text)

    def _round(self, pane: int, text: str) -> int:
        """Number the window-length periods of a key. A key's newer part is turned once per period.

        The hash shifts the periods, so that not all keys turn in the same pane. That would take
        long and change much of the state at once.
        """
        panes = self._length // self._size
        return (pane + crc32(text.encode()) % panes) // panes

    def _turn(self, chain: PaneChain, text: str) -> None:
        """Make the newer part the older one, which must be used up."""
        changed: dict[str, Link] = {}
        total: Any = None
        for number in range(chain.last, chain.turned, -1):
            link = [*self._link(text, number)]
            for at in range(len(link) - 1, 0, -2):
                total = (
                    self._combine(link[at], total) if changed or at < len(link) - 1 else link[at]
                )
                link[at] = total
            changed[_link_key(text, number)] = link
        for key, link in changed.items():
            self._state.put(key, link)
        chain.turned, chain.older, chain.newer = chain.last, total, None
        self._store(chain, text)

    def _total(self, chain: PaneChain) -> Any:
        if chain.has_older and chain.has_newer:
            return self._combine(chain.older, chain.newer)
        return chain.older if chain.has_older else chain.newer

    def _link(self, text: str, number: int) -> Link:
        found: Link = self._state.get(_link_key(text, number))
        return found

    def _store(self, chain: PaneChain, text: str) -> None:
        """Store a chain, or delete it if it is empty. Delete the links before its first one."""
        if chain.first <= chain.last:
            fields = [
                chain.key,
                chain.first,
                chain.at,
                chain.turned,
                chain.last,
                chain.pane,
                chain.older,
                chain.newer,
            ]
            self._state.put(_CHAINS + text, fields)
        else:
            self._state.discard(_CHAINS + text)
        for number in range(chain.stored_first, chain.first):
            self._state.discard(_link_key(text, number))
        chain.stored_first = chain.first


def aggregate_manager(
    state: KeyValueState, length: int, slide: int, fold: Fold, combine: Combine
) -> PaneManager:
    """Return the manager with the lowest cost for windows of this length and slide."""
    kind = PaneAggregateManager if length > max(1, MANY) * gcd(length, slide) else PaneManager
    return kind(state, length, slide, fold, combine)


def _link_key(text: str, number: int) -> str:
    return f"{_LINKS}{text}/{number}"
