"""What goes from step to step within a bolt: the tuples of a batch as columns, so that little is done for each of them.

A step seldom needs all fields, and what it leaves seldom has them all looked at; so a column is made when it is asked for.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kstorm.topology import Fields
from kstorm.trident.tuple import TridentTuple

Row = tuple[Any, ...]
Column = list[Any]
Places = NDArray[np.intp] | Sequence[int]


class Batch:
    """Rows, and of each the position of the tuple that it is anchored to."""

    __slots__ = ("_at", "_before", "_columns", "_positions", "size")

    def __init__(
        self, columns: Sequence[Column | None], positions: Places | None, size: int
    ) -> None:
        """`positions`: None if each row is the tuple at its place. Columns are read, and never changed."""
        self.size = size
        self._columns = list(columns)
        self._positions = positions
        self._before: Batch | None = None
        self._at: Places = ()

    @classmethod
    def of_rows(cls, rows: Sequence[Row], positions: Places | None = None) -> Self:
        """The columns of some rows, of which there is one at least."""
        return cls([list(column) for column in zip(*rows, strict=True)], positions, len(rows))

    @classmethod
    def of_tuple(cls, values: Iterable[Any]) -> Self:
        """A batch of one."""
        return cls([[value] for value in values], None, 1)

    def taken(self, at: Places, new: Sequence[Column] = ()) -> "Batch":
        """The rows at these places, each as often as its place is there, with further columns."""
        found = Batch([*(None for _ in self._columns), *new], None, len(at))
        found._before, found._at = self, at
        return found

    def replaced(self, columns: Sequence[Column]) -> "Batch":
        """Other columns of as many rows, each anchored as the one in its place."""
        return Batch(columns, self.positions, self.size)

    @property
    def positions(self) -> Places | None:
        """What each row is anchored to; None if to the tuple at its place."""
        if self._positions is None and self._before is not None:
            before = self._before.positions
            self._positions = (
                self._at
                if before is None
                else np.asarray(before, np.intp)[np.asarray(self._at, np.intp)]
            )
        return self._positions

    def all_positions(self) -> Sequence[int]:
        """The same, written out."""
        found = self.positions
        return (
            range(self.size)
            if found is None
            else found.tolist()
            if isinstance(found, np.ndarray)
            else found
        )

    def column(self, place: int) -> Column:
        """The values of a field."""
        found = self._columns[place]
        if found is None:
            assert self._before is not None
            source = self._before.column(place)
            at = self._at.tolist() if isinstance(self._at, np.ndarray) else self._at
            found = self._columns[place] = [source[number] for number in at]
        return found

    def columns(self) -> list[Column]:
        """Of all fields."""
        return [self.column(place) for place in range(len(self._columns))]


EMPTY = Batch((), None, 0)
"""Nothing is left."""


class Picked:
    """Some fields of a row, as an operation is given them."""

    def __init__(self, fields: Fields, of: Fields) -> None:
        self.fields = fields
        self.places = [of.index(name) for name in fields]
        """Where they stand."""

    def values(self, row: Sequence[Any]) -> Row:
        """Of one row."""
        return tuple([row[place] for place in self.places])

    def tuple(self, row: Sequence[Any]) -> TridentTuple:
        """The same as an object."""
        return TridentTuple(self.values(row), self.fields)

    def columns(self, batch: Batch) -> list[Column]:
        """Of all rows."""
        return [batch.column(place) for place in self.places]

    def rows(self, batch: Batch) -> Iterable[Row]:
        """The same, row by row."""
        return zip(*self.columns(batch), strict=True) if self.places else [()] * batch.size

    def tuples(self, batch: Batch) -> Iterable[TridentTuple]:
        """The same as objects."""
        fields = self.fields
        return (TridentTuple(values, fields) for values in self.rows(batch))

    def keys(self, batch: Batch) -> Sequence[Any]:
        """What rows are grouped by: the value of the one field, or a tuple of them."""
        return batch.column(self.places[0]) if len(self.places) == 1 else list(self.rows(batch))


def key_columns(keys: Sequence[Any], fields: int) -> list[Column]:
    """The fields of groups, of which there is one at least, by their keys; see `Picked.keys`."""
    return [list(keys)] if fields == 1 else [list(column) for column in zip(*keys, strict=True)]
