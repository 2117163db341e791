"""Batches of tuples as columns, passed between the steps of a bolt to keep the work per tuple low.

A step rarely reads all fields, and many of its output fields are never read. So a column is only
computed when it is read.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kstorm.topology import Fields
from kstorm.topology.keys import comparable, original
from kstorm.trident.tuple import TridentTuple

Row = tuple[Any, ...]
Column = list[Any]
Places = NDArray[np.intp] | Sequence[int]


class Batch:
    """Rows, with the position of the input tuple that each row is anchored to."""

    __slots__ = ("_at", "_before", "_columns", "_positions", "size")

    def __init__(
        self, columns: Sequence[Column | None], positions: Places | None, size: int
    ) -> None:
        """If `positions` is None, each row is anchored to the tuple at its own position. Columns
        are read and never changed."""
        self.size = size
        self._columns = list(columns)
        self._positions = positions
        self._before: Batch | None = None
        self._at: Places = ()

    @classmethod
    def of_rows(cls, rows: Sequence[Row], positions: Places | None = None) -> Self:
        """Make a batch of at least one row."""
        return cls([list(column) for column in zip(*rows, strict=True)], positions, len(rows))

    @classmethod
    def of_tuple(cls, values: Iterable[Any]) -> Self:
        """Make a batch of one row."""
        return cls([[value] for value in values], None, 1)

    def taken(self, at: Places, new: Sequence[Column] = ()) -> "Batch":
        """Return the rows at the positions `at`, which may repeat, with additional columns."""
        found = Batch([*(None for _ in self._columns), *new], None, len(at))
        found._before, found._at = self, at
        return found

    def replaced(self, columns: Sequence[Column]) -> "Batch":
        """Return a batch with other columns of the same length. Each row keeps its anchor."""
        return Batch(columns, self.positions, self.size)

    @property
    def positions(self) -> Places | None:
        """The position of the tuple that each row is anchored to. None if each row has its own
        position."""
        if self._positions is None and self._before is not None:
            before = self._before.positions
            self._positions = (
                self._at
                if before is None
                else np.asarray(before, np.intp)[np.asarray(self._at, np.intp)]
            )
        return self._positions

    def all_positions(self) -> Sequence[int]:
        """Return the position of each row's anchor, also if it is the row's own position."""
        found = self.positions
        return (
            range(self.size)
            if found is None
            else found.tolist()
            if isinstance(found, np.ndarray)
            else found
        )

    def column(self, place: int) -> Column:
        found = self._columns[place]
        if found is None:
            assert self._before is not None
            source = self._before.column(place)
            at = self._at.tolist() if isinstance(self._at, np.ndarray) else self._at
            found = self._columns[place] = [source[number] for number in at]
        return found

    def columns(self) -> list[Column]:
        return [self.column(place) for place in range(len(self._columns))]


EMPTY = Batch((), None, 0)


class FieldSelection:
    """The fields of a row that an operation receives."""

    def __init__(self, fields: Fields, of: Fields) -> None:
        self.fields = fields
        self.places = [of.index(name) for name in fields]
        """Positions of the fields in the row."""

    def values(self, row: Sequence[Any]) -> Row:
        return tuple([row[place] for place in self.places])

    def tuple(self, row: Sequence[Any]) -> TridentTuple:
        return TridentTuple(self.values(row), self.fields)

    def columns(self, batch: Batch) -> list[Column]:
        return [batch.column(place) for place in self.places]

    def rows(self, batch: Batch) -> Iterable[Row]:
        return zip(*self.columns(batch), strict=True) if self.places else [()] * batch.size

    def tuples(self, batch: Batch) -> Iterable[TridentTuple]:
        fields = self.fields
        return (TridentTuple(values, fields) for values in self.rows(batch))

    def keys(self, batch: Batch) -> Sequence[Any]:
        """Return the group key of each row: the value of the only field, or a tuple of several
        values. Both are as `comparable` makes them."""
        columns = [comparable(batch.column(place)) for place in self.places]
        if len(columns) == 1:
            return columns[0]
        return list(zip(*columns, strict=True)) if columns else [()] * batch.size


def key_columns(keys: Sequence[Any], fields: int) -> list[Column]:
    """Return the group fields of at least one key, as columns. For the keys see `FieldSelection.keys`."""
    return [original(column) for column in ([keys] if fields == 1 else zip(*keys, strict=True))]
