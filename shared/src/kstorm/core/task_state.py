"""The state of one stateful bolt task between two checkpoints.

The stored value of a key is its value at the time of `put`. So an unstorable value is rejected by
`put`, where only the tuple that caused it fails. A checkpoint concerns all tuples, so it must never
fail for that reason. Immutable values that MessagePack can certainly hold are encoded at the
checkpoint, once for all their puts. Other values are encoded at each put.

A value is read as a recovery would read it, also right after its `put`. So a mutable value is kept
in its encoded form, and each reader gets its own object.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Struct

from kstorm.core.salvage import UNREADABLE
from kstorm.errors import FrameError, UnstorableError
from kstorm.fitting import misfit

MAX_PAIR_BYTES: Final = (16 << 20) - 1024
"""Limit for a key with its encoded value: their record must fit into the changelog's
`max.message.bytes`."""

MAX_KEY_BYTES: Final = 1 << 20

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode
LEAST_INT, MOST_INT = -(2**63), 2**64 - 1  # the limits of MessagePack
_SHORT: Final = 100  # characters of a text that is encoded at the checkpoint
_FLAT: Final = (str, bytes, bytearray)
_AT_ONCE: Final = 64  # changed keys that a range handles together
_FEW: Final = 100  # up to this many new keys are inserted one by one; more are sorted

# Rough sizes in memory. With small values, the cache holds about 100,000 keys.
_CACHED_BYTES = 24 << 20
_KEY_WEIGHT: Final = 240  # a dict entry, a key and a small value, in bytes
_NESTED_WEIGHT: Final = 8  # ratio of an object's size to its encoded form


class _Encoded(Struct, gc=False):
    """A mutable value in its encoded form."""

    data: bytes
    ready: Any
    """The value, decoded from `data`. Its first reader owns it. None if it has been read."""

    def read(self) -> Any:
        value = self.ready
        if value is None:
            return _decode(self.data)
        self.ready = None
        return value


class TaskState:
    """A `KeyValueState`: a cache over the stored data, plus changes that are not stored yet.

    `load` reads one stored value. `load_all` returns every pair from the given key on, sorted by
    key. Both are only called for data that is not in memory.
    """

    def __init__(
        self,
        load: Callable[[bytes], bytes | None],
        load_all: Callable[[bytes], Iterable[tuple[bytes, bytes]]],
    ) -> None:
        self._load, self._load_all = load, load_all
        self._cache: dict[str, Any] = {}
        self._weights: dict[str, int] = {}  # contains only values that are not small
        self._weight = 0  # the total of the cache
        self._room = _CACHED_BYTES
        # Changed keys with the encoded value; None if it is encoded at the checkpoint.
        self._dirty: dict[str, bytes | None] = {}
        # The changes that a checkpoint has taken, until `load` can read them.
        self._taken: dict[str, bytes | None] = {}
        # The sorted keys of `_dirty` and `_taken` at the last range. None means stale.
        self._sorted: list[str] | None = None
        # Number of changes that are already in `_sorted`: dicts grow at their ends.
        self._sorted_dirty = 0

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`.

        Raises `FrameError` if a `TaskState` did not write the stored value.
        """
        try:
            value = self._cache[key]
        except KeyError:
            value = self._load_value(key)
        except TypeError:  # not hashable
            _check_key(key)
            raise
        if type(value) is _Encoded:
            return value.read()
        return default if value is ABSENT else value

    def put(self, key: str, value: Any) -> None:
        """Set a key to the value as it is now. A value that is changed in place must be put again.

        `get` returns the value as MessagePack holds it: tuples and sets as lists, bytearrays as
        bytes. Raises `TypeError` if MessagePack cannot hold the value or the key is not a string,
        and `ValueError` if both are too long for a record. Nothing is changed then.
        """
        kind = type(value)
        if kind is int:
            later = LEAST_INT <= value <= MOST_INT
        elif kind is str:
            later = len(value) < _SHORT and value.isascii()
        else:
            later = kind is float or kind is bool or value is None
        stored = None if later else _stored_form(key, value)
        if stored is None:
            kept = value
        elif kind is list or kind is dict:
            kept = _Encoded(stored, _checked(key, stored))
        else:
            kept = value if kind is str or kind is bytes else _kept(stored, _checked(key, stored))
        if key not in self._cache:
            _check_key(key)
            self._weight += _KEY_WEIGHT + len(key)
        if stored is not None:
            self._weigh(key, weight_of(kept, stored))
        elif key in self._weights:
            self._weigh(key, 0)
        self._cache[key] = kept
        self._dirty[key] = stored

    def delete(self, key: str) -> Any:
        """Remove a key.

        Returns its former value, or None if there was none or it cannot be decoded.
        """
        try:
            former = self.get(key, ABSENT)
        except FrameError:
            former = None
        if former is ABSENT:
            return None
        self.discard(key)
        return former

    def discard(self, key: str) -> None:
        """Remove a key if it exists, without reading its value."""
        if key not in self._cache:
            _check_key(key)
            self._weight += _KEY_WEIGHT + len(key)
        self._weigh(key, 0)
        self._cache[key] = ABSENT
        self._dirty[key] = None

    def items(self) -> Iterator[tuple[str, Any]]:
        own = dict(self._cache)
        for key, value in own.items():
            if value is not ABSENT:
                yield key, read(value)
        for stored_key, stored in self._load_all(b""):
            name = _name_of(stored_key)
            if name not in own:
                yield name, value_of(name, stored)

    def range(self, start: str = "", end: str | None = None) -> Iterator[tuple[str, Any]]:
        """Yield the keys from `start` on and before `end`, sorted, with their values.

        The result reflects the time of the call, if it is consumed before the next change. Raises
        `ArgumentError` at the call if an argument is not text.
        """
        check_range(start, end)
        return self._range(start, end)

    def _range(self, start: str, end: str | None) -> Iterator[tuple[str, Any]]:
        changed = self._changed(start, end)
        own = next(changed, None)
        for stored_key, stored in self._load_all(start.encode()):
            name = _name_of(stored_key)
            if end is not None and name >= end:
                break
            while own is not None and own < name:
                if (value := self._cache[own]) is not ABSENT:
                    yield own, read(value)
                own = next(changed, None)
            if own == name:
                continue  # yielded before the next stored key, or after the last
            yield name, read(self._cache[name]) if name in self._cache else value_of(name, stored)
        while own is not None:
            if (value := self._cache[own]) is not ABSENT:
                yield own, read(value)
            own = next(changed, None)

    def _changed(self, start: str, end: str | None) -> Iterator[str]:
        """Yield the changed, not yet stored keys of a range, sorted."""
        while True:
            keys = self._sorted_keys()
            at = bisect_left(keys, start)
            some = keys[at : at + _AT_ONCE]
            for key in some:
                if end is not None and key >= end:
                    return
                yield key
            if len(some) < _AT_ONCE:
                return
            start = some[-1] + "\0"

    def _sorted_keys(self) -> list[str]:
        """Return the sorted keys, updated with the changes since the last call.

        Sorting all keys each time would make every range cost as much as the whole epoch has
        changed.
        """
        dirty, taken = self._dirty, self._taken
        if self._sorted is None:
            self._sorted = sorted({*taken, *dirty})
        else:
            new = [
                key
                for key in islice(reversed(dirty), len(dirty) - self._sorted_dirty)
                if key not in taken
            ]
            if len(new) > _FEW:
                self._sorted += new
                self._sorted.sort()  # Timsort merges the sorted part with the new keys
            else:
                for key in new:
                    insort(self._sorted, key)
        self._sorted_dirty = len(dirty)
        return self._sorted

    def take_changes(self) -> list[tuple[bytes, bytes | None]]:
        """Return the changes since the last call, for storage. A value of None deletes.

        Never raises, because `put` validates.
        """
        cache, dirty = self._cache, self._dirty
        changes = [
            (
                key.encode(),
                None
                if (value := cache[key]) is ABSENT
                else _encode(value)
                if stored is None
                else stored,
            )
            for key, stored in dirty.items()
        ]
        self._taken, self._dirty = {**self._taken, **dirty} if self._taken else dirty, {}
        self._sorted = None
        return changes

    def stored(self) -> None:
        """Declare that `load` can now read the changes last taken."""
        self._taken = {}
        self._sorted = None
        if self._weight > self._room:
            self._make_room()

    def _load_value(self, key: str) -> Any:
        try:
            stored = self._load(key.encode())
        except AttributeError:
            _check_key(key)
            raise
        value = ABSENT if stored is None else _kept(stored, value_of(key, stored))
        if self._weight > self._room:
            self._make_room()
        self._weight += _KEY_WEIGHT + len(key)
        if stored is not None and len(stored) > _SHORT:
            self._weigh(key, weight_of(value, stored))
        self._cache[key] = value
        return value

    @staticmethod
    def _weight_of_key(key: str) -> int:
        return _KEY_WEIGHT + len(key)

    def _weigh(self, key: str, weight: int) -> None:
        self._weight += weight - self._weights.pop(key, 0)
        if weight:
            self._weights[key] = weight

    def _make_room(self) -> None:
        """Drop everything that `load` can read again."""
        kept = {**self._taken, **self._dirty}
        self._cache = {key: self._cache[key] for key in kept}
        self._weights = {key: self._weights[key] for key in kept if key in self._weights}
        self._weight = sum(_KEY_WEIGHT + len(key) for key in kept) + sum(self._weights.values())
        # Changes stay whatever their size. The higher limit avoids a scan at every load.
        self._room = max(_CACHED_BYTES, 2 * self._weight)


def check_pair(key: bytes, value: bytes | None) -> None:
    """Raise `FrameError` if the pair is not a stored pair. None deletes the key and is valid."""
    name = _name_of(key)
    if value is not None:
        value_of(name, value)


def _name_of(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise FrameError(f"the state's keys are text, but {key[:100]!r} is not UTF-8") from None


def value_of(name: str, stored: bytes) -> Any:
    """Decode the stored value of a key. Raises `FrameError` if it is invalid."""
    try:
        return _decode(stored)
    except UNREADABLE as error:
        raise FrameError(
            f"the {len(stored)} bytes under the key {name[:100]!r} are not a value of a state: "
            f"{error}"
        ) from None


def _stored_form(key: str, value: Any) -> bytes:
    try:
        stored = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, AttributeError) as error:
        raise UnstorableError(
            f"the value of the key {key!r:.200} cannot be stored, because MessagePack cannot "
            f"encode it: {error}"
        ) from None
    if len(stored) > MAX_PAIR_BYTES - 4 * len(key):
        raise UnstorableError(
            f"the value of the key {key!r:.200} has {len(stored)} bytes, but a record holds at "
            f"most {MAX_PAIR_BYTES} with the key: spread the value over several keys"
        )
    return stored


def check_range(start: str, end: str | None) -> None:
    """Raise `ArgumentError` if the keys of a range are not text."""
    if not isinstance(start, str):
        raise misfit("range", "start", start, str)
    if end is not None and not isinstance(end, str):
        raise misfit("range", "end", end, str | None)


def _check_key(key: str) -> None:
    if type(key) is not str and not isinstance(key, str):
        raise TypeError(f"the state's keys are text, but {key!r:.200} is {type(key).__name__}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise TypeError(
            f"the state's keys are text, but {key!r:.200} cannot be encoded as UTF-8: "
            f"{error.reason}"
        ) from None
    if size > MAX_KEY_BYTES:
        raise ValueError(
            f"the state's key {key!r:.200} has {size} bytes, but may have at most {MAX_KEY_BYTES}"
        )


def as_stored(key: str, value: Any) -> Any:
    """Return a value as a state would return it after `put`, as an object of its own.

    Raises the same as `put`.
    """
    kind = type(value)
    if kind is float or kind is bool or value is None:
        return value
    if kind is int and LEAST_INT <= value <= MOST_INT:
        return value
    stored = _stored_form(key, value)
    return value if kind is str or kind is bytes else _checked(key, stored)


def _checked(key: str, stored: bytes) -> Any:
    """Return the value as it is read after a recovery."""
    try:
        return _decode(stored)
    except UNREADABLE as error:
        raise TypeError(
            f"the value of the key {key!r:.200} cannot be stored, because MessagePack can encode "
            f"it but not read it back: {error}"
        ) from None


def _kept(stored: bytes, value: Any) -> Any:
    """Return a decoded value as the cache keeps it."""
    return _Encoded(stored, value) if type(value) is list or type(value) is dict else value


def read(value: Any) -> Any:
    """Return a value of the cache as a reader gets it."""
    return value.read() if type(value) is _Encoded else value


def weight_of(value: Any, stored: bytes) -> int:
    """Estimate the memory of a value that is not small, in bytes."""
    return len(stored) if isinstance(value, _FLAT) else _NESTED_WEIGHT * len(stored)


ABSENT: Final[Any] = object()
"""Marks a removed key in memory."""
