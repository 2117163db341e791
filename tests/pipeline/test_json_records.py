"""JSON by columns: accepted values, and reasons for the others."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, PipelineError, json_records
from kstorm_pipeline.row_reading import read_rows
from kstorm_pipeline.schemas import find_schemas
from tests.pipeline.topic import bronze

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

COLUMNS = """
    customer STRING NOT NULL, amount DECIMAL(18,2), at TIMESTAMP, day DATE, paid BOOLEAN, weight DOUBLE, pieces INT,
    address STRUCT<city: STRING, zip: STRING>, tags ARRAY<STRING>, counts MAP<STRING, BIGINT>, blob BINARY, rest VARIANT
"""
WHOLE = {
    "customer": "Zoë",
    "amount": "12345678901234.56",
    "at": "2026-11-23T04:05:06.789Z",
    "day": "2026-11-23",
    "paid": True,
    "weight": 1,
    "pieces": 3,
    "address": {"city": "Kiel", "zip": None, "more": 1},
    "tags": ["a", None],
    "counts": {"x": 1},
    "blob": "AP8=",
    "rest": {"any": [1, "two"]},
    "unknown": 1,
}


def read(spark: SparkSession, columns: str, *values: Any, **options: Any) -> list[Any]:
    """Return the rows of JSON values, in order."""
    pipeline = Pipeline(records=json_records(columns, **options))
    return read_rows(
        pipeline, bronze(spark, [json.dumps(value).encode() for value in values])
    ).collect()


@pytest.mark.slow
def test_field_may_have_any_name_except_two(spark: SparkSession) -> None:
    """Names that the reader uses internally are allowed too."""
    names = ["text", "json", "large", "partition", "lineage", "field_text", "a b", "ключ"]
    columns = ", ".join(f"`{name}` STRING" for name in names)
    (row,) = read(spark, columns, {name: f"the {name}" for name in names})
    assert row.reason is None
    assert [row[name] for name in names] == [f"the {name}" for name in names]
    for name in ("record", "Reason"):
        with pytest.raises(PipelineError, match=f"cannot have a column '{name}'"):
            read(spark, f"{name} STRING", {})


def test_every_column_type(spark: SparkSession) -> None:
    """Decimals keep their digits, nested values their nulls, times their zone. Undeclared fields
    are ignored."""
    (row,) = read(spark, COLUMNS, WHOLE)
    assert row.reason is None
    assert (row.customer, row.amount, row.paid, row.weight, row.pieces) == (
        "Zoë",
        Decimal("12345678901234.56"),
        True,
        1.0,
        3,
    )
    assert row["at"].astimezone(UTC) == datetime(2026, 11, 23, 4, 5, 6, 789000, UTC)
    assert row.day == date(2026, 11, 23)
    assert (row.address.asDict(), row.tags, row.counts) == (
        {"city": "Kiel", "zip": None},
        ["a", None],
        {"x": 1},
    )
    assert bytes(row.blob) == b"\x00\xff"
    assert row.rest.toPython() == {"any": [1, "two"]}


@pytest.mark.slow
def test_null_or_missing_field_is_null_unless_not_null(spark: SparkSession) -> None:
    empty, nulls, nobody = read(
        spark, COLUMNS, {"customer": "a"}, {**dict.fromkeys(WHOLE), "customer": "a"}, {}
    )
    for row in (empty, nulls):
        assert row.reason is None
        assert [row[name] for name in WHOLE if name not in ("customer", "unknown", "rest")] == [
            None
        ] * 10
    assert nobody.reason == "field customer is missing"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("customer", None, "field customer is not a string but VOID"),
        ("customer", 7, "field customer is not a string but BIGINT"),
        ("amount", True, "field amount is not a number but BOOLEAN"),
        ("amount", "much", "field amount does not fit DECIMAL(18,2): STRING"),
        ("amount", 1.005, "field amount does not fit DECIMAL(18,2): DECIMAL(4,3)"),
        ("amount", 10**17, "field amount does not fit DECIMAL(18,2): BIGINT"),
        ("at", 1700000000000, "field at is not a time as text but BIGINT"),
        ("at", "noon", "field at does not fit TIMESTAMP: STRING"),
        ("at", "12026-01-01T00:00:00Z", "field at does not fit TIMESTAMP: STRING"),
        ("day", "10000-01-01", "field day does not fit DATE: STRING"),
        ("day", "2026-02-30", "field day does not fit DATE: STRING"),
        ("paid", "true", "field paid is not true or false but STRING"),
        ("weight", "1.5", "field weight is not a number but STRING"),
        ("pieces", 2**31, "field pieces does not fit INT: BIGINT"),
        ("pieces", 1.5, "field pieces is not a whole number of 64 bits but DECIMAL(2,1)"),
        ("address", "Kiel", "field address is not an object but STRING"),
        ("tags", {}, "field tags is not a list but OBJECT<>"),
        (
            "counts",
            {"x": "many"},
            "field counts does not fit MAP<STRING,BIGINT>: OBJECT<x: STRING>",
        ),
        (
            "address",
            {"zip": 24103},
            "field address does not fit STRUCT<CITY:STRING,ZIP:STRING>: OBJECT<zip: BIGINT>",
        ),
        ("tags", ["a", 1], "field tags does not fit ARRAY<STRING>: ARRAY<VARIANT>"),
        ("blob", "?", "field blob does not fit BINARY: STRING"),
    ],
)
def test_unfit_value_has_a_reason(
    spark: SparkSession, field: str, value: object, reason: str
) -> None:
    """No cast changes a value, no decimal is rounded, and nothing raises."""
    (row,) = read(spark, COLUMNS, {**WHOLE, field: value})
    assert row.reason == reason


@pytest.mark.slow
def test_reject_conditions(spark: SparkSession) -> None:
    """Each has its reason, after those of the types. Null is not rejected."""
    reject = {"the amount is negative": "amount < 0"}
    found = read(
        spark,
        "amount DECIMAL(9,2)",
        {"amount": -1},
        {"amount": 1},
        {},
        {"amount": "x"},
        reject=reject,
    )
    assert [row.reason for row in found] == [
        "the amount is negative",
        None,
        None,
        "field amount does not fit DECIMAL(9,2): STRING",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (Pipeline(records=json_records("customer STRNG")), "the pipeline is invalid: .*STRNG"),
        (
            Pipeline(records=json_records("a STRING"), identity="b"),
            "identity names 'b', which is not a column",
        ),
        (
            Pipeline(records=json_records("a STRING", reject={"odd": "b > 1"})),
            "the pipeline is invalid: .*`b`",
        ),
    ],
)
def test_invalid_pipeline_is_refused_in_one_line(
    spark: SparkSession, pipeline: Pipeline, message: str
) -> None:
    """Before anything is written."""
    with pytest.raises(PipelineError, match=message) as error:
        find_schemas(spark, pipeline)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["batch", "replay", "Occurrence", "source_topic"])
def test_field_with_the_name_of_a_silver_column_is_refused(spark: SparkSession, name: str) -> None:
    """In any case. Otherwise silver's own column would silently replace it."""
    with pytest.raises(PipelineError, match=f"have a column '{name}', but silver has its own"):
        find_schemas(spark, Pipeline(records=json_records(f"customer STRING, {name} STRING")))
    pipeline = Pipeline(records=json_records("customer STRING"))
    pipeline.silver(lambda rows: rows.withColumn("Batch", sf.lit(1)))
    with pytest.raises(PipelineError, match="the silver function <lambda> have a column 'Batch'"):
        find_schemas(spark, pipeline)
