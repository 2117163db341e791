"""Keys of a gold table whose sums no longer fit: only they are affected, and the run continues."""

import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import BatchId, Pipeline, PipelineError, gold_overflow, json_records
from kstorm_pipeline.failures import cause_of, last_raised
from kstorm_pipeline.gold import merge
from kstorm_pipeline.gold_rows import gather
from kstorm_pipeline.pipeline import Gold
from kstorm_pipeline.tables import Tables
from tests.pipeline.orders import Orders

pytestmark = pytest.mark.timeout(900)

LAST = 2**63 - 1


def minus(number: Any) -> Any:
    """Negate a number. The operator would round a decimal."""
    return number.copy_negate() if isinstance(number, Decimal) else -number


class Sums:
    """A gold table with sums, and batches for it."""

    def __init__(self, spark: SparkSession, root: Path, kind: str, overflow: str) -> None:
        pipeline = Pipeline()
        pipeline.gold("sums", keys=["k"], add=["n"], max=["top"], overflow=overflow)(self._function)
        self.spark, self.gold, self.tables = spark, pipeline.golds["sums"], Tables(str(root))
        self._columns = f"k STRING, n {kind}, top INT"
        made = gather(self.gold, spark.createDataFrame([], self._columns))
        self.tables.create(spark, {"sums": made.schema})

    @staticmethod
    def _function(rows: DataFrame) -> DataFrame:
        return rows

    def merge(self, number: int, *rows: tuple[str | None, Any]) -> None:
        made = self.spark.createDataFrame(
            [(key, value, number) for key, value in rows], self._columns
        )
        merge(self.spark, self.tables.path("sums"), self.gold, made, BatchId("query", number))

    @property
    def rows(self) -> dict[str | None, tuple[Any, int]]:
        return {row.k: (row.n, row.top) for row in self.tables.read(self.spark, "sums").collect()}

    @property
    def apart(self) -> list[tuple[str | None, Any, int]]:
        if not self.tables.exists(self.spark, "sums_overflow"):
            return []
        found = self.tables.read(self.spark, "sums_overflow").collect()
        return sorted((row.k, row.n, row.overflow_batch) for row in found)


@pytest.mark.slow
def test_overflowing_key_is_kept_apart(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning names table, column and key. The other keys continue, also in later batches, and a
    repeated batch changes nothing. The row and the rows apart are the whole sum."""
    sums = Sums(spark, tmp_path, "BIGINT", "apart")
    sums.merge(0, ("a", LAST - 1), ("b", 1))
    with caplog.at_level(logging.WARNING):
        sums.merge(1, ("a", 5), ("a", 6), ("b", 2))
    assert "'sums': the sum of 'n' for the key k='a' no longer fits BIGINT" in caplog.text
    assert "rebuild sums" in caplog.text
    expected = {"a": (LAST - 1, 0), "b": (3, 1)}
    for _ in range(2):
        assert sums.rows == expected
        assert sums.apart == [("a", 5, 1), ("a", 6, 1)]
        sums.merge(1, ("a", 5), ("a", 6), ("b", 2))
    sums.merge(2, ("a", -7), ("b", 1))
    assert sums.rows == {"a": (LAST - 1, 0), "b": (4, 2)}
    assert sums.apart == [("a", -7, 2), ("a", 5, 1), ("a", 6, 1)]


@pytest.mark.slow
def test_crash_between_both_tables_loses_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows apart are written, and the gold table is not. Null is a key like any other."""
    sums = Sums(spark, tmp_path, "BIGINT", "apart")
    sums.merge(0, (None, LAST), ("b", 1))
    append = gold_overflow.Apart.append

    def crash(self: Any, rows: DataFrame | None) -> None:
        append(self, rows)
        raise RuntimeError("the end")

    with monkeypatch.context() as patch:
        patch.setattr(gold_overflow.Apart, "append", crash)
        with pytest.raises(RuntimeError, match="the end"):
            sums.merge(1, (None, 1), ("b", 2))
    assert sums.rows == {None: (LAST, 0), "b": (1, 0)}
    sums.merge(1, (None, 1), ("b", 2))
    assert sums.rows == {None: (LAST, 0), "b": (3, 1)}
    assert sums.apart == [(None, 1, 1)]


@pytest.mark.slow
def test_first_batch_of_a_table_may_overflow(spark: SparkSession, tmp_path: Path) -> None:
    """A sum that fits at the end counts, whatever the order of its parts."""
    sums = Sums(spark, tmp_path, "BIGINT", "apart")
    sums.merge(0, ("a", LAST), ("a", 1), ("b", LAST), ("b", LAST), ("b", -LAST), ("c", None))
    assert sums.rows["b"] == (LAST, 0)
    assert sums.rows["c"] == (None, 0)
    assert sums.apart == [("a", 1, 0), ("a", LAST, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("value", [1.7e308, float("inf"), float("nan")])
def test_sum_of_doubles_stays_finite(spark: SparkSession, tmp_path: Path, value: float) -> None:
    """An infinity or NaN, which Avro and Protobuf can bring, does not spoil the sum for good."""
    sums = Sums(spark, tmp_path, "DOUBLE", "apart")
    sums.merge(0, ("a", 1.7e308), ("b", 1.0))
    sums.merge(1, ("a", value), ("b", 0.5))
    assert sums.rows == {"a": (1.7e308, 0), "b": (1.5, 1)}
    assert len(sums.apart) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "near", "last"),
    [
        ("BIGINT", LAST - 1, LAST),
        ("DECIMAL(38,0)", 10**38 - 2, 10**38 - 1),
        ("DECIMAL(38,2)", "9" * 36 + ".98", "9" * 36 + ".99"),
    ],
)
def test_sum_saturates(
    spark: SparkSession, tmp_path: Path, kind: str, near: Any, last: Any
) -> None:
    """It keeps the limit of its type, in both directions, and also if the next values go back."""
    number = int if kind == "BIGINT" else Decimal
    sums = Sums(spark, tmp_path, kind, "saturate")
    sums.merge(0, ("a", number(near)), ("b", number(1)), ("c", minus(number(near))))
    sums.merge(
        1,
        ("a", number(5)),
        ("b", number(1)),
        ("c", number(-5)),
        ("d", number(last)),
        ("d", number(1)),
    )
    sums.merge(2, ("a", number(-9)), ("b", number(1)), ("d", number(1)))
    found = {key: row[0] for key, row in sums.rows.items()}
    low = -(2**63) if kind == "BIGINT" else minus(number(last))
    assert found == {"a": number(last), "b": 3, "c": low, "d": number(last)}
    assert sums.rows["a"][1] == 2
    assert sums.apart == []


@pytest.mark.slow
def test_overflow_does_not_end_a_run(orders: Orders) -> None:
    """From the topic to the tables, before and after a restart."""
    pipeline = Pipeline(records=json_records("customer STRING, amount DECIMAL(20,0), at BIGINT"))

    @pipeline.gold("totals", keys=["customer"], add=["big"], latest=["at"])
    def totals(fresh: DataFrame) -> DataFrame:
        return fresh.withColumn("big", sf.col("amount").cast("bigint"))

    orders.pipeline = pipeline
    orders.put("0-1", "Zoë", str(LAST), "new", 1)
    orders.put("0-2", "Ann", "1", "new", 1)
    orders.run()
    for number in (3, 5):
        orders.put(f"0-{number}", "Zoë", str(LAST), "new", number)
        orders.put(f"0-{number + 1}", "Ann", str(number), "new", number)
        orders.run()
    assert orders.rows("totals", "big", "at") == {"Zoë": (LAST, 1), "Ann": (9, 5)}
    assert orders.tables.count(orders.spark, "totals_overflow") == 2
    assert orders.tables.count(orders.spark, "silver") == 6


@pytest.mark.slow
def test_error_of_a_function_is_never_a_java_object(orders: Orders) -> None:
    """The last line has Spark's error, the table and the function."""
    pipeline = Pipeline(records=json_records("customer STRING, amount DECIMAL(20,0)"))

    @pipeline.gold("totals", keys=["customer"], add=["big"])
    def doubled(fresh: DataFrame) -> DataFrame:
        return fresh.withColumn("big", sf.col("amount").cast("bigint") * 2)

    orders.pipeline = pipeline
    orders.put("0-1", "Zoë", str(LAST), "new", 1)
    with pytest.raises(PipelineError) as error:
        orders.run()
    line = str(error.value)
    assert "'totals' cannot be written: ArithmeticException: [ARITHMETIC_OVERFLOW]" in line
    assert "function doubled" in line
    assert "\n" not in line


def test_java_errors_are_told_by_their_cause() -> None:
    text = (
        "Traceback (most recent call last):\n  File …\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling o15806.execute.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure\n"
        "\tat org.apache.spark.X.y(X.scala:1)\n"
        "Caused by: org.apache.spark.SparkArithmeticException: [ARITHMETIC_OVERFLOW] long overflow.\n"
        "\tat org.apache.spark.X.y(X.scala:1)\n"
    )
    assert last_raised(text) == "SparkArithmeticException: [ARITHMETIC_OVERFLOW] long overflow."
    assert last_raised("a.b.ValueError: no\n") == "ValueError: no"
    assert cause_of(ValueError("one\ntwo")) == "ValueError: one"

    class Py4JFakeError(Py4JJavaError):  # type: ignore[misc] # py4j has no types
        def __init__(self) -> None:
            pass

        def __str__(self) -> str:
            return text

    assert cause_of(Py4JFakeError()).startswith("SparkArithmeticException: [")


def test_overflow_is_a_part_of_the_declaration() -> None:
    """A table with the default keeps the declaration of earlier releases."""
    pipeline = Pipeline()
    pipeline.gold("sums", keys=["k"], add=["n"])(lambda rows: rows)
    pipeline.gold("limited", keys=["k"], add=["n"], overflow="saturate")(lambda rows: rows)
    golds: dict[str, Gold] = pipeline.golds
    assert golds["sums"].declared == '{"keys": ["k"], "add": ["n"]}'
    assert golds["limited"].definition()["overflow"] == "saturate"
    for name, rules, message in (
        (
            "more",
            {"add": ["n"], "overflow": "wrap"},
            "overflow='wrap' is unknown: give one of 'apart'",
        ),
        ("sums_overflow", {"add": ["n"]}, "cannot be called 'sums_overflow' next to 'sums'"),
        ("more", {"add": ["overflow_batch"]}, "cannot have a column 'overflow_batch'"),
    ):
        with pytest.raises(PipelineError, match=message):
            pipeline.gold(name, keys=["k"], **rules)
