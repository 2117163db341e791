"""The state of one stateful bolt task, between two checkpoints."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode
_CACHED_KEYS = 200_000


class TaskState:
    """A `KeyValueState` over what is stored, with the changes that are not stored yet.

    `load` reads one stored value, `load_all` every pair; both are asked only for what is not in memory.
    """

    def __init__(
        self, load: Callable[[bytes], bytes | None], load_all: Callable[[], Iterable[tuple[bytes, bytes]]]
    ) -> None:
        self._load, self._load_all = load, load_all
        self._cache: dict[str, Any] = {}
        self._dirty: dict[str, None] = {}  # a set that keeps its order, so that a simulation is the same on every run

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        try:
            value = self._cache[key]
        except KeyError:
            stored = self._load(key.encode())
            value = self._cache[key] = _ABSENT if stored is None else _decode(stored)
        return default if value is _ABSENT else value

    def put(self, key: str, value: Any) -> None:
        """Sets a key. A value that is changed in place must be put again."""
        self._cache[key] = value
        self._dirty[key] = None

    def delete(self, key: str) -> None:
        """Removes a key."""
        self._cache[key] = _ABSENT
        self._dirty[key] = None

    def items(self) -> Iterator[tuple[str, Any]]:
        """Every key with its value."""
        own = dict(self._cache)
        for key, value in own.items():
            if value is not _ABSENT:
                yield key, value
        for stored_key, stored in self._load_all():
            name = stored_key.decode()
            if name not in own:
                yield name, _decode(stored)

    def take_changes(self) -> list[tuple[bytes, bytes | None]]:
        """The changes since the last call, for storing; None deletes.

        Raises `TypeError`, having forgotten nothing, if MessagePack cannot hold a value.
        """
        changes = [self._stored_form(key) for key in self._dirty]
        self._dirty = {}
        return changes

    def stored(self) -> None:
        """The changes last taken can now be read through `load`."""
        if len(self._cache) > _CACHED_KEYS:
            self._cache = {key: self._cache[key] for key in self._dirty}

    def _stored_form(self, key: str) -> tuple[bytes, bytes | None]:
        value = self._cache[key]
        try:
            return key.encode(), None if value is _ABSENT else _encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise TypeError(f"the state of the key {key!r} cannot be stored: {error}") from None


_ABSENT: Any = object()
