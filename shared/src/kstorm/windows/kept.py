"""The tuples of a bolt's windows, in its state: by group, then by time, and of one time as they came."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kstorm.topology import DEFAULT_STREAM, Fields, KeyValueState, Source, Tuple
from kstorm.windows.ordering import DIGITS, number_of, text_of

_TUPLES: Final = "w/t/"
END: Final = "w/t0"  # "0" is the character behind "/"
"""Behind every tuple's key."""
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

    def add(self, time: int, number: int, tuple: Tuple, group: str = "") -> None:
        """Keeps a tuple. `number` grows with each."""
        source = tuple.source
        stream = None if source.stream == DEFAULT_STREAM else source.stream
        self._state.put(
            key_of(time, number, group), [source.component, source.task, stream, list(tuple.values)]
        )

    def between(self, behind: str, before: str) -> Iterator[Entry]:
        """Those whose keys are behind one and before another."""
        for key, (component, task, stream, values) in self._state.range(behind + "\x00", before):
            source = self._source(component, stream or DEFAULT_STREAM, task)
            yield Entry(key, number_of(key[-2 * DIGITS : -DIGITS]), Tuple(values, source))

    def tuples(self, behind: str, before: str) -> Iterator[Tuple]:
        """The same without their keys."""
        return (entry.tuple for entry in self.between(behind, before))

    def next(self, behind: str) -> Entry | None:
        """The first whose key is behind this one."""
        return next(self.between(behind, END), None)

    def forget(self, behind: str, before: str) -> None:
        """Keeps them no longer."""
        for key in [key for key, _ in self._state.range(behind + "\x00", before)]:
            self._state.discard(key)

    def meta(self) -> list[Any] | None:
        """What was stored beside them; None if nothing was."""
        found: list[Any] | None = self._state.get(_META)
        return found

    def put_meta(self, meta: list[Any]) -> None:
        """Stores it."""
        self._state.put(_META, meta)

    def _source(self, component: str, stream: str, task: int) -> Source:
        place = component, stream, task
        if place not in self._sources:
            fields: Fields = self._fields(component, stream)
            self._sources[place] = Source(component, stream, task, fields)
        return self._sources[place]


def key_of(time: int, number: int, group: str = "") -> str:
    """Of a tuple. With the number 0 it is before all tuples of that time."""
    return f"{_TUPLES}{group}{text_of(time)}{number:0{DIGITS}d}"


def last_key(time: int, group: str = "") -> str:
    """Behind all of a time, before all of the next."""
    return key_of(time + 1, 0, group)


ALL: Final = 2**61
"""Behind every time."""
BEFORE_ALL: Final = _TUPLES
"""A key before every tuple's."""
