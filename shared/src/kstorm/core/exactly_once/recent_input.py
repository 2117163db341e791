"""Finds the input of tuples that turn out to be unsendable when an epoch is cut.

Their emits were accepted, so no execution is running that could name the input. This happens, for
example, if a bolt emits a list and then makes it longer. The input records of the present epoch
are kept for this case. That costs no work per tuple, and about `MOST_BYTES` of memory at most.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from operator import attrgetter
from typing import Protocol

from kstorm.core.exactly_once.located_tuples import LocatedTuple
from kstorm.core.wire import TupleFrame, decode
from kstorm.errors import FrameError

ReadFrame = Callable[[TupleFrame, int], Iterable[LocatedTuple]]
"""Returns the tuples of the frame at an offset. Raises `FrameError` if it is not for this task."""

Inputs = Mapping[int, list[LocatedTuple]]
"""Tuples by root, in the order of the input."""


class ExecutedRecord(Protocol):
    """A record of an input topic."""

    @property
    def offset(self) -> int: ...

    @property
    def value(self) -> bytes | None: ...


class RecentInput:
    """The input that one task has executed since the last cut."""

    def __init__(self, read: ReadFrame) -> None:
        self._read = read
        self._records: list[ExecutedRecord] = []
        self._retried: list[LocatedTuple] = []

    def add(self, record: ExecutedRecord) -> None:
        """Remember a record that is about to be executed."""
        self._records.append(record)

    def add_retried(self, tuples: Iterable[LocatedTuple]) -> None:
        """Remember tuples of earlier epochs that are executed again."""
        self._retried += tuples

    def clear(self) -> None:
        if self._records or self._retried:
            self._records, self._retried = [], []

    def find(self, roots: Set[int], held: Iterable[LocatedTuple]) -> Inputs:
        """Return the tuples of these trees. `held` are further candidates."""
        found = {
            (tuple.offset, tuple.row): tuple
            for tuple in (*held, *self._retried, *self._executed())
            if not roots.isdisjoint(tuple.roots())
        }
        inputs: dict[int, list[LocatedTuple]] = {}
        for tuple in sorted(found.values(), key=attrgetter("offset", "row")):
            for root in roots & {*tuple.roots()}:
                inputs.setdefault(root, []).append(tuple)
        return inputs

    def _executed(self) -> Iterator[LocatedTuple]:
        for record in self._records:
            try:
                yield from self._read(decode(TupleFrame, record.value), record.offset)
            except FrameError:  # the record has a dead letter of its own
                continue
