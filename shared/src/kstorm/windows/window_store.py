"""Store the tuples of a bolt's windows in its state: by group, then by time, then in order of
arrival."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kstorm.topology import DEFAULT_STREAM, Fields, KeyValueState, Source, Tuple
from kstorm.topology.event_time import Mark
from kstorm.windows.sortable_numbers import DIGITS, decode_number, encode_number

_TUPLES: Final = "w/t/"
END: Final = "w/t0"  # "0" is the character after "/"
"""Sorts after every tuple's key."""
_META: Final = "w/meta"
_MARKS: Final = "w/marks"


class StoredTuple(NamedTuple):
    """A stored tuple."""

    key: str
    """Entries are ordered by key."""
    time: int
    tuple: Tuple


class WindowStore:
    """The stored tuples of one task. `fields` returns the output fields of a component's stream."""

    def __init__(self, state: KeyValueState, fields: Any) -> None:
        self._state, self._fields = state, fields
        self._sources: dict[tuple[str, str, int], Source] = {}

    def add(self, time: int, number: int, tuple: Tuple, group: str = "") -> None:
        """Store a tuple. `number` must grow with each call."""
        source = tuple.source
        stream = None if source.stream == DEFAULT_STREAM else source.stream
        self._state.put(
            key_of(time, number, group), [source.component, source.task, stream, list(tuple.values)]
        )

    def between(self, behind: str, before: str) -> Iterator[StoredTuple]:
        """Yield the entries with keys after `behind` and before `before`."""
        for key, (component, task, stream, values) in self._state.range(behind + "\x00", before):
            source = self._source(component, stream or DEFAULT_STREAM, task)
            yield StoredTuple(key, time_of_key(key), Tuple(values, source))

    def tuples(self, behind: str, before: str) -> Iterator[Tuple]:
        """Yield the tuples with keys after `behind` and before `before`."""
        return (entry.tuple for entry in self.between(behind, before))

    def next(self, behind: str) -> StoredTuple | None:
        """Return the first entry with a key after `behind`."""
        return next(self.between(behind, END), None)

    def keys(self, behind: str, before: str) -> Iterator[str]:
        """Yield the keys after `behind` and before `before`."""
        return (key for key, _ in self._state.range(behind + "\x00", before))

    def forget(self, behind: str, before: str) -> None:
        """Delete the entries with keys after `behind` and before `before`."""
        self.discard(list(self.keys(behind, before)))

    def discard(self, keys: Iterable[str]) -> None:
        """Delete the entries with these keys."""
        for key in keys:
            self._state.discard(key)

    def meta(self) -> list[Any] | None:
        """Return the metadata stored with the tuples. Return None if nothing is stored."""
        found: list[Any] | None = self._state.get(_META)
        return found

    def put_meta(self, meta: list[Any]) -> None:
        self._state.put(_META, meta)

    def marks(self) -> dict[int, Mark]:
        """Return the stored watermarks of the input's tasks."""
        return {task: Mark(*mark) for task, *mark in self._state.get(_MARKS, ())}

    def put_marks(self, marks: Mapping[int, Mark]) -> None:
        self._state.put(_MARKS, [[task, *mark] for task, mark in marks.items()])

    def _source(self, component: str, stream: str, task: int) -> Source:
        place = component, stream, task
        if place not in self._sources:
            fields: Fields = self._fields(component, stream)
            self._sources[place] = Source(component, stream, task, fields)
        return self._sources[place]


def key_of(time: int, number: int, group: str = "") -> str:
    """Return a tuple's key. The number 0 gives a key before all tuples of that time."""
    return f"{_TUPLES}{group}{encode_number(time)}{number:0{DIGITS}d}"


def time_of_key(key: str) -> int:
    """Return the time in a tuple's key."""
    return decode_number(key[-2 * DIGITS : -DIGITS])


def last_key(time: int, group: str = "") -> str:
    """Return a key after all tuples of a time and before those of the next millisecond."""
    return key_of(time + 1, 0, group)


ALL: Final = 2**61
"""A time after every tuple's."""
BEFORE_ALL: Final = _TUPLES
"""Sorts before every tuple's key."""
