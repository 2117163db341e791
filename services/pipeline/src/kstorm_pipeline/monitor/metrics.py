"""The metrics of a run. Counters start at 0 with the process. See docs/reference/metrics.md."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstorm_pipeline.monitor.lag import TableLag
    from kstorm_pipeline.refine import Refined

_BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._rows = Counter(
            "kstorm_pipeline_rows_total",
            "Rows added to the table; in a gold table, rows changed or added",
            ["table"],
            registry=registry,
        )
        self._replays = Counter(
            "kstorm_pipeline_replays_total",
            "Records left out of silver because it has their occurrence",
            registry=registry,
        )
        self._mostly_quarantined = Counter(
            "kstorm_pipeline_mostly_quarantined_batches_total",
            "Batches with too many unreadable records",
            registry=registry,
        )
        self._table_seconds = Counter(
            "kstorm_pipeline_table_seconds_total",
            "Seconds that batches spent on the table",
            ["table"],
            registry=registry,
        )
        self._batch_seconds = Histogram(
            "kstorm_pipeline_batch_seconds",
            "Seconds that a batch took",
            ["query"],
            registry=registry,
            buckets=_BOUNDS,
        )
        self._lag_records = Gauge(
            "kstorm_pipeline_lag_records",
            "Records of the topic that the table lacks",
            ["table"],
            registry=registry,
        )
        self._lag_seconds = Gauge(
            "kstorm_pipeline_lag_seconds",
            "Age of the oldest record that the table lacks, by its Kafka timestamp; 0 if it lacks none",
            ["table"],
            registry=registry,
        )
        self._oldest = Gauge(
            "kstorm_pipeline_oldest_unread_timestamp_seconds",
            "Kafka timestamp of the oldest record that the table lacks, in seconds since 1970; 0 if it lacks none",
            ["table"],
            registry=registry,
        )
        self._still = Gauge(
            "kstorm_pipeline_standing_still_seconds",
            "Seconds since a query at work last made progress",
            ["query"],
            registry=registry,
        )
        self._complete_until = Gauge(
            "kstorm_pipeline_complete_until_timestamp_seconds",
            "Time up to which the last audit accounts for every message, in seconds since 1970",
            ["topology"],
            registry=registry,
        )

    def text(self) -> bytes:
        """Return the page in Prometheus' text format."""
        return generate_latest(self.registry)

    def add_batch(self, query: str, rows: int, seconds: float) -> None:
        """Count a batch of a query. `add_refined` counts the rows that `refine` writes."""
        self._batch_seconds.labels(query).observe(seconds)
        if query == "bronze" and rows:
            self._rows.labels("bronze").inc(rows)
            self._table_seconds.labels("bronze").inc(seconds)

    def add_refined(self, refined: Refined) -> None:
        """Count the rows that a batch of `refine` has written."""
        for table, rows in refined.rows.items():
            self._rows.labels(table).inc(rows)
        for table, seconds in refined.seconds.items():
            self._table_seconds.labels(table).inc(seconds)
        self._replays.inc(refined.replays)

    def add_mostly_quarantined(self) -> None:
        """Count a batch with too many unreadable records."""
        self._mostly_quarantined.inc()

    def show_tables(self, names: list[str]) -> None:
        """Show zeros for tables without writes: a rate needs a first value."""
        for name in names:
            self._rows.labels(name)
            self._table_seconds.labels(name)

    def show_lag(self, table: str, lag: TableLag) -> None:
        """Show a table's lag. Its age in seconds keeps growing until the next call."""
        oldest = lag.oldest
        self._lag_records.labels(table).set(lag.records)
        self._oldest.labels(table).set(oldest or 0.0)
        self._lag_seconds.labels(table).set_function(
            lambda: 0.0 if oldest is None else max(0.0, time.time() - oldest)
        )

    def show_still(self, query: str, seconds: Callable[[], float]) -> None:
        """Show how long a query has been stuck, evaluated at each scrape."""
        self._still.labels(query).set_function(seconds)

    def show_complete_until(self, topology: str, moment: float) -> None:
        """Show the last audit's time of completeness, in seconds since 1970."""
        self._complete_until.labels(topology).set(moment)
