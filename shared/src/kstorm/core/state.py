"""The state of one stateful bolt task, between two checkpoints.

What is stored of a key is its value as it was when it was put: what cannot be stored is refused there, where the tuple
that caused it can fail, and never at a checkpoint, which is everybody's. Values that cannot change and that MessagePack
holds for certain are encoded at the checkpoint, once for all their puts; others at each put.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from kstorm.errors import FrameError

MAX_PAIR_BYTES: Final = (16 << 20) - 1024
"""Of a key and its encoded value together: the record of both must fit into the changelog's `max.message.bytes`."""

MAX_KEY_BYTES: Final = 1 << 20
"""Of a key."""

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode
LEAST_INT, MOST_INT = -(2**63), 2**64 - 1  # of MessagePack
_SHORT: Final = 100  # characters of a text that is not encoded at once
_FLAT: Final = (str, bytes, bytearray)
_AT_ONCE: Final = 64  # changed keys that a range looks at together
_FEW: Final = 100  # new ones that are put in their places one by one

# Rough sizes in memory. A cache of the usual small values holds some 100,000 keys.
_CACHED_BYTES = 24 << 20
_KEY_WEIGHT: Final = 240  # a place in a dict, a key, a small value
_NESTED_WEIGHT: Final = 8  # an object against its encoded form


class TaskState:
    """A `KeyValueState` over what is stored, with the changes that are not stored yet.

    `load` reads one stored value, `load_all` every pair whose key is not before the one that it is given, by key; both are asked
    only for what is not in memory.
    """

    def __init__(
        self,
        load: Callable[[bytes], bytes | None],
        load_all: Callable[[bytes], Iterable[tuple[bytes, bytes]]],
    ) -> None:
        self._load, self._load_all = load, load_all
        self._cache: dict[str, Any] = {}
        self._weights: dict[str, int] = {}  # of values that are not small
        self._weight = 0  # of the whole cache
        self._room = _CACHED_BYTES
        self._dirty: dict[
            str, bytes | None
        ] = {}  # with the encoded value, unless it is encoded later
        self._taken: dict[str, bytes | None] = {}  # the same, on their way to where `load` reads
        self._sorted: list[str] | None = (
            None  # the keys of both by order, as of the last range; None: to be made anew
        )
        self._sorted_dirty = 0  # how many of the changes are in it: dicts grow at their ends

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`. Raises `FrameError` if what is stored was not stored by a `TaskState`."""
        try:
            value = self._cache[key]
        except KeyError:
            value = self._load_value(key)
        return default if value is ABSENT else value

    def put(self, key: str, value: Any) -> None:
        """Sets a key. What is stored is the value as it is now: one that is changed in place must be put again.

        Raises, with nothing changed, `TypeError` if MessagePack cannot hold the value or the key is no text, and `ValueError`
        if both are too long for a record.
        """
        kind = type(value)
        if kind is int:
            later = LEAST_INT <= value <= MOST_INT
        else:
            later = (
                kind is float
                or kind is bool
                or value is None
                or (kind is str and len(value) < _SHORT and value.isascii())
            )
        stored = None if later else _stored_form(key, value)
        if key not in self._cache:
            _check_key(key)
            self._weight += _KEY_WEIGHT + len(key)
        if stored is not None or key in self._weights:
            self._weigh(key, 0 if stored is None else weight_of(value, stored))
        self._cache[key] = value
        self._dirty[key] = stored

    def delete(self, key: str) -> Any:
        """Removes a key; returns the value that it had, None if it had none or one that cannot be read."""
        try:
            former = self.get(key, ABSENT)
        except FrameError:
            former = None
        if former is ABSENT:
            return None
        self.discard(key)
        return former

    def discard(self, key: str) -> None:
        """Removes a key, if it is there. What it had is not read."""
        if key not in self._cache:
            _check_key(key)
            self._weight += _KEY_WEIGHT + len(key)
        self._weigh(key, 0)
        self._cache[key] = ABSENT
        self._dirty[key] = None

    def items(self) -> Iterator[tuple[str, Any]]:
        """Every key with its value."""
        own = dict(self._cache)
        for key, value in own.items():
            if value is not ABSENT:
                yield key, value
        for stored_key, stored in self._load_all(b""):
            name = _name_of(stored_key)
            if name not in own:
                yield name, value_of(name, stored)

    def range(self, start: str = "", end: str | None = None) -> Iterator[tuple[str, Any]]:
        """The keys from `start` on and before `end`, by key, with their values; as they are at the call, if what it gives is read
        before the next change."""
        changed = self._changed(start, end)
        own = next(changed, None)
        for stored_key, stored in self._load_all(start.encode()):
            name = _name_of(stored_key)
            if end is not None and name >= end:
                break
            while own is not None and own < name:
                if (value := self._cache[own]) is not ABSENT:
                    yield own, value
                own = next(changed, None)
            if own == name:
                continue  # its turn comes with the next one, or behind the last
            yield name, self._cache[name] if name in self._cache else value_of(name, stored)
        while own is not None:
            if (value := self._cache[own]) is not ABSENT:
                yield own, value
            own = next(changed, None)

    def _changed(self, start: str, end: str | None) -> Iterator[str]:
        """The keys of a range that were changed and are not stored, by order."""
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
        """Brought up to date by what came since the last look: sorting all of them each time would make a range cost what the
        whole epoch has changed."""
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
                self._sorted.sort()  # which merges what is in order
            else:
                for key in new:
                    insort(self._sorted, key)
        self._sorted_dirty = len(dirty)
        return self._sorted

    def take_changes(self) -> list[tuple[bytes, bytes | None]]:
        """The changes since the last call, for storing; None deletes. Raises nothing: `put` has."""
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
        """The changes last taken can now be read through `load`."""
        self._taken = {}
        self._sorted = None
        if self._weight > self._room:
            self._make_room()

    def _load_value(self, key: str) -> Any:
        stored = self._load(key.encode())
        value = ABSENT if stored is None else value_of(key, stored)
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
        """Forgets all that `load` can give again."""
        kept = {**self._taken, **self._dirty}
        self._cache = {key: self._cache[key] for key in kept}
        self._weights = {key: self._weights[key] for key in kept if key in self._weights}
        self._weight = sum(_KEY_WEIGHT + len(key) for key in kept) + sum(self._weights.values())
        self._room = max(
            _CACHED_BYTES, 2 * self._weight
        )  # changes stay whatever they weigh: do not look again and again


def check_pair(key: bytes, value: bytes | None) -> None:
    """Raises `FrameError` if that is no stored pair; None, which deletes, is one."""
    name = _name_of(key)
    if value is not None:
        value_of(name, value)


def _name_of(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise FrameError(f"the state's keys are text, and {key[:100]!r} is not UTF-8") from None


def value_of(name: str, stored: bytes) -> Any:
    """The value of a key, of its stored form. Raises `FrameError` if that is none."""
    try:
        return _decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(
            f"{len(stored)} bytes under the key {name[:100]!r} that are no value of a state: {error}"
        ) from None


def _stored_form(key: str, value: Any) -> bytes:
    try:
        stored = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, AttributeError) as error:
        raise TypeError(
            f"the state of the key {key!r:.200} cannot be stored: MessagePack has no such value: {error}"
        ) from None
    if len(stored) > MAX_PAIR_BYTES - 4 * len(key):
        raise ValueError(
            f"the state of the key {key!r:.200} has {len(stored)} bytes, and at most {MAX_PAIR_BYTES} fit into a record with "
            "their key: spread it over several keys"
        )
    return stored


def _check_key(key: str) -> None:
    if type(key) is not str and not isinstance(key, str):
        raise TypeError(f"the state's keys are text, and {key!r:.200} is {type(key).__name__}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise TypeError(
            f"the state's keys are text, and {key!r:.200} cannot be written as UTF-8: {error.reason}"
        ) from None
    if size > MAX_KEY_BYTES:
        raise ValueError(
            f"the state's key {key!r:.200} has {size} bytes, and may have {MAX_KEY_BYTES}"
        )


def weight_of(value: Any, stored: bytes) -> int:
    """Roughly what a value that is not small takes in memory, in bytes."""
    return len(stored) if isinstance(value, _FLAT) else _NESTED_WEIGHT * len(stored)


ABSENT: Final[Any] = object()
"""Stands in memory for a key that was removed."""
