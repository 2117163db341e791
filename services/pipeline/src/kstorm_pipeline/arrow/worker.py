"""A worker's task: convert some files of bronze to files of silver."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kstorm_pipeline.arrow.bucket_files import BucketFiles, SilverFile
from kstorm_pipeline.arrow.columns import column_of, read_objects
from kstorm_pipeline.arrow.record_layout import DoubtfulError
from kstorm_pipeline.arrow.silver_columns import name_rows, text_of
from kstorm_pipeline.arrow.worker_stats import WorkerStats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kstorm_pipeline.arrow.record_layout import RecordLayout

_ROWS: Final = 65_536
"""Rows read at a time."""
_MOST_ROWS: Final = 262_144
"""Rows to collect before a write."""


@dataclass(frozen=True, slots=True)
class WorkerOutcome:
    """The result for some files of bronze."""

    files: list[SilverFile] = field(default_factory=list)
    notes: WorkerStats = field(default_factory=WorkerStats)
    """Statistics of the rows in the files."""
    doubt: str = ""
    """Reason why no files were written, or empty."""


def silver_of(
    shape: RecordLayout, number: int, folder: str, bronze: Iterable[str]
) -> WorkerOutcome:
    """Convert files of bronze to files of silver below `folder`, which no commit includes yet.

    `number` is the number of the batch.
    """
    files, notes = BucketFiles(Path(folder)), WorkerStats()
    try:
        for rows in _gathered(
            _noted(notes, (refined(shape, number, rows) for rows in _read(bronze)))
        ):
            files.write(rows)
    except DoubtfulError as doubt:
        files.discard()
        return WorkerOutcome(doubt=str(doubt))
    except BaseException:
        files.discard()
        raise
    return WorkerOutcome(files.close(), notes)


def _read(paths: Iterable[str]) -> Iterator[pa.Table]:
    for path in paths:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as source:
            for rows in source.iter_batches(_ROWS, use_threads=False):
                yield pa.Table.from_batches([rows])


def _noted(notes: WorkerStats, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    for part in parts:
        notes.add(part)
        yield part


def _gathered(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Combine the rows into larger tables. Each table adds a row group to each bucket's file."""
    pending: list[pa.Table] = []
    for part in parts:
        pending.append(part)
        if sum(each.num_rows for each in pending) >= _MOST_ROWS:
            yield pa.concat_tables(pending).combine_chunks()
            pending.clear()
    if pending:
        yield pa.concat_tables(pending).combine_chunks()


def refined(shape: RecordLayout, number: int, rows: pa.Table) -> pa.Table:
    """Convert rows of bronze to rows of silver."""
    texts: Sequence[Any] = rows["value"].to_pylist()
    objects = read_objects(texts)
    typed = {each.name: column_of(each, objects, texts) for each in shape.fields}
    if shape.key is not None:
        typed[shape.key] = text_of(rows["key"].combine_chunks())
    named = name_rows(rows, [typed[name] for name in shape.identity])
    batch = pa.array(np.full(rows.num_rows, number, np.int64))
    columns = (
        named
        | {"batch": batch}
        | {name: found for name, found in typed.items() if name not in shape.without}
    )
    return pa.table(columns)
