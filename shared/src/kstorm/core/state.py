"""The state of one stateful bolt task, between two checkpoints."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from kstorm.errors import FrameError

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
        """The value of a key, or `default`. Raises `FrameError` if what is stored was not stored by a `TaskState`."""
        try:
            value = self._cache[key]
        except KeyError:
            stored = self._load(key.encode())
            value = self._cache[key] = _ABSENT if stored is None else _value_of(key, stored)
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
            name = _name_of(stored_key)
            if name not in own:
                yield name, _value_of(name, stored)

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


def check_pair(key: bytes, value: bytes | None) -> None:
    """Raises `FrameError` if that is no stored pair; None, which deletes, is one."""
    name = _name_of(key)
    if value is not None:
        _value_of(name, value)


def _name_of(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise FrameError(f"the state's keys are text, and {key[:100]!r} is not UTF-8") from None


def _value_of(name: str, stored: bytes) -> Any:
    try:
        return _decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(
            f"{len(stored)} bytes under the key {name[:100]!r} that are no value of a state: {error}"
        ) from None


_ABSENT: Any = object()
