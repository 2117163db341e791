"""Reads rows of a Delta table on a local disk without Spark, and orders them as Spark does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstorm_pipeline.local_log import NeedsSparkError, local_table, local_tables, read_log
from kstorm_pipeline.spark_json import IS_VARIANT, json_of
from kstorm_pipeline.spark_variant import VARIANT
from kstorm_pipeline.table_names import no_such_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstorm_pipeline.local_log import LocalLog

_TYPES: Final = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_BATCH: Final = 16_384
_NO_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


def local_summary(root: str) -> dict[str, int]:
    """Return the number of rows of every table. Raises NeedsSparkError if only Spark can."""
    return {name: read_log(Path(root, name)).rows() for name in local_tables(root)}


def local_show(root: str, name: str, n: int, by: str | None = None) -> list[str]:
    """Return `n` rows of a table as lines of JSON, with `by` those with the greatest values.

    Raises NeedsSparkError if only Spark can.
    """
    log = local_table(root, name)
    schema = pa.schema([_arrow_field(each) for each in log.schema])
    if by is not None and by not in schema.names:
        raise no_such_column(name, by, schema.names)
    try:
        rows = _first(log, schema, n) if by is None else _greatest(log, schema, n, by)
        return [f"{json_of(row, schema)}\n" for row in rows.to_pylist(maps_as_pydicts=None)]
    except (OSError, ValueError, OverflowError, pa.ArrowException) as error:
        raise NeedsSparkError(f"{log.folder} cannot be read: {error}") from error


def _first(log: LocalLog, schema: pa.Schema, n: int) -> pa.Table:
    found, missing = [], n
    for batch in _batches(log, schema):
        found.append(batch.slice(0, missing))
        missing -= found[-1].num_rows
        if not missing:
            break
    return pa.Table.from_batches(found, schema)


def _greatest(log: LocalLog, schema: pa.Schema, n: int, by: str) -> pa.Table:
    """Return the rows with the greatest values, and among equal ones by the text columns.

    For Spark, nulls are less than any value, and NaN is the greatest number.
    """
    if pa.types.is_nested(schema.field(by).type):
        raise NeedsSparkError(f"the column {by} has fields")
    texts = [each.name for each in schema if pa.types.is_string(each.type)]
    best = schema.empty_table()
    for batch in _batches(log, schema):
        rows = pa.concat_tables([best, pa.Table.from_batches([batch])])
        best = rows.take(_order(rows, by, texts).slice(0, n)).combine_chunks()
    return best


def _order(rows: pa.Table, by: str, texts: list[str]) -> pa.Array:
    keys: list[tuple[Any, str]] = [(pc.is_valid(rows[by]), "descending")]
    if pa.types.is_floating(rows[by].type):
        keys.append((pc.is_nan(rows[by]), "descending"))
    keys.append((rows[by], "descending"))
    for text in texts:
        keys += [(pc.is_valid(rows[text]), "ascending"), (rows[text], "ascending")]
    names = [str(number) for number in range(len(keys))]
    return pc.sort_indices(
        pa.table([key for key, _ in keys], names),
        sort_keys=[(name, order) for name, (_, order) in zip(names, keys, strict=True)],
    )


def _batches(log: LocalLog, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Spark also reads large files first.
    for add in sorted(log.files.values(), key=lambda each: -int(each["size"])):
        if add.get("deletionVector"):
            raise NeedsSparkError(f"{log.folder} has deletion vectors")
        constants = dict(add.get("partitionValues") or {})
        file = pq.ParquetFile(log.place(add), coerce_int96_timestamp_unit="us")
        there = [
            name
            for name in schema.names
            if name in file.schema_arrow.names and name not in constants
        ]
        for batch in file.iter_batches(_BATCH, columns=there):
            yield pa.RecordBatch.from_arrays(
                [
                    _cast(batch.column(each.name), each.type)
                    if each.name in there
                    else _constant(constants.get(each.name), each.type, batch.num_rows)
                    for each in schema
                ],
                schema=schema,
            )


def _cast(column: pa.Array, to: pa.DataType) -> pa.Array:
    return column if column.type == to else column.cast(to)


def _constant(text: str | None, of: pa.DataType, rows: int) -> pa.Array:
    """Return the column of a file's partition, or of a column that the file does not have."""
    if text in (None, "", _NO_PARTITION):
        return pa.nulls(rows, of)
    if not (pa.types.is_integer(of) or pa.types.is_string(of)):
        raise NeedsSparkError(f"the tables are partitioned by a {of}")
    return pa.array([text]).cast(of).take(pa.array([0] * rows, pa.int32()))


def _arrow_field(column: dict[str, Any]) -> pa.Field:
    if column["type"] == "variant":
        return pa.field(column["name"], VARIANT, metadata=IS_VARIANT)
    return pa.field(column["name"], _arrow_type(column["type"]))


def _arrow_type(of: Any) -> pa.DataType:
    """Return Arrow's type for one in Delta's notation."""
    if isinstance(of, str) and of.startswith("decimal("):
        precision, scale = of.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    if isinstance(of, str) and of in _TYPES:
        return _TYPES[of]
    if isinstance(of, dict) and of["type"] == "struct":
        return pa.struct([(each["name"], _arrow_type(each["type"])) for each in of["fields"]])
    if isinstance(of, dict) and of["type"] == "array":
        return pa.list_(_arrow_type(of["elementType"]))
    if isinstance(of, dict) and of["type"] == "map" and of["keyType"] == "string":
        return pa.map_(pa.string(), _arrow_type(of["valueType"]))
    raise NeedsSparkError(f"a column has the type {of}")
