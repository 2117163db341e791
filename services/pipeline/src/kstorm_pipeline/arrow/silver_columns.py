"""Builds the columns that silver has for every record, such as its name. See `occurrences`."""

from __future__ import annotations

import json
import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstorm_pipeline.arrow.columns import MOMENT
from kstorm_pipeline.arrow.record_layout import DoubtfulError
from kstorm_pipeline.lineage import BUCKETS, LAST_MILLISECOND, LINEAGE, bucket_of

BUCKET: Final = "source_bucket"
_NUMBER: Final = r"\A[0-9]{1,18}\z"
_NAME: Final = (
    r"\A(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,9})-(?P<offset>[0-9]{1,18})-[^-]+\z"
)
_TO_BE_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\\x7f-\x9f\u2028\u2029]')


def name_rows(bronze: pa.Table, identity: list[pa.Array]) -> dict[str, pa.Array]:
    """Return the columns, given rows of bronze and the identity columns. Raises `DoubtfulError`."""
    occurrence = _occurrences(bronze["headers"].combine_chunks(), identity, bronze.num_rows)
    at = bronze["timestamp"].combine_chunks().cast(MOMENT)
    # Kafka writes -1 for a record without a timestamp.
    at = pc.if_else(pc.less(at.cast(pa.int64()), 0), pa.scalar(None, MOMENT), at)
    if (pc.max(at.cast(pa.int64())).as_py() or 0) // 1000 > LAST_MILLISECOND:
        raise DoubtfulError("a Kafka timestamp is after the year 9999")
    return {
        "occurrence": occurrence,
        "kafka_partition": bronze["partition"].combine_chunks(),
        "kafka_offset": bronze["offset"].combine_chunks(),
        "kafka_timestamp": at,
        **sources_of(occurrence),
    }


def text_of(keys: pa.Array) -> pa.Array:
    """Decode bytes as UTF-8. Raises `DoubtfulError` if some are invalid."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        raise DoubtfulError("bytes are not UTF-8") from None


def _occurrences(headers: pa.Array, identity: list[pa.Array], rows: int) -> pa.Array:
    lineage = _lineage(headers, rows)
    declared = _declared(identity) if identity else pa.nulls(rows, pa.string())
    found = declared if lineage is None else pc.coalesce(lineage, declared)
    if identity and (found.null_count or pc.any(pc.equal(found, "")).as_py()):
        raise DoubtfulError("a record has no name")
    return found


def _lineage(headers: pa.Array, rows: int) -> pa.Array | None:
    """Return the names from headers: null for a record without a lineage, None if no record has
    any."""
    if headers.null_count == rows:
        return None
    places, parts = headers.flatten(), headers.value_parent_indices()
    keys, values = places.field("key"), places.field("value")
    found = [_first_of(keys, values, parts, name, rows) for name in LINEAGE]
    if all(each.null_count == rows for each in found):
        return None
    there = [each.is_valid().to_numpy(zero_copy_only=False) for each in found]
    if not all(np.array_equal(there[0], each) for each in there):
        raise DoubtfulError("a record has only a part of the lineage in its headers")
    topic, partition, offset, part = found
    whole = (pc.match_substring_regex(each, _NUMBER) for each in (partition, offset))
    told = (pc.greater(pc.binary_length(each), 0) for each in (topic, part))
    if not all(pc.all(each).as_py() for each in (*whole, *told)):
        raise DoubtfulError("the lineage in headers has an unexpected form")
    return pc.binary_join_element_wise(topic, partition, offset, part, "-")


def _first_of(
    keys: pa.Array, values: pa.Array, rows_of: pa.Array, name: str, rows: int
) -> pa.Array:
    """Return, for each row, the text of its first header with that name."""
    there = np.flatnonzero(pc.fill_null(pc.equal(keys, name), False).to_numpy(zero_copy_only=False))
    owners, first = np.unique(rows_of.to_numpy(zero_copy_only=False)[there], return_index=True)
    place = np.full(rows, -1, dtype=np.int64)
    place[owners] = there[first]
    taken = values.take(pa.array(place, mask=place < 0))
    if taken.null_count > rows - len(owners):
        raise DoubtfulError("a header of the lineage is null")
    return text_of(taken)


def _declared(identity: list[pa.Array]) -> pa.Array:
    """Return the text of a single column, or a list of several as Spark writes it in JSON."""
    texts = [each.cast(pa.string()) for each in identity]
    if len(texts) == 1:
        return texts[0]
    if any(each.null_count for each in texts):
        raise DoubtfulError("a record lacks a part of its name")
    rows = zip(*(each.to_pylist() for each in texts), strict=True)
    return pa.array([_listed(row) for row in rows], pa.string())


def _listed(row: tuple[str, ...]) -> str:
    if not all(row) or any(_TO_BE_ESCAPED.search(each) for each in row):
        raise DoubtfulError("a part of a name is empty, or has a character that JSON escapes")
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def sources_of(occurrence: pa.Array) -> dict[str, pa.Array]:
    """Return the coordinates of the source messages, or null if a name does not contain them."""
    parts = pc.extract_regex(occurrence, _NAME)
    topic, partition, offset = (
        pc.struct_field(parts, name) for name in ("topic", "partition", "offset")
    )
    partition, offset = partition.cast(pa.int32()), offset.cast(pa.int64())
    known = topic.dictionary_encode()
    first = pa.array([bucket_of(each, 0) for each in known.dictionary.to_pylist()], pa.int64())
    bucket = pc.add(first.take(known.indices), partition.cast(pa.int64()))
    bucket = pc.bit_wise_and(bucket, BUCKETS - 1).cast(pa.int32())
    return {
        "source_topic": topic,
        "source_partition": partition,
        "source_offset": offset,
        BUCKET: bucket,
    }
