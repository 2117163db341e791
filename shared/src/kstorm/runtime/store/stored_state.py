"""Read access to the state of a process's bolt tasks, for queries.

Only committed changes are visible: the local copy gets a change when its transaction is committed.
Uncommitted changes in the bolt's memory are not included. A task that is being recovered has an
incomplete copy and is not available.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from kstorm.core.exactly_once.unfinished import is_unfinished_key
from kstorm.core.recovery import LocalCopy

# A value may have up to 16 MiB.
_AT_ONCE: Final = 16
_PAGE_BYTES: Final = 1 << 20


class StoredPage(NamedTuple):
    """Some pairs, in the order of their keys."""

    pairs: list[tuple[str, bytes]]
    more: bool
    """True if there are more pairs after these."""


class LocalCopies(Protocol):
    """The local copies of a process's tasks, by task index. `TaskStore` implements this."""

    def copy(self, task: int) -> LocalCopy | None:
        """Return the state of the local copy. None if the task is not in this process or not
        recovered."""

    def get(self, task: int, key: bytes) -> bytes | None:
        """Return the stored value of a key, or None."""

    def items(self, task: int, start: bytes, at_once: int) -> Iterable[tuple[bytes, bytes]]:
        """Yield the stored pairs with keys from `start` on, in order. Holds at most `at_once` in
        memory."""


class StoredState:
    """Must be used on the event loop, so that no checkpoint is stored during a call, and each call
    reads a single checkpoint."""

    def __init__(self, store: LocalCopies) -> None:
        self._store = store

    def copy(self, task: int) -> LocalCopy | None:
        """Return the state of a task's local copy. None if the task is not in this process or not
        recovered."""
        return self._store.copy(task)

    def get(self, task: int, key: str) -> bytes | None:
        return self._store.get(task, key.encode())

    def page(self, task: int, prefix: str, after: str | None, most: int) -> StoredPage:
        """Return up to `most` pairs with keys after `after` that start with `prefix`.

        The page is shorter if the pairs are large, but has at least one.
        """
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
