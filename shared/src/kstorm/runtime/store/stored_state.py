"""The state of a process's bolt tasks as it is stored, to be read by others than the bolt.

The rule: what is read here was committed. The local copy gets a change when its transaction is committed, and not before; what the
bolt has put since, in its own memory, is not looked at. A task that is being recovered has half a copy, and is not here.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from kstorm.core.exact.unfinished import is_unfinished_key
from kstorm.core.recovery import Copy

_AT_ONCE: Final = 16  # a value may have 16 MiB
_PAGE_BYTES: Final = 1 << 20


class StoredPage(NamedTuple):
    """Some pairs, in the order of their keys."""

    pairs: list[tuple[str, bytes]]
    more: bool
    """Whether there are others behind them."""


class Rows(Protocol):
    """The local copies of a process's tasks, by their indices: a `TaskStore` is such."""

    def copy(self, task: int) -> Copy | None:
        """How far it includes its changelog; None if it is not here, or not ready."""
        ...

    def get(self, task: int, key: bytes) -> bytes | None:
        """The stored value of a key; None if there is none."""
        ...

    def items(self, task: int, start: bytes, at_once: int) -> Iterable[tuple[bytes, bytes]]:
        """Every stored pair whose key is not before `start`, by key, so many in memory at a time."""
        ...


class StoredState:
    """Used on the event loop; each call reads one checkpoint, as none is kept meanwhile."""

    def __init__(self, store: Rows) -> None:
        self._store = store

    def copy(self, task: int) -> Copy | None:
        """How far a task's state is, by the task's index; None if it is not here, or not ready."""
        return self._store.copy(task)

    def get(self, task: int, key: str) -> bytes | None:
        """What is stored of a key; None if nothing is."""
        return self._store.get(task, key.encode())

    def page(self, task: int, prefix: str, after: str | None, most: int) -> StoredPage:
        """So many pairs at most, of keys behind `after` that begin with `prefix`; fewer if they are large, but one at least."""
        pairs: list[tuple[str, bytes]] = []
        size = 0
        for key, value in self._pairs(
            task, prefix.encode(), None if after is None else after.encode()
        ):
            if len(pairs) == most or size > _PAGE_BYTES:
                return StoredPage(pairs, more=True)
            pairs.append((key.decode(errors="replace"), value))
            size += len(key) + len(value)
        return StoredPage(pairs, more=False)

    def _pairs(
        self, task: int, prefix: bytes, after: bytes | None
    ) -> Iterator[tuple[bytes, bytes]]:
        start = prefix if after is None else max(prefix, after + b"\0")
        for key, value in self._store.items(task, start, _AT_ONCE):
            if not key.startswith(prefix) or is_unfinished_key(key):
                return
            yield key, value
