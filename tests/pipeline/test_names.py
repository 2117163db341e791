"""Names of fields and columns: each becomes a column, or is refused at the start with the remedy."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import (
    Pipeline,
    PipelineError,
    any_records,
    avro_records,
    json_records,
    json_schema_records,
    text_records,
)
from kstorm_pipeline.ddl import quoted, spare
from kstorm_pipeline.row_reading import read_rows
from kstorm_pipeline.run import run
from kstorm_pipeline.schemas import find_schemas
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.registered import begun
from tests.pipeline.topic import Topic, bronze
from tests.registry_stub import RegistryStub

pytestmark = pytest.mark.timeout(900)

INNER = (
    "__topic",
    "__partition",
    "__offset",
    "__part",
    "__lineage",
    "__headers",
    "__json",
    "__bytes",
)
"""Names that the pipeline has used for temporary columns."""
ODD = (
    *INNER,
    "__text",
    "__large",
    "__read",
    "__replay",
    "__newest",
    "a.b",
    "x-y",
    "it's",
    'q"q',
    "b`t",
    "ключ",
    "a:b",
    "[0]",
    "$",
    "1",
)


def columns(*names: str) -> str:
    return ", ".join(f"{name} STRING" for name in quoted(names))


@pytest.mark.slow
def test_fields_with_odd_names_reach_the_tables(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """From the topic to silver and gold, with an identity and `without` of such names."""
    topic, tables = Topic(settings.bootstrap_servers), Tables(str(tmp_path))
    own = replace(settings, tables=tables.root, topic=topic.topic)
    pipeline = Pipeline(
        records=json_records(
            f"{columns(*ODD)}, `id.x` STRING, s STRUCT<`a.b`: INT, `x-y`: STRING>"
        ),
        identity="id.x",
        without="id.x",
    )

    @pipeline.gold(
        "odd", keys=["a.b"], add=["__topic"], latest=["__newest", "b`t"], distinct={"x-y_n": "x-y"}
    )
    def odd(fresh: DataFrame) -> DataFrame:
        return fresh.withColumn("__topic", sf.lit(1))

    for number in (1, 2, 2):
        value = {name: f"{name} {number}" for name in ODD} | {"a.b": "k"}
        topic.put(json.dumps({**value, "id.x": f"i{number}", "s": {"a.b": number, "x-y": "v"}}))
    topic.flush()
    run(spark, own, tables, pipeline)
    assert tables.count(spark, "quarantine") == 0
    rows = tables.read(spark, "silver").orderBy("kafka_offset").collect()
    assert len(rows) == 2
    for number, row in enumerate(rows, 1):
        assert {name: row[name] for name in ODD if name != "a.b"} == {
            name: f"{name} {number}" for name in ODD if name != "a.b"
        }
        assert (row.occurrence, tuple(row.s)) == (f"i{number}", (number, "v"))
    (row,) = tables.read(spark, "odd").collect()
    assert (row["a.b"], row["__topic"], row["b`t"], row["x-y_n"]) == ("k", 2, "b`t 2", 2)


def test_fields_may_have_other_names_than_columns(spark: SparkSession) -> None:
    """At the top and within a STRUCT, for both readers."""
    records = json_records(
        "zip_code STRING, a_reason STRING NOT NULL, upper INT, lower INT, s STRUCT<street_name: STRING>",
        fields={
            "zip_code": "zip code",
            "a_reason": "reason",
            "upper": "N",
            "lower": "n",
            "s.street_name": "street, name",
        },
    )
    value = {"zip code": "1", "reason": "r", "N": 1, "n": 2, "s": {"street, name": "Elm"}}
    good, bad = (
        read_rows(
            Pipeline(records=records),
            bronze(spark, [json.dumps(value).encode(), b'{"a_reason": "x"}']),
        )
        .orderBy("kafka_offset")
        .collect()
    )
    assert good.reason is None
    assert (good.zip_code, good.a_reason, good.upper, good.lower, good.s.street_name) == (
        "1",
        "r",
        1,
        2,
        "Elm",
    )
    assert bad.reason == "field reason is missing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            lambda: json_records("`a b` STRING"),
            r"silver would have the column 'a b', but Delta .* ' ' .*fields=",
        ),
        (
            lambda: json_records("s STRUCT<`a,b`: INT>"),
            r"the column 's.a,b', but Delta .* ',' .*fields=",
        ),
        (
            lambda: json_records("s ARRAY<STRUCT<`a=b`: INT>>"),
            "the column 's.a=b', but Delta .* '='",
        ),
        (lambda: json_records("m MAP<STRING, STRUCT<`(`: INT>>"), r"the column 'm.\(', but Delta"),
        (
            lambda: json_records("a INT, A INT"),
            "columns 'a' and 'A', which are the same name.*fields=",
        ),
        (
            lambda: json_records("a STRUCT<x: INT, X: INT>"),
            "columns 'a.x' and 'a.X', which are the same",
        ),
        (lambda: json_records("a INT, a INT"), "columns 'a' and 'a', which are the same name"),
        (lambda: json_records("s STRUCT<>"), r"'s' without fields \(STRUCT<>\).* VARIANT"),
        (lambda: json_records("Record INT"), "cannot have a column 'Record'.*fields="),
        (
            lambda: json_records("Batch INT"),
            "have a column 'Batch', but silver has its own.*fields=",
        ),
        (lambda: json_records("k STRING", key="K"), "key='K' is also the name of the column 'k'"),
        (lambda: json_records("k STRING", key="reason"), "key='reason' is also the name"),
        (
            lambda: json_records("k INT", fields={"q": "x"}),
            "fields= names the column 'q', which is not",
        ),
        (lambda: json_records("k INT", millis="k"), "millis has 'k', which is not a TIMESTAMP"),
        (lambda: json_records("k INT", millis="q"), "millis has 'q', which is not a TIMESTAMP"),
        (
            lambda: json_records("m MAP<INT, INT>"),
            "'m' of the type map<int,int>: .*keys of the type STRING",
        ),
        (
            lambda: json_records("v VARCHAR(3)"),
            r"'v' of the type varchar\(3\): declare it as STRING",
        ),
    ],
)
def test_unusable_declaration_is_refused_at_the_start(
    spark: SparkSession, records: Any, message: str
) -> None:
    """In one line, with the remedy."""
    with pytest.raises(PipelineError, match=message) as error:
        find_schemas(spark, Pipeline(records=records()))
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_names_of_other_columns_are_checked_too(spark: SparkSession, settings: Settings) -> None:
    """They come from a silver function, a gold table, or a registry's schema."""
    pipeline = Pipeline(records=json_records("a STRING"))
    pipeline.silver(lambda rows: rows.withColumn("b c", sf.lit(1)))
    with pytest.raises(PipelineError, match="silver would have the column 'b c'"):
        find_schemas(spark, pipeline)
    pipeline = Pipeline(records=json_records("a STRING"))
    pipeline.gold("g", keys=["b c"], add=["n"])(
        lambda rows: rows.withColumns({"b c": sf.lit(1), "n": sf.lit(1)})
    )
    with pytest.raises(PipelineError, match="the gold table 'g' would have the column 'b c'"):
        find_schemas(spark, pipeline)
    schema = json.dumps({"type": "object", "properties": {"zip code": {"type": "string"}}})
    with RegistryStub() as stub:
        with pytest.raises(PipelineError, match=r"'zip code', but Delta .* columns= .* fields="):
            find_schemas(spark, begun(json_schema_records(schema=schema), settings, stub))
        avro = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
        with pytest.raises(PipelineError, match="key='A' is also the name of the column 'a'"):
            find_schemas(
                spark, begun(avro_records(schema=json.dumps(avro), key="A"), settings, stub)
            )


def test_temporary_names_avoid_given_ones() -> None:
    assert spare(["a", "__READ", "___read"], "read") == "____read"
    assert spare([], "read") == "__read"


@pytest.mark.slow
def test_key_that_is_not_text_is_quarantined(spark: SparkSession) -> None:
    """If a column is declared for it. Any topic's reader has null there, as documented."""
    for records, reason in (
        (json_records("a INT", key="k"), "the key is not UTF-8"),
        (text_records(), "the key is not UTF-8"),
        (any_records(), None),
    ):
        (row,) = read_rows(Pipeline(records=records), bronze(spark, [b"{}"], key=b"\xff")).collect()
        assert row.reason == reason
