"""Windows of many panes: what a window costs is the panes that come and those that go, whatever its length.

Two stacks do this for a queue of which the total is wanted, and whose values can be combined but not taken out of a total. Of each
key the panes of a window are in two parts. In the older part each has the total of itself and all behind it there, so when the
oldest pane goes, the next one has the total of those that stay. Of the newer part there is one total, to which a pane that comes is
added. When the older part is used up, the newer one becomes it, from its end to its beginning. So a pane is combined three times at
most, however long it stays.

What is late comes to no window, and so all panes that a window has had are as they will be.

A window is shown key by key, each with what has left it and what has come. A key may have to be shown again, as something raised,
and at least once no change is taken back: then there is nothing to be done any more, and its total is the same.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby, islice
from math import gcd
from operator import itemgetter
from typing import Any, Final
from zlib import crc32

from msgspec import Struct

from kstorm.topology import KeyValueState
from kstorm.windows.panes import TEXT_AT, Combine, Fold, PaneManager, Shown, pane_key
from kstorm.windows.watermark import NEVER

MANY: Final = 32
"""Panes of a window from which on this costs less than to read them all."""
_KEYS: Final = "w/a/"
_KEYS_END: Final = "w/a0"
_AT_ONCE: Final = 1000

Total = list[Any]
"""A value, or none."""
Found = tuple[str, int, Any]
"""A key's text, a pane, and what is stored of them; for the key's chain the pane is `NEVER`, which is before all."""


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

    def _values(self, end: int) -> Iterator[Shown]:
        gone = (end - self._length) // self._size
        panes = (
            *self._there(self._oldest(), min(self._linked, gone)),
            *self._there(self._linked + 1, end // self._size),
        )
        behind = "" if self._behind is None else self._behind + "\x00"
        found = merge(
            self._read(_KEYS + behind, _KEYS_END, len(_KEYS), NEVER),
            *(self._read(self._start(pane), pane_key(pane + 1), TEXT_AT, pane) for pane in panes),
            key=itemgetter(0, 1),
        )
        for text, of_key in groupby(found, key=itemgetter(0)):
            chain = self._move(text, list(of_key), gone)
            if chain is not None:
                (total,) = self._sum(chain.older, chain.newer)
                yield text, chain.key, total

    def _let_go(self, end: int, until: str | None = None) -> None:
        """What goes, went as the window was shown."""
        if until is None:
            self._linked = max(self._linked, end // self._size)

    def _read(self, start: str, end: str, text_at: int, pane: int) -> Iterator[Found]:
        """A part of the state, as it was a while ago: other keys may be changed before the next is asked for."""
        while True:
            some = list(islice(self._state.range(start, end), _AT_ONCE))
            for key, found in some:
                yield key[text_at:], pane, found
            if len(some) < _AT_ONCE:
                return
            start = some[-1][0] + "\x00"

    def _oldest(self) -> int:
        """Of the last window: panes before have gone."""
        return NEVER if self._ended == NEVER else (self._ended - self._length) // self._size + 1

    def _move(self, text: str, found: Sequence[Found], gone: int) -> Chain | None:
        """A key's chain after what has left and what has come; None if nothing is left of it."""
        chain = Chain(*found[0][2]) if found[0][1] == NEVER else None
        left = [(pane, value) for _, pane, value in found if NEVER < pane <= gone]
        come = [(pane, value) for _, pane, value in found if pane > gone and (chain is None or pane > chain.last)]
        if chain is not None and left:
            self._drop(chain, text, [pair for pair in left if pair[0] <= self._linked])
        for pane, (key, value) in come:
            chain = chain or Chain(key, pane, pane - 1, [], [])
            turn = self._link(chain, text, pane, value)
            self._put(text, chain, left)
            left = []
            if turn:
                self._turn(chain, text)
        if left:
            self._put(text, chain, left)
        return chain if chain is not None and (chain.older or chain.newer) else None

    def _drop(self, chain: Chain, text: str, left: Sequence[tuple[int, Any]]) -> None:
        """Panes that have left, by time. The chain is not stored."""
        turned, link = False, None
        for pane, (_, link) in left:
            if pane > chain.turned:
                self._turn(chain, text)
                turned = True
            if turned:
                link = self._state.get(pane_key(pane, text))[1]
        if left:
            chain.older = [] if link is None else [self._state.get(pane_key(link, text))[0]]

    def _link(self, chain: Chain, text: str, pane: int, value: Any) -> bool:
        """A pane that has come. Returns whether it is time to turn. The chain is not stored."""
        newer = self._sum(chain.newer, [value])
        before = chain.last if chain.turned < chain.last < pane else None
        self._state.put(pane_key(pane, text), [value, before])
        turn = not chain.older and self._round(pane, text) > self._round(min(chain.last, pane - 1), text)
        chain.last, chain.newer = pane, newer
        return turn

    def _round(self, pane: int, text: str) -> int:
        """Each key turns once in a length of the window, and not all of them in the same pane: that would be a long look, and many
        changes at once."""
        panes = self._length // self._size
        return (pane + crc32(text.encode()) % panes) // panes

    def _turn(self, chain: Chain, text: str) -> None:
        """The newer part becomes the older one."""
        changed: dict[int, list[Any]] = {}
        total: Total = []
        behind: int | None = None
        pane: int | None = chain.last
        while pane is not None:
            value, before = self._state.get(pane_key(pane, text))
            total = self._sum([value], total)
            changed[pane] = [total[0], behind]
            pane, behind = before, pane
        for pane, links in changed.items():
            self._state.put(pane_key(pane, text), links)
        chain.turned, chain.older, chain.newer = chain.last, total, []
        self._put(text, chain, ())

    def _sum(self, one: Total, other: Total) -> Total:
        return [self._combine(one[0], other[0])] if one and other else one or other

    def _put(self, text: str, chain: Chain | None, left: Sequence[tuple[int, Any]]) -> None:
        """Stores a chain, unless there is nothing in it, and forgets what has left it."""
        if chain is not None and (chain.older or chain.newer):
            self._state.put(_KEYS + text, [chain.key, chain.last, chain.turned, chain.older, chain.newer])
        elif chain is not None:
            self._state.discard(_KEYS + text)
        for pane, _ in left:
            self._state.discard(pane_key(pane, text))


def manager_of_sums(state: KeyValueState, length: int, slide: int, fold: Fold, combine: Combine) -> PaneManager:
    """What keeps these windows at the least cost."""
    kind = ChainManager if length > max(1, MANY) * gcd(length, slide) else PaneManager
    return kind(state, length, slide, fold, combine)
