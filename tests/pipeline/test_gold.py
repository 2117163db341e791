"""Gold tables of one's own: each rule, in whatever batches the records come, and whatever commit a batch dies after."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, PipelineError, json_records, refine
from kstorm_pipeline.run import run
from kstorm_pipeline.schemas import find_schemas
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.topic import Topic

pytestmark = pytest.mark.timeout(900)  # on two calm cores a minute; with ten others on them ten times that

NOON = 1_700_000_000_000
COLUMNS = "customer STRING, amount DECIMAL(18,2), status STRING, at BIGINT"


def orders_pipeline() -> Pipeline:
    """Tables with all rules and orders."""
    pipeline = Pipeline(records=json_records(COLUMNS))

    @pipeline.gold(
        "totals",
        keys=["customer"],
        add=["amount", "orders"],
        min=["first"],
        max=["last"],
        latest=["status"],
        replace=["length"],
    )
    def totals(fresh: DataFrame) -> DataFrame:
        more = {"orders": sf.lit(1), "first": sf.col("at"), "last": sf.col("at"), "length": sf.length("customer")}
        return fresh.withColumns(more)

    @pipeline.gold("by_time", keys=["customer"], latest=["status"], order="at")
    def by_time(fresh: DataFrame) -> DataFrame:
        return fresh

    @pipeline.gold("grouped", keys=["customer"], add=["orders"], latest=["at"], order="at")
    def grouped(fresh: DataFrame) -> DataFrame:
        return fresh.groupBy("customer").agg(sf.count("*").alias("orders"), sf.max("at").alias("at"))

    @pipeline.gold("written", keys=["customer"], latest=["status"], order="sink", replays=True)
    def written(rows: DataFrame) -> DataFrame:
        return rows

    return pipeline


@dataclass
class Orders:
    """A topic of orders with its tables, and what these must hold by plain Python."""

    spark: SparkSession
    settings: Settings
    topic: Topic
    pipeline: Pipeline = field(default_factory=orders_pipeline)
    seen: dict[str, tuple[str, str | None, str, int, int]] = field(default_factory=dict)
    last: dict[str | None, str] = field(default_factory=dict)

    @property
    def tables(self) -> Tables:
        return Tables(self.settings.tables)

    def put(self, source: str, customer: str | None, amount: str, status: str, at: int) -> None:
        """Write a record made of the message `<partition>-<offset>`; the same message again is a replay."""
        body = {"customer": customer, "amount": amount, "status": status, "at": at}
        self.topic.put(json.dumps(body), lineage=f"lines-{source}-0", at=NOON + at)
        self.seen.setdefault(source, (amount, customer, status, at, len(self.seen)))
        self.last[customer] = status

    def run(self) -> None:
        self.topic.flush()
        run(self.spark, self.settings, self.tables, self.pipeline)

    def rows(self, table: str, *columns: str) -> dict[Any, Any]:
        """A table by its key; fails on a key that is there twice."""
        rows = self.tables.read(self.spark, table).select("customer", *columns).collect()
        found = {row[0]: row[1] if len(columns) == 1 else tuple(row[1:]) for row in rows}
        assert len(found) == len(rows), f"a key is in {table} twice"
        return found

    def check(self) -> None:
        customers = {order[1] for order in self.seen.values()}
        of = {name: [order for order in self.seen.values() if order[1] == name] for name in customers}
        assert self.rows("totals", "amount", "orders", "first", "last", "length") == {
            name: (
                sum(Decimal(order[0]) for order in found),
                len(found),
                min(order[3] for order in found),
                max(order[3] for order in found),
                None if name is None else len(name),
            )
            for name, found in of.items()
        }
        assert self.rows("by_time", "status") == {
            name: max(found, key=lambda order: (order[3], order[4]))[2] for name, found in of.items()
        }
        assert self.rows("grouped", "orders", "at") == {
            name: (len(found), max(order[3] for order in found)) for name, found in of.items()
        }
        assert self.rows("written", "status") == self.last


@pytest.fixture
def orders(spark: SparkSession, settings: Settings, tmp_path: Path) -> Orders:
    topic = Topic(settings.bootstrap_servers)
    return Orders(spark, replace(settings, tables=str(tmp_path), topic=topic.topic), topic)


def test_every_rule_across_batches(orders: Orders) -> None:
    """New keys, known keys, null as a key, replays in a batch and across batches; decimals add up exactly."""
    orders.put("0-1", "Zoë", "0.10", "new", 5)
    orders.put("0-2", "Zoë", "0.20", "paid", 3)
    orders.put("0-1", "Zoë", "9.99", "a replay", 9)
    orders.put("0-3", None, "1.00", "new", 1)
    orders.run()
    orders.check()
    assert orders.rows("totals", "amount")["Zoë"] == Decimal("0.30")
    orders.put("0-2", "Zoë", "9.99", "a replay", 9)
    orders.put("0-4", None, "2.00", "sent", 2)
    orders.put("0-5", "Ann", "-3.00", "back", 2)
    orders.run()
    orders.check()
    assert orders.rows("totals", "status") == {"Zoë": "paid", None: "sent", "Ann": "back"}
    orders.put("0-5", "Ann", "-3.00", "only a replay", 2)
    orders.run()
    orders.check()


def test_a_late_message_does_not_put_the_old_over_the_new(orders: Orders) -> None:
    """Its first record is written after those of later messages, in the same batch or in a later one; of two source partitions the
    Kafka timestamp tells."""
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
def test_a_crash_after_any_commit_of_a_batch_leaves_nothing_twice(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Of silver, of quarantine and of each gold table in turn; whether records are told apart by name or by their coordinates."""
    if not named:
        monkeypatch.setattr("tests.pipeline.topic.lineage_headers", lambda _: {})
    orders.put("0-1", "Zoë", "1", "new", 1)
    orders.run()
    orders.put("0-2", "Zoë", "2", "paid", 2)
    orders.put("0-3", "Ann", "3", "new", 3)
    orders.topic.put("?")
    for commit in ("write_quarantine", "write_silver", *orders.pipeline.golds):
        with monkeypatch.context() as patch:
            break_off_after(commit, patch)
            with pytest.raises(PipelineError, match="a query failed"):
                orders.run()
    orders.run()
    orders.check()
    assert orders.tables.count(orders.spark, "quarantine") == 1
    assert orders.tables.count(orders.spark, "silver") == 3


def break_off_after(commit: str, patch: pytest.MonkeyPatch) -> None:
    """Have a batch end as soon as it has made this one of its commits."""
    function = commit if commit.startswith("write") else "merge_gold"
    write: Callable[..., None] = getattr(refine, function)

    def break_off(*arguments: Any) -> None:
        write(*arguments)
        if function == commit or arguments[1].name == commit:
            raise RuntimeError

    patch.setattr(refine, function, break_off)


def test_a_silver_function_may_drop_rows_and_make_several_of_one(orders: Orders) -> None:
    """Each occurrence still counts once, whatever a replay says."""
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
    """A pipeline with one gold table of such rules."""

    def make(function: Callable[[DataFrame], DataFrame]) -> Pipeline:
        pipeline = Pipeline(records=json_records(COLUMNS))
        pipeline.gold("totals", **rules)(function)
        return pipeline

    return make


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
            "asks where a row comes from, and the function <lambda> left out 'kafka_partition'",
        ),
        (returning(keys="customer", add="status")(lambda rows: rows), "`add` takes numbers, and 'status' is string"),
        (
            returning(keys="customer", add="at")(lambda rows: rows.select("nothing")),
            "cannot be carried out: .*`nothing`",
        ),
    ],
)
def test_a_table_that_cannot_be_is_refused_in_one_line(spark: SparkSession, pipeline: Pipeline, message: str) -> None:
    """Before anything is written; the message names the table or the function, and the column."""
    with pytest.raises(PipelineError, match=message) as error:
        find_schemas(spark, pipeline)
    assert "\n" not in str(error.value)


def test_declarations_that_contradict_themselves() -> None:
    """Are refused where they stand."""
    pipeline = Pipeline()
    for name, rules, message in (
        ("silver", {"add": ["n"]}, "cannot be called 'silver'"),
        ("Totals", {"add": ["n"]}, "give small letters"),
        ("totals", {"add": ["n"], "max": ["n"]}, "names n twice"),
        ("totals", {"add": ["k"]}, "names k twice"),
        ("totals", {}, "needs keys, and a column with a rule"),
        ("totals", {"add": ["position"]}, "cannot have a column 'position'"),
    ):
        with pytest.raises(PipelineError, match=message):
            pipeline.gold(name, keys=["k"], **rules)
    pipeline.gold("totals", keys=["k"], add=["n"])(lambda rows: rows)
    with pytest.raises(PipelineError, match="there are two gold tables 'totals'"):
        pipeline.gold("totals", keys=["k"], add=["n"])


def test_a_table_declared_anew_is_refused(orders: Orders) -> None:
    """And so is a column of another type; a column that silver has not had is added, null in what there was."""
    orders.put("0-1", "Zoë", "1", "new", 1)
    orders.run()
    before = {name: orders.tables.count(orders.spark, name) for name in orders.tables.names(orders.spark)}
    for columns, rules, message in (
        (
            COLUMNS,
            {"add": ["amount", "orders"]},
            r"totals has another form than the pipeline: the pipeline gives it no column",
        ),
        (
            COLUMNS.replace("at BIGINT", "at STRING"),
            {},
            r"silver has another form .* its column 'at' is bigint, now it would be string",
        ),
    ):
        orders.pipeline = Pipeline(records=json_records(columns))
        if rules:
            orders.pipeline.gold("totals", keys=["customer"], **rules)(
                lambda rows: rows.withColumn("orders", sf.lit(1))
            )
        with pytest.raises(PipelineError, match=message):
            orders.run()
    assert {name: orders.tables.count(orders.spark, name) for name in orders.tables.names(orders.spark)} == before
    orders.pipeline = orders_pipeline()
    orders.pipeline.records = json_records(f"{COLUMNS}, note STRING")
    orders.put("0-2", "Zoë", "2", "new", 1)
    orders.run()
    orders.check()
    silver = orders.tables.read(orders.spark, "silver").orderBy("source_offset")
    assert [row.note for row in silver.collect()] == [None, None]
