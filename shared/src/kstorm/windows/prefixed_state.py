"""Give access to the part of a state whose keys have a prefix. The user does not see the prefix."""

from collections.abc import Iterator
from typing import Any

from kstorm.core.state import check_range
from kstorm.topology import KeyValueState


class PrefixedState:
    """A `KeyValueState` within another one."""

    def __init__(self, state: KeyValueState, prefix: str) -> None:
        self._state, self._prefix = state, prefix
        self._behind = prefix[:-1] + chr(ord(prefix[-1]) + 1)

    def get(self, key: str, default: Any = None) -> Any:
        return self._state.get(self._prefix + key, default)

    def put(self, key: str, value: Any) -> None:
        self._state.put(self._prefix + key, value)

    def delete(self, key: str) -> Any:
        return self._state.delete(self._prefix + key)

    def discard(self, key: str) -> None:
        self._state.discard(self._prefix + key)

    def items(self) -> Iterator[tuple[str, Any]]:
        return self.range()

    def range(self, start: str = "", end: str | None = None) -> Iterator[tuple[str, Any]]:
        check_range(start, end)
        last = self._behind if end is None else self._prefix + end
        found = self._state.range(self._prefix + start, last)
        return ((key[len(self._prefix) :], value) for key, value in found)
