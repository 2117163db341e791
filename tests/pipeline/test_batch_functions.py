"""Features of a pipeline other than rules: distinct counts, and functions on whole batches."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kstorm_pipeline import BatchId, Pipeline, PipelineError, json_records
from tests.pipeline.orders import COLUMNS, Orders

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that


@pytest.mark.slow
def test_distinct_values_are_counted_across_batches(orders: Orders) -> None:
    """Earlier values do not count again, in the same batch or later ones. Null does not count."""
    orders.pipeline = pipeline = Pipeline(records=json_records(COLUMNS))

    @pipeline.gold("states", keys=["customer"], distinct={"states": "status"}, latest=["status"])
    def states(fresh: DataFrame) -> DataFrame:
        return fresh

    @pipeline.gold("customers", keys=["status"], distinct={"customers": "customer"})
    def customers(fresh: DataFrame) -> DataFrame:
        return fresh

    for number, (customer, status) in enumerate(
        [("Zoë", "new"), ("Zoë", "paid"), ("Zoë", "new"), ("Ann", "new")]
    ):
        orders.put(f"0-{number}", customer, "1", status, 1)
    orders.put("1-1", None, "1", "new", 1)
    orders.run()
    assert orders.rows("states", "states", "status") == {
        "Zoë": (2, "new"),
        "Ann": (1, "new"),
        None: (1, "new"),
    }
    for number in range(500):
        orders.put(f"2-{number}", "Zoë", "1", f"state {number % 100}", 1)
    orders.put("3-1", "Zoë", "1", "paid", 2)
    orders.run()
    assert orders.rows("states", "states")["Zoë"] == pytest.approx(102, rel=0.03)
    found = (
        orders.tables.read(orders.spark, "customers").where("status in ('new', 'paid')").collect()
    )
    assert {row.status: row.customers for row in found} == {"new": 2, "paid": 1}


@pytest.mark.long
def test_a_function_gets_each_batch_with_its_number(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After the tables have it. A repeated batch has the same number and rows, so Delta keeps one
    of two writes."""
    calls: list[tuple[BatchId, int]] = []
    place = str(tmp_path / "elsewhere")

    @orders.pipeline.batch
    def elsewhere(fresh: DataFrame, batch: BatchId) -> None:
        calls.append((batch, fresh.count()))
        writer = fresh.select("customer").write.format("delta").mode("append")
        writer.option("txnAppId", batch.query).option("txnVersion", batch.number).save(place)
        if len(calls) == 1:
            raise RuntimeError("not there")

    orders.put("0-1", "Zoë", "1", "new", 1)
    orders.put("0-2", "Ann", "1", "new", 1)
    with pytest.raises(
        PipelineError,
        match=r"function elsewhere \(.*test_batch_functions.py:\d+\) raised RuntimeError: not there\. Corr",
    ):
        orders.run()
    orders.run()
    orders.check()
    orders.put("0-2", "Ann", "1", "a replay", 1)
    orders.run()
    orders.put("0-3", "Zoë", "1", "new", 1)
    orders.run()
    (first, size), again, (last, _) = calls
    assert again == (first, size) == (first, 2)
    assert (last.query, last.number > first.number) == (first.query, True)
    rows = (
        orders.spark.read.format("delta")
        .load(place)
        .groupBy("customer")
        .agg(sf.count("*"))
        .collect()
    )
    assert {row[0]: row[1] for row in rows} == {"Zoë": 2, "Ann": 1}
