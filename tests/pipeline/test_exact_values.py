"""A value fits its column exactly, or its record is quarantined: generated values of each type.

The readers of Spark, Python and the registry are compared with `exact_values`.
"""

import struct
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, json_records
from kstorm_pipeline.arrow.columns import column_of, read_objects
from kstorm_pipeline.arrow.layout_choice import layout_of
from kstorm_pipeline.arrow.record_layout import DoubtfulError
from kstorm_pipeline.ddl import columns_of
from kstorm_pipeline.exact_json import Reader
from kstorm_pipeline.exact_types import Columns
from kstorm_pipeline.row_reading import read_rows
from tests.pipeline.exact_values import BAD, TYPES, read, tokens
from tests.pipeline.topic import bronze

pytestmark = pytest.mark.timeout(900)

CASES = 700
"""Values of each type."""
COLUMNS = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())


def cases(count: int = CASES, seed: int = 0) -> list[tuple[str, str]]:
    """Return pairs of a column and a JSON token for it."""
    return [(name, token) for name, kind in TYPES.items() for token in tokens(kind, count, seed)]


def plain(value: Any) -> Any:
    """Return a column's value as the independent reading has it."""
    if isinstance(value, Decimal):
        return Fraction(value)
    if isinstance(value, datetime):
        whole = (value if value.tzinfo else value.replace(tzinfo=UTC)) - datetime(
            1970, 1, 1, tzinfo=UTC
        )
        return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    return bytes(value) if isinstance(value, bytearray) else value


def same(one: Any, other: Any) -> bool:
    """Return True for equal values of one type. Zeros differ by their sign."""
    if isinstance(one, float):
        return isinstance(other, float) and struct.pack("d", one) == struct.pack("d", other)
    return bool(one == other)


def with_micros(rows: DataFrame) -> DataFrame:
    """Return the rows with times in microseconds, because Python converts them to local times."""
    local = sf.to_timestamp(sf.col("w").cast("string"))
    return rows.withColumns({"a": sf.unix_micros("a"), "w": sf.unix_micros(local)})


def check(found: list[tuple[str, str, str | None, Any]], least: int) -> None:
    """Compare readings: column, token, reason, value."""
    counts = Counter[tuple[str, bool]]()
    for name, token, reason, value in found:
        expected = read(TYPES[name], token)
        assert (reason is not None) == (expected is BAD), (TYPES[name], token, reason, value)
        if reason is None:
            assert same(plain(value), expected), (TYPES[name], token, value, expected)
        counts[name, reason is None] += 1
    for name in TYPES:
        assert min(counts[name, True], counts[name, False]) >= least, (name, counts)


def test_spark_reads_values_exactly(spark: SparkSession) -> None:
    """9,800 records, of which each has one field. Each is right, or has a reason that names it."""
    given = cases()
    assert len(given) == 9_800
    values = [f'{{"{name}":{token}}}'.encode() for name, token in given]
    rows = read_rows(Pipeline(records=json_records(COLUMNS)), bronze(spark, values))
    found = with_micros(rows.drop("record")).orderBy("kafka_offset").collect()
    read_by_spark = [
        (name, token, row.reason, row[name])
        for (name, token), row in zip(given, found, strict=True)
    ]
    check(read_by_spark, 20)
    assert all(
        reason is None or reason.startswith(f"field {name} ")
        for name, _, reason, _ in read_by_spark
    )


def test_exact_reader_reads_values_exactly(spark: SparkSession) -> None:
    """The function that Spark's workers run, on 42,000 other values."""
    fields = Columns(columns_of(COLUMNS))._fields
    reader, found = Reader(fields), []
    for name, token in cases(3_000, seed=1):
        reason, row = reader.read(f'{{"{name}":{token}}}'.encode())
        found.append((name, token, reason, None if row is None else row[list(TYPES).index(name)]))
    assert len(found) == 42_000
    check(found, 100)


def test_python_reads_values_exactly(spark: SparkSession) -> None:
    """The fast path leaves a record to Spark, or reads the same. 30,000 values."""
    names = [
        name
        for name in TYPES
        if TYPES[name] not in ("FLOAT", "DECIMAL(38,18)", "BINARY", "TIMESTAMP_NTZ")
    ]
    names.remove("h")
    columns = ", ".join(f"{name} {TYPES[name]}" for name in [*names, "h"])
    shape = layout_of(spark, Pipeline(records=json_records(columns)))
    assert shape is not None
    fields, accepted, tried = {each.name: each for each in shape.fields}, Counter[str](), 0
    for name, token in cases(3_000, seed=2):
        if name not in fields:
            continue
        tried += 1
        text = f'{{"{name}":{token}}}'.encode()
        try:
            (value,) = column_of(fields[name], read_objects([text]), [text]).to_pylist()
        except DoubtfulError:
            continue
        expected = read(TYPES[name], token)
        assert expected is not BAD, (TYPES[name], token, value)
        assert same(plain(value), expected), (TYPES[name], token, value, expected)
        accepted[name] += 1
    assert tried == 30_000
    assert min(accepted[name] for name in fields) >= 100, accepted
