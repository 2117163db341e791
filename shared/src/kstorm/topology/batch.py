"""Tuples of one frame taken together: columns instead of objects, for bolts that define `execute_batch`."""

from collections.abc import Iterator
from typing import Any

from kstorm.topology.tuple import Source, Tuple


class TupleBatch:
    """Tuples of one stream from one task: `batch["word"]` is the list of their words, `batch.rows()` goes one by one.

    The lists are the runtime's own: read them, do not change them. A batch is acked or failed as a whole.
    """

    __slots__ = ("ack_vals", "columns", "edges", "finished", "roots", "source")

    def __init__(
        self, source: Source, columns: list[list[Any]], roots: Any = None, edges: Any = None
    ) -> None:
        self.source = source
        """Where the tuples come from."""
        self.columns = columns
        """One list a field, in the order in which the stream declares them."""
        self.roots, self.edges = roots, edges  # arrays of 64-bit ids, or None if nothing is tracked
        self.ack_vals: Any = (
            None  # XOR of the edges emitted with each tuple as anchor; None while there are none
        )
        self.finished = False
        """Whether it was acked or failed already."""

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, field: str | int) -> list[Any]:
        return self.columns[field if type(field) is int else self.source.fields.index(field)]  # type: ignore[arg-type]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The values of one tuple after the other."""
        return zip(*self.columns, strict=True)

    def tuples(self) -> Iterator[Tuple]:
        """The tuples as objects, each of which is to be acked by itself: for a bolt that takes the batch apart."""
        if self.roots is None:
            return (Tuple(values, self.source) for values in self.rows())
        ids = zip(self.rows(), self.roots.tolist(), self.edges.tolist(), strict=True)
        return (Tuple(values, self.source, root, edge) for values, root, edge in ids)
