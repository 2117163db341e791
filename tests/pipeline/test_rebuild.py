"""A gold table rebuilt from silver next to a running pipeline, with crashes at any point."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, PipelineError
from kstorm_pipeline import rebuild as module
from kstorm_pipeline import run as running
from kstorm_pipeline.rebuild import rebuild
from kstorm_pipeline.run import run
from kstorm_pipeline.tables import Tables
from tests.pipeline.beside import run_beside
from tests.pipeline.breaking import CrashError, break_off_after
from tests.pipeline.conftest import await_condition
from tests.pipeline.orders import Orders, orders_pipeline

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that


def declared_anew(name: str = "totals") -> Pipeline:
    """Return the orders' pipeline with another key and other columns in one table, or with one more
    table."""
    pipeline = orders_pipeline()
    pipeline.golds.pop(name, None)

    @pipeline.gold(name, keys=["status"], add=["orders"], latest=["customer"])
    def totals(fresh: DataFrame) -> DataFrame:
        return fresh.withColumn("orders", sf.lit(1))

    return pipeline


def rebuild_it(orders: Orders, pipeline: Pipeline, name: str = "totals") -> dict[str, object]:
    return rebuild(orders.spark, orders.settings, orders.tables, pipeline, name)


def run_as(orders: Orders, pipeline: Pipeline) -> None:
    orders.topic.flush()
    run(orders.spark, orders.settings, orders.tables, pipeline)


def check_anew(orders: Orders, name: str = "totals") -> None:
    """Assert that the table has each order once. All messages are from one source partition."""
    rows = orders.tables.read(orders.spark, name).select("status", "orders", "customer").collect()
    found = {row.status: (row.orders, row.customer) for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    of: defaultdict[str, list[tuple[int, str | None]]] = defaultdict(list)
    for source, (_, customer, status, _, _) in orders.seen.items():
        of[status].append((int(source.partition("-")[2]), customer))
    assert found == {status: (len(made), max(made)[1]) for status, made in of.items()}


def fill(orders: Orders) -> None:
    """Write two batches, with replays in the second."""
    orders.put("0-1", "Zoë", "1", "new", 1)
    orders.put("0-2", "Ann", "2", "new", 2)
    orders.run()
    orders.put("0-1", "Zoë", "1", "new", 1)
    orders.put("0-4", "Zoë", "3", "paid", 3)
    orders.put("0-3", "Eve", "4", "new", 4)
    orders.run()


@pytest.mark.long
def test_changed_table_is_rebuilt_while_the_old_one_continues(orders: Orders) -> None:
    """The old pipeline continues with its table. The new table has everything once."""
    fill(orders)
    with pytest.raises(
        PipelineError,
        match=r"totals does not match .* rebuild it from silver with `rebuild totals`",
    ):
        run_as(orders, declared_anew())
    assert rebuild_it(orders, declared_anew()) == {"table": "totals", "rows": 2, "batch": 1}
    orders.put("0-5", "Ann", "5", "paid", 5)
    orders.put("0-2", "Ann", "2", "new", 2)
    orders.run()
    orders.check()
    orders.put("0-6", "Zoë", "6", "sent", 6)
    run_as(orders, declared_anew())
    check_anew(orders)
    orders.put("0-7", "Zoë", "7", "sent", 7)
    run_as(orders, declared_anew())
    check_anew(orders)
    with pytest.raises(PipelineError, match="totals does not match the pipeline"):
        orders.run()


@pytest.mark.long
def test_new_table_is_rebuilt_from_silver(orders: Orders) -> None:
    """The pipeline is refused until the table is built. Other tables stay the same."""
    fill(orders)
    pipeline = declared_anew("by_status")
    with pytest.raises(
        PipelineError,
        match=r"by_status is missing, but its checkpoint exists: .* `rebuild by_status`",
    ):
        run_as(orders, pipeline)
    rebuild_it(orders, pipeline, "by_status")
    orders.put("0-5", "Ann", "5", "paid", 5)
    for _ in range(2):
        run_as(orders, pipeline)
        check_anew(orders, "by_status")
        orders.check()


@pytest.mark.long
def test_rebuild_applies_a_changed_function_to_all_of_silver(orders: Orders) -> None:
    """Although the declaration is the same. The table keeps its own properties, even if it keeps old
    files longer than log entries."""
    fill(orders)
    kept = {"delta.deletedFileRetentionDuration": "interval 9 days"}
    orders.tables.set_properties(orders.spark, "by_time", kept)
    pipeline = orders_pipeline()
    loud = replace(
        pipeline.golds["by_time"],
        function=lambda rows: rows.withColumn("status", sf.upper("status")),
    )
    pipeline.golds["by_time"] = loud
    rebuild_it(orders, pipeline, "by_time")
    run_as(orders, pipeline)
    assert orders.rows("by_time", "status") == {"Zoë": "PAID", "Ann": "NEW", "Eve": "NEW"}
    kept["delta.logRetentionDuration"] = f"interval {9 * 24 * 3600} seconds"
    assert orders.tables.properties(orders.spark, "by_time").items() >= kept.items()


@pytest.mark.slow
def test_rebuild_includes_a_batch_that_only_silver_has(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old pipeline died during the batch. The repeated batch adds nothing, also not to the rows
    of a key whose sum does not fit."""
    fill(orders)
    pipeline = declared_anew()

    @pipeline.gold("huge", keys=["status"], add=["n"], overflow="apart")
    def huge(fresh: DataFrame) -> DataFrame:
        return fresh.withColumn("n", sf.lit(2**62))

    rebuild_it(orders, pipeline, "huge")
    orders.put("0-5", "Ann", "5", "new", 5)
    with monkeypatch.context() as patch:
        break_off_after("write_silver", patch)
        with pytest.raises(PipelineError, match="a query failed"):
            orders.run()
    rebuild_it(orders, pipeline)
    run_as(orders, pipeline)
    check_anew(orders)
    apart = orders.tables.read(orders.spark, "huge_overflow")
    assert [row.status for row in apart.collect()] == ["new"] * 4


def crash_after(patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Simulate the end of the process right after the function."""
    work: Callable[..., None] = getattr(owner, name)

    def work_and_crash(*arguments: Any) -> None:
        work(*arguments)
        raise CrashError

    patch.setattr(owner, name, work_and_crash)


def crash(*_: object) -> None:
    raise CrashError


@pytest.mark.long
@pytest.mark.parametrize("where", ["before", "built", "caught up", "in place", "half deleted"])
def test_rebuild_recovers_from_a_crash_at_any_point(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The old pipeline continues as long as its table exists. The new one ends with everything,
    once."""
    fill(orders)
    new = declared_anew()
    with monkeypatch.context() as patch:
        if where == "before":
            patch.setattr(module, "_replace", crash)
            with pytest.raises(CrashError):
                rebuild_it(orders, new)
        elif where == "built":
            crash_after(patch, module, "_replace")
            with pytest.raises(CrashError):
                rebuild_it(orders, new)
    orders.put("0-5", "Ann", "5", "paid", 5)
    orders.run()
    orders.check()
    if where == "before":
        with pytest.raises(PipelineError, match="totals does not match"):
            run_as(orders, new)
    if where != "built":
        rebuild_it(orders, new)
        orders.put("0-6", "Eve", "6", "new", 6)
        orders.run()
    with monkeypatch.context() as patch:
        if where == "caught up":
            crash_after(patch, module, "merge")
        elif where == "in place":
            crash_after(patch, module, "switch")
        elif where == "half deleted":

            def delete_half(tables: Tables, _: object, name: str) -> None:
                for file in Path(tables.path(name)).glob("*.parquet"):
                    file.unlink()
                raise CrashError

            patch.setattr(Tables, "drop", delete_half)
        if where in ("caught up", "in place", "half deleted"):
            with pytest.raises(CrashError):
                run_as(orders, new)
    if where == "caught up":
        orders.put("0-7", "Zoë", "7", "old", 7)
        orders.run()
        orders.check()
    orders.put("0-8", "Zoë", "8", "last", 8)
    for _ in range(2):
        run_as(orders, new)
        check_anew(orders)


@pytest.mark.long
def test_rebuild_during_a_continuous_run(orders: Orders) -> None:
    """Batches arrive before, during and after it. The new pipeline has each of them once."""
    fill(orders)

    def silver_has(n: int) -> Callable[[], bool]:
        return lambda: orders.tables.count(orders.spark, "silver") == n

    def user() -> None:
        for number in range(5, 10):
            orders.put(f"0-{number}", "Ann", "5", f"state {number % 2}", number)
            orders.topic.flush()
            if number == 6:
                rebuild_it(orders, declared_anew())
            await_condition(silver_has(number))

    settings = replace(orders.settings, trigger="continuous", interval_seconds=0.5)
    run_beside(user, lambda: run(orders.spark, settings, orders.tables, orders.pipeline))
    orders.check()
    run_as(orders, declared_anew())
    check_anew(orders)


@pytest.mark.long
def test_old_run_ends_when_its_table_is_replaced(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, before it merges anything into the new table."""
    fill(orders)
    rebuild_it(orders, declared_anew())
    run_as(orders, declared_anew())
    orders.put("0-5", "Ann", "5", "paid", 5)
    monkeypatch.setattr(running, "check_tables", lambda *_: None)  # it had passed before
    with pytest.raises(
        PipelineError, match=r"totals was replaced by one with another declaration .* End this run"
    ) as error:
        orders.run()
    assert "\n" not in str(error.value)
    run_as(orders, declared_anew())
    check_anew(orders)


@pytest.mark.slow
def test_impossible_rebuild_is_refused(orders: Orders) -> None:
    """In one line with the remedy."""
    with pytest.raises(PipelineError, match="there is no silver at"):
        rebuild_it(orders, orders.pipeline)
    orders.run()
    with pytest.raises(PipelineError, match="silver has no rows"):
        rebuild_it(orders, orders.pipeline)
    with pytest.raises(
        PipelineError,
        match="no gold table 'nothing'; its gold tables are totals, by_time, grouped, written",
    ):
        rebuild_it(orders, orders.pipeline, "nothing")
    with pytest.raises(
        PipelineError, match=r"written has replays=True, .* rebuild all tables except bronze"
    ):
        rebuild_it(orders, orders.pipeline, "written")
