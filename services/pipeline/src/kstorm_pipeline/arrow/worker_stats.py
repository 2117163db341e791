"""Statistics that workers collect while they write rows, to save Spark a pass (`survey`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstorm_pipeline.spans import CELL, MOST_CELLS, MOST_SOURCES, IntegerSpan, join_spans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_MOST_NAMES: Final = 4_000_000
"""With more names, at eight bytes each, Spark decides whether they are distinct."""
_TEXT: Final = 1 << 20
"""Bytes of names that are processed at a time."""
_FACTORS: Final = np.cumprod(np.full(4096, 0x9E3779B97F4A7C15, np.uint64))
"""Multipliers for the bytes of a name, by position."""


@dataclass(slots=True)
class WorkerStats:
    """Statistics of some rows of silver."""

    rows: int = 0
    named: int = 0
    """Rows that have an occurrence."""
    told: int = 0
    """Named rows whose name contains a source offset."""
    sources: list[IntegerSpan] | None = field(default_factory=list)
    """The source offsets in these names, or None if they are in too many cells."""
    names: list[NDArray[np.uint64]] | None = field(default_factory=list)
    """One hash per name, or None if there are too many names."""

    def add(self, rows: pa.Table) -> None:
        """Include these rows."""
        names = rows["occurrence"].combine_chunks().drop_null()
        told = rows.filter(rows["source_offset"].is_valid()).select(
            ["source_topic", "source_partition", "source_offset"]
        )
        self._take(
            WorkerStats(
                rows.num_rows, len(names), told.num_rows, list(_spans(told)), list(_numbers(names))
            )
        )

    def _take(self, other: WorkerStats) -> None:
        self.rows += other.rows
        self.named += other.named
        self.told += other.told
        if self.sources is not None:
            joined = None if other.sources is None else join_spans([*self.sources, *other.sources])
            few = joined is not None and len({span.owner for span in joined}) <= MOST_SOURCES
            self.sources = joined if few else None
        if self.names is not None:
            self.names = (
                None
                if other.names is None or self.named > _MOST_NAMES
                else [*self.names, *other.names]
            )

    @property
    def differ(self) -> bool:
        """True if it is certain that all names are distinct."""
        return self.names is not None and (
            not self.named or len(np.unique(np.concatenate(self.names))) == self.named
        )


def merge_stats(notes: Iterable[WorkerStats]) -> WorkerStats:
    """Merge the statistics of several workers."""
    whole = WorkerStats()
    for each in notes:
        whole._take(each)
    return whole


def _spans(told: pa.Table) -> Iterable[IntegerSpan]:
    """Return the source offsets of rows by cell, or by partition if they are in too many cells."""
    cell = pc.divide(told["source_offset"], CELL)
    for by in (["topic", "partition", "cell"], ["topic", "partition"]):
        columns: list[Any] = [
            told["source_topic"],
            told["source_partition"],
            cell,
            told["source_offset"],
        ]
        table = pa.table(columns, names=["topic", "partition", "cell", "offset"])
        found = table.group_by(by, use_threads=False).aggregate(
            [("offset", "min"), ("offset", "max")]
        )
        if found.num_rows <= MOST_CELLS:
            break
    for row in found.to_pylist():
        yield IntegerSpan((row["topic"], row["partition"]), row["offset_min"], row["offset_max"])


def _numbers(names: pa.StringArray) -> Iterable[NDArray[np.uint64]]:
    """Return a hash for each name: equal for equal names, and hardly ever for others."""
    lengths = pc.binary_length(names).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    begin = 0
    while begin < len(names):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + _TEXT, side="right")))
        yield _numbers_of(names.slice(begin, end - begin), lengths[begin:end])
        begin = end


def _numbers_of(names: pa.StringArray, lengths: NDArray[Any]) -> NDArray[np.uint64]:
    _, _, data = names.buffers()
    first = int(np.frombuffer(names.buffers()[1], np.int32)[names.offset])
    ends = np.cumsum(lengths, dtype=np.int64)
    begins = ends - lengths
    text = np.frombuffer(data, np.uint8, int(ends[-1]), first)
    places = np.arange(len(text)) - np.repeat(begins, lengths)
    # `reduceat` needs non-empty segments. No name is empty.
    numbers: NDArray[np.uint64] = np.add.reduceat(_FACTORS[places % len(_FACTORS)] * text, begins)
    return numbers
