"""A topic for any records, and bronze rows without a topic."""

import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from kstorm_pipeline.ddl import columns_of
from kstorm_pipeline.tables import BRONZE

DAY = datetime(2026, 1, 1, tzinfo=UTC)


class Topic:
    """A separate topic that tests write to."""

    def __init__(self, bootstrap: str, partitions: int = 2) -> None:
        self.bootstrap, self.topic = bootstrap, f"any-{uuid.uuid4().hex[:8]}"
        new = NewTopic(self.topic, partitions, 1, config={"retention.ms": "-1"})
        admin = AdminClient({"bootstrap.servers": bootstrap})  # the request ends with its client
        admin.create_topics([new])[self.topic].result(30)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})

    def put(
        self,
        value: bytes | str | None,
        key: bytes | str | None = None,
        *,
        lineage: str = "",
        partition: int = 0,
        at: int | None = None,
    ) -> None:
        """Write a record. `lineage` is `<topic>-<partition>-<offset>-<part>`."""
        self._producer.produce(
            self.topic,
            value=value,
            key=key,
            partition=partition,
            timestamp=at or int(time.time() * 1000),
            headers=list(lineage_headers(lineage).items()),
        )

    def flush(self) -> None:
        assert self._producer.flush(30) == 0


def lineage_headers(lineage: str) -> dict[str, bytes]:
    names = ("topic", "partition", "offset", "part")
    parts = lineage.rsplit("-", 3) if lineage else []
    return {
        f"kstorm-source-{name}": part.encode() for name, part in zip(names, parts, strict=False)
    }


def bronze(spark: SparkSession, values: Sequence[bytes | None], **columns: Any) -> DataFrame:
    """Return bronze rows with these values, at the offsets 0, 1, …"""
    same: Mapping[str, Any] = {
        "key": None,
        "topic": "t",
        "partition": 0,
        "timestamp": DAY,
        "headers": None,
    } | columns
    rows = [{**same, "value": value, "offset": offset} for offset, value in enumerate(values)]
    schema = columns_of(BRONZE)
    return spark.createDataFrame(
        [tuple(row[name] for name in schema.names) for row in rows], schema
    )


def as_of_stream(rows: DataFrame) -> DataFrame:
    """Return the rows as a streaming query passes them to its function. Their plan is cut off, so a
    batch's offsets are not in the code that Spark generates. Otherwise each batch would have its
    own code."""
    plan = rows._jdf
    session = rows.sparkSession
    made = session._jsparkSession.internalCreateDataFrame(
        plan.queryExecution().toRdd(), plan.schema(), False
    )
    return DataFrame(made, session)
