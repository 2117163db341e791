"""A part of a state: the keys with a prefix, which its user does not see."""

from collections.abc import Iterator
from typing import Any

from kstorm.topology import KeyValueState


class StatePart:
    """A `KeyValueState` within another."""

    def __init__(self, state: KeyValueState, prefix: str) -> None:
        self._state, self._prefix = state, prefix
        self._behind = prefix[:-1] + chr(ord(prefix[-1]) + 1)

    def get(self, key: str, default: Any = None) -> Any:
        """See `KeyValueState.get`."""
        return self._state.get(self._prefix + key, default)

    def put(self, key: str, value: Any) -> None:
        """See `KeyValueState.put`."""
        self._state.put(self._prefix + key, value)

    def delete(self, key: str) -> Any:
        """See `KeyValueState.delete`."""
        return self._state.delete(self._prefix + key)

    def discard(self, key: str) -> None:
        """See `KeyValueState.discard`."""
        self._state.discard(self._prefix + key)

    def items(self) -> Iterator[tuple[str, Any]]:
        """See `KeyValueState.items`."""
        return self.range()

    def range(self, start: str = "", end: str | None = None) -> Iterator[tuple[str, Any]]:
        """See `KeyValueState.range`."""
        last = self._behind if end is None else self._prefix + end
        for key, value in self._state.range(self._prefix + start, last):
            yield key[len(self._prefix) :], value
