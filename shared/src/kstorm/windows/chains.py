"""Windows of many panes: what a window costs is the panes that come and those that go, whatever its length.

Two stacks do this for a queue of which the total is wanted, and whose values can be combined but not taken out of a total. Of each
key the panes of a window are in two parts. In the older part each has the total of itself and all behind it there, so when the
oldest pane goes, the next one has the total of those that stay. Of the newer part there is one total, to which a pane that comes is
added. When the older part is used up, the newer one becomes it, from its end to its beginning. So a pane is combined three times at
most, however long it stays.

The state has some panes of a key in one record, a *link*: to read and write each by itself would cost most of all.

What is late comes to no window, and so all panes that a window has had are as they will be.

A window is shown key by key, each with what has left it and what has come. A key may have to be shown again, as something raised,
and at least once no change is taken back: then there is nothing to be done any more, and its total is the same.
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
from kstorm.windows.panes import TEXT_AT, Combine, Fold, PaneManager, Shown, pane_key
from kstorm.windows.watermark import NEVER

MANY: Final = 10
"""Panes of a window from which on this costs less than to read them all."""
LINK: Final = 16
"""Panes in a link, at most."""
_CHAINS: Final = "w/a/"
_CHAINS_END: Final = "w/a0"
_LINKS: Final = "w/b/"
_AT_ONCE: Final = 1000

Found = tuple[str, int, Any]
"""A key's text, a pane, and what is stored of them; for the key's chain the pane is `NEVER`, which is before all."""
Link = list[Any]
"""Panes by time, behind each its value or, in the older part, its total. One list, as Python's garbage collector looks at each."""


class Chain(Struct):
    """Of one key."""

    key: list[Any]
    first: int
    """The number of its first link."""
    at: int
    """Where in that begins what has not left."""
    turned: int
    """The number of the last link of the older part; before the first one if that is used up."""
    last: int
    """The number of its last link; before the first one if nothing is left."""
    pane: int
    """The newest pane that has come."""
    older: Any
    """The total of the older part; None if that is used up."""
    newer: Any
    """The total of the newer part; None if it is empty."""
    stored_first: int = 0
    """The first link that is in the state."""

    @property
    def has_older(self) -> bool:
        """Whether something is left of the older part."""
        return self.first <= self.turned

    @property
    def has_newer(self) -> bool:
        """Whether something is in the newer part."""
        return self.last > self.turned


class ChainManager(PaneManager):
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
        """A part of the state, as it was a while ago: other keys may be changed before the next is asked for."""
        while True:
            some = list(islice(self._state.range(start, end), _AT_ONCE))
            for key, found in some:
                yield key[text_at:], pane, found
            if len(some) < _AT_ONCE:
                return
            start = some[-1][0] + "\x00"

    def _move(self, text: str, found: Sequence[Found], gone: int) -> Chain | None:
        """A key's chain after what has left and what has come; None if nothing is left of it."""
        chain: Chain | None = None
        changed = False
        for _, pane, stored in found:
            if pane == NEVER:
                chain = Chain(*stored)
                chain.stored_first = chain.first
                changed = self._drop(chain, text, gone)
                continue
            key, value = stored
            if pane > gone:  # and in no pause between two windows
                chain = chain or Chain(key, 0, 0, -1, -1, pane - 1, None, None)
                if pane > chain.pane:
                    self._add(chain, text, pane, value)
                    changed = False
            self._state.discard(pane_key(pane, text))
        if chain is not None and changed:
            self._store(chain, text)
        return chain if chain is not None and chain.first <= chain.last else None

    def _drop(self, chain: Chain, text: str, gone: int) -> bool:
        """What has left. Returns whether something has, and the chain is to be stored."""
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

    def _add(self, chain: Chain, text: str, pane: int, value: Any) -> None:
        """A pane that has come; stored with what has left."""
        newer = self._combine(chain.newer, value) if chain.has_newer else value
        number, link = chain.last, list[Any]()
        if chain.has_newer:
            link = self._link(text, number)
            if link[-2] >= pane:  # what was added last was not stored with the chain
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
        """Each key turns once in a length of the window, and not all of them in the same pane: that would be a long look, and many
        changes at once."""
        panes = self._length // self._size
        return (pane + crc32(text.encode()) % panes) // panes

    def _turn(self, chain: Chain, text: str) -> None:
        """The newer part becomes the older one, which is used up."""
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

    def _total(self, chain: Chain) -> Any:
        if chain.has_older and chain.has_newer:
            return self._combine(chain.older, chain.newer)
        return chain.older if chain.has_older else chain.newer

    def _link(self, text: str, number: int) -> Link:
        found: Link = self._state.get(_link_key(text, number))
        return found

    def _store(self, chain: Chain, text: str) -> None:
        """A chain, unless nothing is left of it; and its links from the first one on."""
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


def manager_of_sums(
    state: KeyValueState, length: int, slide: int, fold: Fold, combine: Combine
) -> PaneManager:
    """What keeps these windows at the least cost."""
    kind = ChainManager if length > max(1, MANY) * gcd(length, slide) else PaneManager
    return kind(state, length, slide, fold, combine)


def _link_key(text: str, number: int) -> str:
    return f"{_LINKS}{text}/{number}"
