"""Windows of many panes: what a window costs is the panes that come and those that go, whatever its length.

Two stacks do this for a queue of which the total is wanted, and whose values can be combined but not taken out of a total. Of each
key the panes of a window are in two parts. In the older part each has the total of itself and all behind it there, so when the
oldest pane goes, the next one has the total of those that stay. Of the newer part there is one total, to which a pane that comes is
added. When the older part is used up, the newer one becomes it, from its end to its beginning. So a pane is combined three times at
most, however long it stays.

What is late comes to no window, and so all panes that a window has had are as they will be.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import gcd
from typing import Any, Final
from zlib import crc32

from msgspec import Struct

from kstorm.topology import KeyValueState
from kstorm.windows.panes import Combine, Fold, PaneManager, pane_key, pane_of
from kstorm.windows.watermark import NEVER

MANY: Final = 32
"""Panes of a window from which on this costs less than to read them all."""
_KEYS: Final = "w/a/"
_KEYS_END: Final = "w/a0"
_AT_ONCE: Final = 1000

Total = list[Any]
"""A value, or none."""


class Chain(Struct, array_like=True):
    """Of one key. Its panes are linked by their numbers: in the older part each to the next, in the newer to the one before."""

    key: list[Any]
    last: int
    """Its newest pane."""
    turned: int
    """The newest pane of the older part."""
    older: Total
    newer: Total


class ChainManager(PaneManager):
    """A `PaneManager` for windows of many panes."""

    def __init__(self, state: KeyValueState, length: int, slide: int, fold: Fold, combine: Combine) -> None:
        super().__init__(state, length, slide, fold, combine)
        self._linked = NEVER  # panes up to this one are in chains

    def stored(self) -> list[Any]:
        """For the state."""
        return [*super().stored(), self._linked]

    def restore(self, stored: list[Any]) -> None:
        """As it was stored."""
        *others, self._linked = stored
        super().restore(others)

    def _values(self, end: int) -> Iterator[tuple[Sequence[Any], Any]]:
        last = end // self._size
        for pane, text, _ in self._panes(self._oldest(), min(self._linked, (end - self._length) // self._size)):
            self._drop(pane, text)
        for pane, text, (key, value) in self._panes(self._linked + 1, last):
            if pane * self._size <= end - self._length:  # it is in a pause between two windows
                self._state.delete(pane_key(pane, text))
            else:
                self._link(pane, text, key, value)
        self._linked = max(self._linked, last)
        return self._totals()

    def _totals(self) -> Iterator[tuple[Sequence[Any], Any]]:
        for _, stored in self._state.range(_KEYS, _KEYS_END):
            chain = Chain(*stored)
            (total,) = self._sum(chain.older, chain.newer)
            yield chain.key, total

    def _pass_by(self, end: int) -> None:
        """What goes, goes when the next window is shown."""

    def _panes(self, first: int, last: int) -> Iterator[tuple[int, str, Any]]:
        """Of some panes what each key has, as it was a while ago: what is given may be changed before the next is asked for."""
        start = pane_key(first)
        while True:
            some = list(islice(self._state.range(start, pane_key(last + 1)), _AT_ONCE))
            for key, found in some:
                yield *pane_of(key), found
            if len(some) < _AT_ONCE:
                return
            start = some[-1][0] + "\x00"

    def _oldest(self) -> int:
        """Of the last window: panes before have gone."""
        return NEVER if self._ended == NEVER else (self._ended - self._length) // self._size + 1

    def _link(self, pane: int, text: str, key: list[Any], value: Any) -> None:
        chain = self._chain(text)
        if chain is None:
            chain = Chain(key, pane, pane - 1, [], [])
        before = chain.last if chain.turned < chain.last < pane else None
        self._state.put(pane_key(pane, text), [value, before])
        turn = not chain.older and self._round(pane, text) > self._round(min(chain.last, pane - 1), text)
        chain.last, chain.newer = pane, self._sum(chain.newer, [value])
        if turn:
            self._turn(chain, text)
        self._put(text, chain)

    def _round(self, pane: int, text: str) -> int:
        """Each key turns once in a length of the window, and not all of them in the same pane: that would be a long look, and many
        changes at once."""
        panes = self._length // self._size
        return (pane + crc32(text.encode()) % panes) // panes

    def _drop(self, pane: int, text: str) -> None:
        chain = self._chain(text)
        assert chain is not None
        link: int | None = self._state.get(pane_key(pane, text))[1]  # as it is now: a turn may have changed it
        if pane > chain.turned:
            link = self._turn(chain, text, pane)
        self._state.delete(pane_key(pane, text))
        chain.older = [] if link is None else [self._state.get(pane_key(link, text))[0]]
        if chain.older or chain.newer:
            self._put(text, chain)
        else:
            self._state.delete(_KEYS + text)

    def _turn(self, chain: Chain, text: str, leaving: int = NEVER) -> int | None:
        """The newer part becomes the older one, but for its oldest pane if that leaves; returns the first of it."""
        total: Total = []
        behind: int | None = None
        pane: int | None = chain.last
        while pane is not None and pane > leaving:
            value, before = self._state.get(pane_key(pane, text))
            total = self._sum([value], total)
            self._state.put(pane_key(pane, text), [total[0], behind])
            pane, behind = before, pane
        chain.turned, chain.older, chain.newer = chain.last, total, []
        return behind

    def _sum(self, one: Total, other: Total) -> Total:
        return [self._combine(one[0], other[0])] if one and other else one or other

    def _chain(self, text: str) -> Chain | None:
        stored = self._state.get(_KEYS + text)
        return None if stored is None else Chain(*stored)

    def _put(self, text: str, chain: Chain) -> None:
        self._state.put(_KEYS + text, [chain.key, chain.last, chain.turned, chain.older, chain.newer])


def manager_of_sums(state: KeyValueState, length: int, slide: int, fold: Fold, combine: Combine) -> PaneManager:
    """What keeps these windows at the least cost."""
    kind = ChainManager if length > MANY * gcd(length, slide) else PaneManager
    return kind(state, length, slide, fold, combine)
