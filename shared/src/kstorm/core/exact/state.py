"""A task's state whose last execution can be taken back."""

from typing import Any, Final

from kstorm.core.state import ABSENT, LEAST_INT, MOST_INT, TaskState, value_of, weight_of

_NOT_THERE: Final[Any] = object()
_CANNOT_CHANGE: Final = (str, bytes, int, float, bool, type(None))


class UndoableState(TaskState):
    """A `TaskState` that remembers, for the execution under way, what it has changed."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._before: dict[
            str, tuple[Any, Any, int]
        ] = {}  # by key, the value in memory, the form to be stored, the weight

    def begin(self) -> None:
        """An execution begins: what was changed so far stays."""
        if self._before:
            self._before = {}

    def put(self, key: str, value: Any) -> None:
        """See `TaskState.put`. Written out, and whole numbers of known keys apart: this is done for each word that is counted."""
        cache, weights = self._cache, self._weights
        if key not in self._before:
            weight = weights.get(key, 0) if weights else 0
            self._before[key] = cache.get(key, _NOT_THERE), self._dirty.get(key, _NOT_THERE), weight
        if type(value) is int and key in cache and not weights and LEAST_INT <= value <= MOST_INT:
            cache[key] = value
            self._dirty[key] = None
        else:
            super().put(key, value)

    def discard(self, key: str) -> None:
        """See `TaskState.discard`."""
        if key not in self._before:
            self._before[key] = self._now(key)
        super().discard(key)

    def take_back(self) -> None:
        """Undoes what was changed since `begin`. What the bolt has changed in place in a value that it had read is undone too:
        every value that can change is read anew from its stored form."""
        for key, (value, stored, weight) in self._before.items():
            if stored is _NOT_THERE:
                self._dirty.pop(key, None)  # it is not there if the put raised
            else:
                self._dirty[key] = stored
            self._forget(key)
            if value is not _NOT_THERE:
                self._remember(key, value, weight)
        self._before = {}
        self._sorted = None
        for key in [
            key for key, value in self._cache.items() if not isinstance(value, _CANNOT_CHANGE)
        ]:
            self._read_anew(key)

    def _now(self, key: str) -> tuple[Any, Any, int]:
        return (
            self._cache.get(key, _NOT_THERE),
            self._dirty.get(key, _NOT_THERE),
            self._weights.get(key, 0),
        )

    def _read_anew(self, key: str) -> None:
        if self._cache[key] is ABSENT:
            return
        stored = self._dirty.get(key) or self._taken.get(key)
        self._forget(key)
        if stored is not None:
            value = value_of(key, stored)
            self._remember(key, value, weight_of(value, stored))

    def _forget(self, key: str) -> None:
        if self._cache.pop(key, _NOT_THERE) is not _NOT_THERE:
            self._weigh(key, 0)
            self._weight -= self._weight_of_key(key)

    def _remember(self, key: str, value: Any, weight: int) -> None:
        self._cache[key] = value
        self._weight += self._weight_of_key(key)
        self._weigh(key, weight)
