"""The tuples of a bolt's windows, in its state: by time, and of one time as they came."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kstorm.topology import DEFAULT_STREAM, Fields, KeyValueState, Source, Tuple
from kstorm.windows.ordering import DIGITS, number_of, text_of

_TUPLES: Final = "w/t/"
_END: Final = "w/t0"  # "0" is the character behind "/"
_META: Final = "w/meta"


class Entry(NamedTuple):
    """One tuple that is kept."""

    key: str
    """Entries are ordered by it."""
    time: int
    tuple: Tuple


class Kept:
    """Of one task. `fields` gives those of a component's stream."""

    def __init__(self, state: KeyValueState, fields: Any) -> None:
        self._state, self._fields = state, fields
        self._sources: dict[tuple[str, str, int], Source] = {}

    def add(self, time: int, number: int, tuple: Tuple) -> None:
        """Keeps a tuple. `number` grows with each."""
        source = tuple.source
        stream = None if source.stream == DEFAULT_STREAM else source.stream
        self._state.put(_key(time, number), [source.component, source.task, stream, list(tuple.values)])

    def up_to(self, time: int) -> list[Entry]:
        """Those of this time and before."""
        return list(self._entries(_key(time + 1, 0)))

    def next(self, behind: str) -> Entry | None:
        """The first whose key is behind this one."""
        return next(self._entries(_END, behind + "\x00"), None)

    def forget(self, entries: Iterable[Entry]) -> None:
        """Keeps them no longer."""
        for entry in entries:
            self._state.delete(entry.key)

    def meta(self) -> list[Any] | None:
        """What was stored beside them; None if nothing was."""
        found: list[Any] | None = self._state.get(_META)
        return found

    def put_meta(self, meta: list[Any]) -> None:
        """Stores it."""
        self._state.put(_META, meta)

    def _entries(self, end: str, start: str = _TUPLES) -> Iterator[Entry]:
        for key, (component, task, stream, values) in self._state.range(start, end):
            source = self._source(component, stream or DEFAULT_STREAM, task)
            yield Entry(key, number_of(key[len(_TUPLES) : len(_TUPLES) + DIGITS]), Tuple(values, source))

    def _source(self, component: str, stream: str, task: int) -> Source:
        place = component, stream, task
        if place not in self._sources:
            fields: Fields = self._fields(component, stream)
            self._sources[place] = Source(component, stream, task, fields)
        return self._sources[place]


def _key(time: int, number: int) -> str:
    return f"{_TUPLES}{text_of(time)}{number:0{DIGITS}d}"


def last_key(time: int) -> str:
    """Behind all of a time, before all of the next."""
    return _key(time + 1, 0)


ALL: Final = 2**61
"""Behind every time."""
BEFORE_ALL: Final = _TUPLES
"""A key before every tuple's."""
