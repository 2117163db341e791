"""Tuples of one frame as columns instead of objects, for bolts that define `execute_batch`."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

from kstorm.topology.tuple import Source, Tuple


class TupleBatch:
    """Tuples of one stream from one task.

    `batch["word"]` is the list of their words, and `batch.rows()` yields the values of each tuple.
    The lists belong to the runtime: do not change them. A batch is acked or failed as a whole.
    """

    __slots__ = ("ack_vals", "columns", "edges", "finished", "roots", "source")

    def __init__(
        self, source: Source, columns: list[list[Any]], roots: Any = None, edges: Any = None
    ) -> None:
        self.source = source
        """The emitting task and its stream."""
        self.columns = columns
        """One list per field, in the order in which the stream declares them."""
        self.roots, self.edges = roots, edges  # arrays of 64-bit ids, or None if nothing is tracked
        # For each tuple, the XOR of the edges anchored to it. None while there are none.
        self.ack_vals: Any = None
        self.finished = False
        """True once it was acked or failed."""

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, field: str | int) -> list[Any]:
        return self.columns[field if type(field) is int else self.source.fields.index(field)]  # type: ignore[arg-type]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each tuple."""
        return zip(*self.columns, strict=True)

    def tuples(self) -> Iterator[Tuple]:
        """Yield the tuples as objects that are acked one by one, for a bolt that splits the batch."""
        if self.roots is None:
            return map(Tuple, self.rows(), repeat(self.source))
        ids = self.roots.tolist(), self.edges.tolist()
        return map(Tuple, self.rows(), repeat(self.source), *ids)
