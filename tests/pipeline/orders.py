"""A topic of orders, tables with all rules, and their expected contents in plain Python."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, json_records
from kstorm_pipeline.run import run
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.pipeline.topic import Topic

NOON = 1_700_000_000_000
COLUMNS = "customer STRING, amount DECIMAL(18,2), status STRING, at BIGINT"


def orders_pipeline() -> Pipeline:
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
        more = {
            "orders": sf.lit(1),
            "first": sf.col("at"),
            "last": sf.col("at"),
            "length": sf.length("customer"),
        }
        return fresh.withColumns(more)

    @pipeline.gold("by_time", keys=["customer"], latest=["status"], order="at")
    def by_time(fresh: DataFrame) -> DataFrame:
        return fresh

    @pipeline.gold("grouped", keys=["customer"], add=["orders"], latest=["at"])
    def grouped(fresh: DataFrame) -> DataFrame:
        last = sf.max(sf.timestamp_millis("at")).alias("at")
        return fresh.groupBy("customer").agg(sf.count("*").alias("orders"), last)

    @pipeline.gold("written", keys=["customer"], latest=["status"], order="sink", replays=True)
    def written(rows: DataFrame) -> DataFrame:
        return rows

    return pipeline


@dataclass
class Orders:
    """A topic of orders with its tables, and their expected contents in plain Python."""

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
        """Write a record made from the message `<partition>-<offset>`. The same message again is a
        replay."""
        body = {"customer": customer, "amount": amount, "status": status, "at": at}
        self.topic.put(json.dumps(body), lineage=f"lines-{source}-0", at=NOON + at)
        self.seen.setdefault(source, (amount, customer, status, at, len(self.seen)))
        self.last[customer] = status

    def run(self) -> None:
        self.topic.flush()
        run(self.spark, self.settings, self.tables, self.pipeline)

    def rows(self, table: str, *columns: str) -> dict[Any, Any]:
        """Return a table by its key. Fails on a duplicate key."""
        rows = self.tables.read(self.spark, table).select("customer", *columns).collect()
        found = {row[0]: row[1] if len(columns) == 1 else tuple(row[1:]) for row in rows}
        assert len(found) == len(rows), f"a key is in {table} twice"
        return found

    def check(self) -> None:
        customers = {order[1] for order in self.seen.values()}
        of = {
            name: [order for order in self.seen.values() if order[1] == name] for name in customers
        }
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
            name: max(found, key=lambda order: (order[3], order[4]))[2]
            for name, found in of.items()
        }
        assert self.rows("grouped", "orders", "at") == {
            name: (len(found), datetime.fromtimestamp(max(order[3] for order in found) / 1000))
            for name, found in of.items()
        }
        assert self.rows("written", "status") == self.last
