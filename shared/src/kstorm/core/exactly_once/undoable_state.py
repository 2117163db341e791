"""A task state whose last execution can be undone."""

from typing import Any, Final

from kstorm.core.task_state import LEAST_INT, MOST_INT, TaskState

_NOT_THERE: Final[Any] = object()


class UndoableState(TaskState):
    """A `TaskState` that remembers the changes of the current execution."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # By key, before the current execution: the cached value, its encoded form, its weight.
        self._before: dict[str, tuple[Any, Any, int]] = {}

    def begin(self) -> None:
        """Start an execution. All earlier changes are kept."""
        if self._before:
            self._before = {}

    def put(self, key: str, value: Any) -> None:
        # Inlined, with a shortcut for integers of known keys: this runs for each counted word.
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
        if key not in self._before:
            self._before[key] = self._now(key)
        super().discard(key)

    def take_back(self) -> None:
        """Undo all changes since `begin`."""
        for key, (value, stored, weight) in self._before.items():
            if stored is _NOT_THERE:
                self._dirty.pop(key, None)  # missing if the put raised
            else:
                self._dirty[key] = stored
            self._forget(key)
            if value is not _NOT_THERE:
                self._remember(key, value, weight)
        self._before = {}
        self._sorted = None

    def _now(self, key: str) -> tuple[Any, Any, int]:
        return (
            self._cache.get(key, _NOT_THERE),
            self._dirty.get(key, _NOT_THERE),
            self._weights.get(key, 0),
        )

    def _forget(self, key: str) -> None:
        if self._cache.pop(key, _NOT_THERE) is not _NOT_THERE:
            self._weigh(key, 0)
            self._weight -= self._weight_of_key(key)

    def _remember(self, key: str, value: Any, weight: int) -> None:
        self._cache[key] = value
        self._weight += self._weight_of_key(key)
        self._weigh(key, weight)
