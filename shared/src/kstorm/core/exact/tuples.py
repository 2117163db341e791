"""Tuples that know where they lie in their task's input topic."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from kstorm.topology import Source, Tuple, TupleBatch


class LocatedTuple(Tuple, eq=False):
    """A tuple with its place: it can be found again by whoever takes the task over."""

    offset: int = -1
    row: int = -1
    """Its position in the frame at that offset."""
    attempts: int = 0
    """How often its execution has failed."""

    def again(self, attempts: int) -> "LocatedTuple":
        """The same tuple, to be executed again. What was anchored to it in executions that took effect still hangs on it."""
        return LocatedTuple(
            self.values,
            self.source,
            self.root,
            self.edge,
            self.more,
            self.ack_val,
            offset=self.offset,
            row=self.row,
            attempts=attempts,
        )


class LocatedBatch(TupleBatch):
    """A batch whose tuples are located, and are the same objects whenever they are asked for."""

    __slots__ = ("_tuples", "offset")

    def __init__(
        self, source: Source, columns: list[list[Any]], ids: tuple[Any, Any], offset: int
    ) -> None:
        super().__init__(source, columns, *ids)
        self.offset = offset
        self._tuples: list[LocatedTuple] | None = None

    def tuples(self) -> "Sequence[LocatedTuple]":  # type: ignore[override] # a list is an iterable, if no iterator
        """See `TupleBatch.tuples`."""
        if self._tuples is None:
            ids: Any = (
                repeat((0, 0))
                if self.roots is None
                else zip(self.roots.tolist(), self.edges.tolist(), strict=True)
            )
            self._tuples = [
                LocatedTuple(values, self.source, root, edge, offset=self.offset, row=row)
                for row, (values, (root, edge)) in enumerate(zip(self.rows(), ids, strict=False))
            ]
        return self._tuples

    def unfinished(self) -> list[LocatedTuple]:
        """The tuples that were neither acked nor failed, together or one by one."""
        return [] if self.finished else [tuple for tuple in self.tuples() if not tuple.finished]

    def ack_val_at(self, row: int) -> int:
        """XOR of the edges that hang on one of its tuples."""
        return self.tuples()[row].ack_val ^ (
            0 if self.ack_vals is None else int(self.ack_vals[row])
        )

    def take_apart(self) -> list[LocatedTuple]:
        """From now on each tuple is on its own, with what hangs on it; returns those that are not finished."""
        left = self.unfinished()
        for tuple in left:
            tuple.ack_val = self.ack_val_at(tuple.row)
        self.ack_vals, self.finished = None, True
        return left
