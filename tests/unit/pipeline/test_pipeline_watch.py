"""Batches of a query in the log and the metrics."""

from types import SimpleNamespace
from typing import Any

from kstorm_pipeline.query_watch import _Log


def test_batch_after_an_idle_period_is_counted() -> None:
    """An idle query reports progress with the number of its next batch."""
    ran = {"durationMs": {"addBatch": 5}, "batchDuration": 1000, "name": "bronze"}
    idle = SimpleNamespace(
        batchId=1, numInputRows=0, durationMs={"latestOffset": 5}, batchDuration=5, name="bronze"
    )
    first, second = (SimpleNamespace(batchId=n, numInputRows=n + 1, **ran) for n in (0, 1))
    counted: list[Any] = []
    query: Any = SimpleNamespace(name="bronze", recentProgress=[first, idle], isActive=False)
    metrics: Any = SimpleNamespace(add_batch=lambda *batch: counted.append(batch))
    log = _Log(query, metrics)
    log.look()
    query.recentProgress.append(second)
    log.look()
    assert counted == [("bronze", 1, 1.0), ("bronze", 2, 1.0)]
