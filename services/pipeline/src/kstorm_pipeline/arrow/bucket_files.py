"""Writes files of silver, one per bucket of source partitions, with Delta's statistics for each."""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstorm_pipeline.arrow.silver_columns import BUCKET

_NO_BUCKET: Final = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_TEXT: Final = 32
"""Characters. Delta wants longer texts truncated in a certain way, so they get no statistics."""


@dataclass(frozen=True, slots=True)
class SilverFile:
    """A file that no commit includes yet."""

    path: str
    """Relative to the table's folder."""
    add: str
    """The `add` action for the commit, as JSON."""


class BucketFiles:
    """Writes rows below the table's folder, one file per bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"part-{uuid.uuid4()}.snappy.parquet"
        self._writers: dict[int | None, tuple[pq.ParquetWriter, list[pq.FileMetaData]]] = {}

    def write(self, rows: pa.Table) -> None:
        """Append rows, sorted by bucket."""
        rows = rows.take(pc.sort_indices(rows[BUCKET]))
        buckets = pc.fill_null(rows[BUCKET], -1).to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(buckets)) + 1), len(buckets)]
        for begin, end in pairwise(edges):
            if end > begin:
                bucket = None if buckets[begin] < 0 else int(buckets[begin])
                self._writer(bucket, rows.schema).write_table(rows.slice(begin, end - begin))

    def close(self) -> list[SilverFile]:
        """Finish the files and return their descriptions."""
        for writer, _ in self._writers.values():
            writer.close()
        return [
            _described(self._folder, self._path(bucket), bucket, found)
            for bucket, (_, found) in self._writers.items()
        ]

    def discard(self) -> None:
        """Delete the written files."""
        for bucket, (writer, _) in self._writers.items():
            writer.close()
            (self._folder / self._path(bucket)).unlink(missing_ok=True)

    def _writer(self, bucket: int | None, schema: pa.Schema) -> pq.ParquetWriter:
        if bucket not in self._writers:
            path = self._folder / self._path(bucket)
            path.parent.mkdir(exist_ok=True)
            found: list[pq.FileMetaData] = []
            writer = pq.ParquetWriter(
                path, schema, compression="snappy", metadata_collector=found, store_schema=False
            )
            self._writers[bucket] = writer, found
        return self._writers[bucket][0]

    def _path(self, bucket: int | None) -> str:
        return f"{BUCKET}={_NO_BUCKET if bucket is None else bucket}/{self._name}"


def _described(
    folder: Path, path: str, bucket: int | None, found: list[pq.FileMetaData]
) -> SilverFile:
    stats = {
        "numRecords": sum(each.num_rows for each in found),
        "tightBounds": True,
        **_statistics(found),
    }
    add = {
        "path": path,
        "partitionValues": {BUCKET: None if bucket is None else str(bucket)},
        "size": os.path.getsize(folder / path),  # noqa: PTH202
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps(stats, ensure_ascii=False),
    }
    return SilverFile(path, json.dumps({"add": add}, ensure_ascii=False))


def _statistics(found: list[pq.FileMetaData]) -> dict[str, dict[str, Any]]:
    """Return the minimum and maximum of each column, if Delta accepts them, and its number of nulls."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for place in range(found[0].num_columns if found else 0):
        groups = [
            each.row_group(number).column(place)
            for each in found
            for number in range(each.num_row_groups)
        ]
        name = groups[0].path_in_schema
        told = [group.statistics for group in groups]
        if name == BUCKET or any(each is None or each.null_count is None for each in told):
            continue
        nulls[name] = sum(each.null_count for each in told)
        bounds = [
            _told(value) for each in told if each.has_min_max for value in (each.min, each.max)
        ]
        there = [each for each in told if each.has_min_max]
        if (
            not there
            or None in bounds
            or any(each.num_values and not each.has_min_max for each in told)
        ):
            continue
        least[name] = _told(min(each.min for each in there))
        greatest[name] = _told(max(each.max for each in there))
    return {"minValues": least, "maxValues": greatest, "nullCount": nulls}


def _told(value: object) -> int | str | None:
    """Return a bound in the format of Delta's statistics, or None for a value that gets none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT and value.isascii() else None
    # Delta expects bounds to be truncated to milliseconds.
    if isinstance(value, datetime):
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    if isinstance(value, date):
        return value.isoformat()
    return None
