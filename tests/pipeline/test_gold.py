"""Declared gold tables: each rule, with any distribution of records over batches, and crashes after
any commit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import BatchId, Pipeline, PipelineError, json_records
from kstorm_pipeline.gold import merge
from kstorm_pipeline.gold_rows import gather
from kstorm_pipeline.schemas import find_schemas
from kstorm_pipeline.tables import Tables
from tests.pipeline.breaking import break_off_after_each
from tests.pipeline.orders import COLUMNS, Orders, orders_pipeline
from tests.pipeline.topic import DAY

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

PLACE_COLUMNS = """
    kafka_partition INT, kafka_offset BIGINT, kafka_timestamp TIMESTAMP,
    source_topic STRING, source_partition INT, source_offset BIGINT
"""


def test_rules_combine_rows_and_batches(spark: SparkSession, tmp_path: Path) -> None:
    """Every rule, against plain Python: within a batch, across batches, with nulls and a null key.
    A repeated batch and a late message change nothing that they must not."""
    pipeline = Pipeline()

    @pipeline.gold(
        "totals",
        keys=["k"],
        add=["n"],
        min=["low"],
        max=["high"],
        latest=["status"],
        replace=["length"],
        distinct={"values": "n"},
    )
    def totals(rows: DataFrame) -> DataFrame:
        more = {"low": sf.col("n"), "high": sf.col("n"), "length": sf.length("k")}
        return rows.withColumns(more)

    gold, tables = pipeline.golds["totals"], Tables(str(tmp_path))
    columns = f"k STRING, n INT, status STRING, {PLACE_COLUMNS}"
    tables.create(
        spark, {"totals": gather(gold, totals(spark.createDataFrame([], columns))).schema}
    )
    batches: list[list[tuple[Any, ...]]] = [
        [("a", 3, "new", 7), ("a", 4, "paid", 5), (None, 1, "x", 1), ("b", None, "y", 2)],
        [("a", -9, "late", 6), (None, 2, "z", 8), ("c", 5, "new", 9), ("c", 5, "sent", 10)],
    ]
    for number, batch in [(0, batches[0]), (1, batches[1]), (1, batches[1])]:
        rows = [(k, n, status, 0, at, DAY, "t", 0, at) for k, n, status, at in batch]
        made = spark.createDataFrame(rows, columns)
        merge(spark, tables.path("totals"), gold, made, BatchId("query", number))
    expected: dict[str | None, tuple[Any, ...]] = {}
    for key in ("a", "b", "c", None):
        of = [row for batch in batches for row in batch if row[0] == key]
        known = [row[1] for row in of if row[1] is not None]
        some = (sum(known), min(known), max(known)) if known else (None, None, None)
        last = max(of, key=lambda row: row[3])[2]
        expected[key] = (*some, last, None if key is None else 1, len(set(known)))
    names = ("n", "low", "high", "status", "length", "values")
    found = tables.read(spark, "totals").collect()
    assert {row.k: tuple(row[name] for name in names) for row in found} == expected
    assert len(found) == 4


@pytest.mark.long
def test_late_message_does_not_replace_a_newer_value(orders: Orders) -> None:
    """Its first record is written after those of later messages, in the same or a later batch.
    Between two source partitions, the Kafka timestamp decides."""
    for late in (False, True):
        orders.put("0-7", "Zoë", "1", "of 0-7", 7)
        orders.put("0-6", "Zoë", "1", "of 0-6", 9)
        orders.put("0-2", "Ann", "1", "of 0-2", 1)
        orders.put("1-1", "Ann", "1", "of 1-1", 2)
        if late:
            orders.put("0-5", "Zoë", "1", "of 0-5", 10)
            orders.put("1-0", "Ann", "1", "of 1-0", 3)
        orders.run()
        assert orders.rows("totals", "status") == {"Zoë": "of 0-7", "Ann": "of 1-1"}
        orders.check()
    orders.put("0-8", "Zoë", "1", "of 0-8", 0)
    orders.put("0-3", "Ann", "1", "of 0-3", 4)
    orders.run()
    assert orders.rows("totals", "status") == {"Zoë": "of 0-8", "Ann": "of 0-3"}


@pytest.mark.long
@pytest.mark.parametrize("named", [True, False])
def test_crash_after_any_commit_duplicates_nothing(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """These are silver, quarantine and each gold table.

    Records are identified by name or by coordinates.
    """
    if not named:
        monkeypatch.setattr("tests.pipeline.topic.lineage_headers", lambda _: {})
    orders.put("0-1", "Zoë", "1", "new", 1)
    orders.run()
    orders.put("0-2", "Zoë", "2", "paid", 2)
    orders.put("0-3", "Ann", "3", "new", 3)
    orders.topic.put("?")
    break_off_after_each(
        ("write_quarantine", "write_silver", *orders.pipeline.golds), monkeypatch, orders.run
    )
    orders.run()
    orders.check()
    assert orders.tables.count(orders.spark, "quarantine") == 1
    assert orders.tables.count(orders.spark, "silver") == 3


@pytest.mark.slow
def test_first_batch_of_a_table_is_not_duplicated(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch dies after it has written a gold table. An empty table is not merged."""
    orders.put("0-1", "Zoë", "1", "new", 1)
    orders.put("0-2", "Zoë", "2", "paid", 2)
    orders.put("0-3", None, "3", "new", 3)
    break_off_after_each(("totals", "written"), monkeypatch, orders.run)
    orders.run()
    orders.check()


@pytest.mark.slow
def test_silver_function_may_drop_and_multiply_rows(orders: Orders) -> None:
    """Each occurrence still counts once, also after replays."""
    pipeline = Pipeline(records=json_records("customer STRING, status STRING"))

    @pipeline.silver
    def words(rows: DataFrame) -> DataFrame:
        split = rows.withColumn("word", sf.explode(sf.split("status", " ")))
        return split.where("customer <> 'nobody'").drop("status")

    @pipeline.gold("words", keys=["word"], add=["n"])
    def count(fresh: DataFrame) -> DataFrame:
        return fresh.select("word", sf.lit(1).alias("n"))

    orders.pipeline = pipeline
    orders.put("0-1", "Zoë", "0", "a b a", 0)
    orders.put("0-2", "nobody", "0", "c", 0)
    orders.run()
    orders.put("0-1", "Zoë", "0", "a b a d", 0)
    orders.put("0-3", "Ann", "0", "b", 0)
    orders.run()
    words_found = orders.tables.read(orders.spark, "words").collect()
    assert {row.word: row.n for row in words_found} == {"a": 2, "b": 2}


def returning(**rules: Any) -> Callable[[Callable[[DataFrame], DataFrame]], Pipeline]:
    """Return a pipeline with one gold table with these rules."""

    def make(function: Callable[[DataFrame], DataFrame]) -> Pipeline:
        pipeline = Pipeline(records=json_records(COLUMNS))
        pipeline.gold("totals", **rules)(function)
        return pipeline

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            returning(keys="customer", add="orders")(lambda rows: rows),
            "returns no column 'orders'; it returns customer, ",
        ),
        (
            returning(keys="customer", latest="at")(
                lambda rows: rows.groupBy("customer").agg(sf.max("at").alias("at"))
            ),
            "needs the origin of a row, but the function <lambda> left out 'kafka_partition'",
        ),
        (
            returning(keys="customer", add="status")(lambda rows: rows),
            "`add` takes numbers, but 'status' is string",
        ),
        (
            returning(keys="customer", add="at")(lambda rows: rows.select("nothing")),
            "the pipeline is invalid: .*`nothing`",
        ),
    ],
)
def test_invalid_gold_table_is_refused_in_one_line(
    spark: SparkSession, pipeline: Pipeline, message: str
) -> None:
    """Before anything is written. The message names the table or the function, and the column."""
    with pytest.raises(PipelineError, match=message) as error:
        find_schemas(spark, pipeline)
    assert "\n" not in str(error.value)


def test_contradictory_declarations_are_refused() -> None:
    """Immediately, where they are declared."""
    pipeline = Pipeline()
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("silver", {"add": ["n"]}, "cannot be called 'silver'"),
        ("Totals", {"add": ["n"]}, "use lowercase letters"),
        ("totals", {"add": ["n"], "max": ["n"]}, "names n twice"),
        ("totals", {"add": ["k"]}, "names k twice"),
        ("totals", {}, "needs keys, and a column with a rule"),
        ("totals", {"add": ["position"]}, "cannot have a column 'position'"),
    ]
    for name, rules, message in cases:
        with pytest.raises(PipelineError, match=message):
            pipeline.gold(name, keys=["k"], **rules)
    pipeline.gold("totals", keys=["k"], add=["n"])(lambda rows: rows)
    with pytest.raises(PipelineError, match="there are two gold tables 'totals'"):
        pipeline.gold("totals", keys=["k"], add=["n"])


@pytest.mark.slow
def test_changed_declaration_is_refused(orders: Orders) -> None:
    """So is a column with another type.

    A new column is added to silver, with null in existing rows.
    """
    orders.put("0-1", "Zoë", "1", "new", 1)
    orders.run()
    before = {
        name: orders.tables.count(orders.spark, name) for name in orders.tables.names(orders.spark)
    }
    fewer, other, anew = (
        Pipeline(records=json_records(columns))
        for columns in (COLUMNS, COLUMNS.replace("at BIGINT", "at STRING"), COLUMNS)
    )
    fewer.gold("totals", keys="customer", add="amount")(lambda rows: rows)
    anew.gold("grouped", keys="customer", max=["orders"], latest=["at"], order="at")(
        lambda rows: rows.groupBy("customer").agg(
            sf.count("*").alias("orders"), sf.max(sf.timestamp_millis("at")).alias("at")
        )
    )
    for pipeline, message in (
        (fewer, "totals does not match the pipeline: the pipeline does not make its column"),
        (
            other,
            "silver does not match .* its column 'at' is bigint, but the pipeline makes it string",
        ),
        (anew, r"grouped does not match .* it was declared as \{.*\}, and is now \{.*\}"),
    ):
        orders.pipeline = pipeline
        with pytest.raises(PipelineError, match=message):
            orders.run()
    assert {
        name: orders.tables.count(orders.spark, name) for name in orders.tables.names(orders.spark)
    } == before
    orders.pipeline = orders_pipeline()
    orders.pipeline.records = json_records(f"{COLUMNS}, note STRING")
    orders.put("0-2", "Zoë", "2", "new", 1)
    orders.run()
    orders.check()
    silver = orders.tables.read(orders.spark, "silver").orderBy("source_offset")
    assert [row.note for row in silver.collect()] == [None, None]
