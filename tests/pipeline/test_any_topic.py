"""A topic without a declaration."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, bytes_records, text_records
from kstorm_pipeline.row_reading import read_rows
from kstorm_pipeline.run import run
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.topic import Topic, bronze

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

NESTED = {"customer": "Zoë", "items": [{"sku": "a", "price": 1.50}], "note": None}


@pytest.mark.slow
def test_undeclared_topic_gets_tables(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """Bronze and silver have every record. Replays are dropped if headers identify them, and equal
    records are kept otherwise. A second run adds nothing."""
    topic, tables, pipeline = Topic(settings.bootstrap_servers), Tables(str(tmp_path)), Pipeline()
    own = replace(settings, tables=tables.root, topic=topic.topic)
    for value in (json.dumps(NESTED), "plain, text", b"\xff\x00", None, "7", "7"):
        topic.put(value, key="k")
    topic.put("again", lineage="lines-0-3-0")
    topic.put("once more", lineage="lines-0-3-0", partition=1)
    topic.put("7", key=b"\xfe")
    topic.flush()
    for _ in range(2):
        run(spark, own, tables, pipeline)
        assert tables.names(spark) == ["bronze", "silver", "quarantine"]
        assert tables.count(spark, "bronze") == 9
        assert tables.count(spark, "quarantine") == 0
        silver = tables.read(spark, "silver")
        found = {row.kafka_offset: row for row in silver.where("kafka_partition = 0").collect()}
        assert [found[offset].value and found[offset].value.toPython() for offset in range(6)] == [
            NESTED,
            "plain, text",
            b"\xff\x00",
            None,
            7,
            7,
        ]
        assert [found[offset].key for offset in range(8)] == [*"kkkkkk", None, None]
        assert [row.occurrence for row in silver.where("source_offset = 3").collect()] == [
            "lines-0-3-0"
        ]
        assert silver.count() == 8
    topic.put("late", lineage="lines-0-3-0")
    topic.put("new", lineage="lines-0-4-0")
    topic.flush()
    run(spark, own, tables, pipeline)
    assert tables.count(spark, "silver") == 9
    prices = tables.read(spark, "silver").select(
        sf.try_variant_get("value", "$.items[0].price", "decimal(9,2)")
    )
    assert [str(row[0]) for row in prices.collect() if row[0] is not None] == ["1.50"]


def values_of(rows: DataFrame) -> list[object]:
    """Return the column `value` in the order of offsets."""
    return [row.value for row in rows.orderBy("kafka_offset").collect()]


@pytest.mark.slow
def test_values_are_json_or_text(spark: SparkSession) -> None:
    """A value that is exactly one JSON value is JSON. Any other UTF-8 is unchanged text."""
    texts = [
        '{"a": 1}',
        '{"a": 1} {"a": 2}',
        '{"a": 1}, 2',
        '"quoted"',
        "not quoted",
        "",
        " ",
        "null",
        "[1, 2]",
        '{"a": 1',
    ]
    found = values_of(read_rows(Pipeline(), bronze(spark, [text.encode() for text in texts])))
    python = [value.toPython() for value in found]  # type: ignore[attr-defined]
    assert python == [
        {"a": 1},
        '{"a": 1} {"a": 2}',
        '{"a": 1}, 2',
        "quoted",
        "not quoted",
        "",
        " ",
        None,
        [1, 2],
        '{"a": 1',
    ]


@pytest.mark.slow
def test_a_value_that_is_too_large_for_a_variant_is_quarantined(spark: SparkSession) -> None:
    """With its size in the reason. The next record is read."""
    rows = read_rows(Pipeline(), bronze(spark, [b"x" * 16_000_001, b"x" * 16_000_000])).orderBy(
        "kafka_offset"
    )
    assert [row.reason for row in rows.select("reason").collect()] == [
        "the value is too large for a VARIANT: 16000001 bytes",
        None,
    ]


@pytest.mark.slow
def test_declared_text_and_bytes_are_unchanged(spark: SparkSession) -> None:
    """In columns of their own type. A value that is not text is quarantined."""
    values = [b"\xc3\xa4", b"\xff", None]
    text = read_rows(Pipeline(records=text_records()), bronze(spark, values, key=b"k"))
    assert values_of(text) == ["ä", None, None]
    assert [row.reason for row in text.orderBy("kafka_offset").collect()] == [
        None,
        "the value is not UTF-8",
        None,
    ]
    taken = read_rows(Pipeline(records=bytes_records()), bronze(spark, values, key=b"\xfe"))
    assert values_of(taken) == values
    assert {bytes(row.key) for row in taken.collect()} == {b"\xfe"}
