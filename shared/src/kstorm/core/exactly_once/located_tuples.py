"""Tuples that know their position in their task's input topic."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from kstorm.topology import Source, Tuple, TupleBatch


class LocatedTuple(Tuple, eq=False):
    """A tuple with its position, so that the task's next owner can find it again."""

    offset: int = -1
    row: int = -1
    """Its position in the frame at that offset."""
    attempts: int = 0
    """Number of failed executions."""

    def again(self, attempts: int) -> "LocatedTuple":
        """Return the same tuple for another execution.

        It keeps the edges of tuples that were anchored to it in successful executions.
        """
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
    """A batch whose tuples are located. Every call of `tuples` returns the same objects."""

    __slots__ = ("_tuples", "offset")

    def __init__(
        self,
        source: Source,
        columns: list[list[Any]],
        ids: tuple[Any, Any],
        offset: int,
        runs: Sequence[tuple[Source, int]] = (),
    ) -> None:
        super().__init__(source, columns, *ids, runs)
        self.offset = offset
        self._tuples: list[LocatedTuple] | None = None

    def tuples(self) -> "Sequence[LocatedTuple]":  # type: ignore[override] # returns a list, not an iterator
        if self._tuples is None:
            ids: Any = (
                repeat((0, 0))
                if self.roots is None
                else zip(self.roots.tolist(), self.edges.tolist(), strict=True)
            )
            self._tuples = [
                LocatedTuple(values, source, root, edge, offset=self.offset, row=row)
                for row, (values, source, (root, edge)) in enumerate(
                    zip(self.rows(), self.sources(), ids, strict=False)
                )
            ]
        return self._tuples

    def unfinished(self) -> list[LocatedTuple]:
        """Return the tuples that were neither acked nor failed, together or one by one."""
        return [] if self.finished else [tuple for tuple in self.tuples() if not tuple.finished]

    def ack_val_at(self, row: int) -> int:
        """Return the XOR of the edges anchored to one of its tuples."""
        return self.tuples()[row].ack_val ^ (
            0 if self.ack_vals is None else int(self.ack_vals[row])
        )

    def take_apart(self) -> list[LocatedTuple]:
        """Split the batch into single tuples with their edges, and return the unfinished ones."""
        left = self.unfinished()
        for tuple in left:
            tuple.ack_val = self.ack_val_at(tuple.row)
        self.ack_vals, self.finished = None, True
        return left
