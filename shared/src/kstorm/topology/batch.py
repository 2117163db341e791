"""Tuples of one frame as columns instead of objects, for bolts that define `execute_batch`."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any

from kstorm.topology.tuple import Source, Tuple


def each_source(source: Source, runs: Sequence[tuple[Source, int]]) -> Iterator[Source]:
    """Yield the source of each tuple of a frame. Without runs, all have the same: it never ends."""
    return chain.from_iterable(repeat(*run) for run in runs) if runs else repeat(source)


class TupleBatch:
    """Tuples of one stream.

    `batch["word"]` is the list of their words, and `batch.rows()` yields the values of each tuple.
    The lists belong to the runtime: do not change them. A batch is acked or failed as a whole.
    """

    __slots__ = ("ack_vals", "columns", "edges", "finished", "roots", "runs", "source")

    def __init__(
        self,
        source: Source,
        columns: list[list[Any]],
        roots: Any = None,
        edges: Any = None,
        runs: Sequence[tuple[Source, int]] = (),
    ) -> None:
        self.source = source
        """The emitting component and its stream. Its `task` is -1 if the tuples are from several
        tasks: see `source_tasks`."""
        self.runs = runs  # the sources of the tuples, each with its number of tuples, in order
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

    def sources(self) -> Iterator[Source]:
        """Yield the stream and the emitting task of each tuple."""
        return islice(each_source(self.source, self.runs), len(self))

    @property
    def source_tasks(self) -> list[int]:
        """Topology-wide id of the task that emitted each tuple."""
        return [source.task for source in self.sources()]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each tuple."""
        return zip(*self.columns, strict=True)

    def tuples(self) -> Iterator[Tuple]:
        """Yield the tuples as objects that are acked one by one, for a bolt that splits the batch."""
        if self.roots is None:
            return map(Tuple, self.rows(), self.sources())
        return map(Tuple, self.rows(), self.sources(), self.roots.tolist(), self.edges.tolist())
