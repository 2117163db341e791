"""From a compacted topic, through an exactly-once topology with a join and a state, to the tables."""

import json
import math
import uuid
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm_pipeline import Pipeline, json_records, report
from kstorm_pipeline.audit.audit import audit
from kstorm_pipeline.audit.window import Times
from kstorm_pipeline.monitor.lag import TableLag
from kstorm_pipeline.monitor.topic_lag import TopicLag
from kstorm_pipeline.run import run
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables
from tests.integration.engine import running
from tests.pipeline.conftest import await_condition

pytestmark = pytest.mark.timeout(900)

IDS = [None, None, 0.1, 1e22, 5e-324, True, 2**53 + 1, "0.1", "é", ""]
"""IDs to join by. The number 0.1 and the text "0.1" differ. None joins nothing."""
VALUES = [0.1, 0.30000000000000004, 5e-324, 1.7976931348623157e308, 1e22, -0.0, 123456789.125]
FIRST, SECOND, END = 5_000, 15_000, 1_000_000
"""Times in two windows, and in a later one."""


def lines(at: int, shift: int) -> list[dict[str, Any]]:
    """Return the rows of both sides. Each ID has one row on the left, and one with a partner."""
    found = []
    for number, id in enumerate(IDS):
        value = VALUES[(number + shift) % len(VALUES)]
        found.append({"side": "left", "id": id, "value": value, "at": at})
        if number % 2 == 0:
            found.append({"side": "right", "id": id, "value": -value, "at": at})
    return found


def expected(at: int, shift: int) -> list[tuple[Any, ...]]:
    """Return the rows of silver: id, whether the key is null, at, value, partner, first."""
    found: list[tuple[Any, ...]] = []
    for number, id in enumerate(IDS):
        value = VALUES[(number + shift) % len(VALUES)]
        partner = -value if number % 2 == 0 and id is not None else None
        first = None if id is None else VALUES[number % len(VALUES)]
        found.append((repr(id), id is None, at, value, partner, first))
    return found


class World:
    """The source, which is compacted, and the sink, which has records of aborted transactions."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap, self.name = bootstrap, f"values-{uuid.uuid4().hex[:8]}"
        self.source, self.sink = f"{self.name}-in", f"{self.name}-out"
        compacted = {
            "cleanup.policy": "compact",
            "segment.ms": "50",
            "min.cleanable.dirty.ratio": "0.001",
            "max.compaction.lag.ms": "100",
        }
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(self.source, 2, 1, config=compacted), NewTopic(self.sink, 2, 1)]
        for made in admin.create_topics(topics).values():
            made.result(30)
        self._keys = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Write each row under a key of its own, after records that neither side has, and
        that compaction removes."""
        for row in rows:
            self._keys += 1
            for value in [{**row, "side": "old"}] * 3 + [row]:
                self._producer.produce(
                    self.source, json.dumps(value), str(self._keys), partition=self._keys % 2
                )
        assert self._producer.flush(30) == 0

    def end(self, at: int, id: str) -> None:
        """Write a row to each partition that closes all windows before it."""
        for partition in range(2):
            row = {"side": "right", "id": id, "value": 0.0, "at": at}
            self._producer.produce(self.source, json.dumps(row), f"{id}{partition}", partition)
        assert self._producer.flush(30) == 0

    def abort(self, topic: str, count: int) -> None:
        """Write records in a transaction that is aborted."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.name})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, b'{"id": "aborted"}', b"a", partition=number % 2)
        producer.flush(30)
        producer.abort_transaction(30)

    def records(self, topic: str) -> tuple[list[bytes | None], int]:
        """Return the committed values of a topic, and the sum of its ends."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "t",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        values, ends = [], 0
        try:
            for partition in range(2):
                place = TopicPartition(topic, partition, 0)
                ends += consumer.get_watermark_offsets(place, 30)[1]
                consumer.assign([place])
                while (message := consumer.poll(30)) is not None and message.error() is None:
                    values.append(message.value())
        finally:
            consumer.close()
        return values, ends


@pytest.fixture
def world(settings: Settings) -> World:
    return World(settings.bootstrap_servers)


def shown(id: str) -> str:
    """Return an ID as Python shows it. Spark writes some numbers in its own way."""
    return repr(json.loads(id))


def tables_of() -> Pipeline:
    """Return silver with each field, and sums of each ID in gold."""
    columns = "id VARIANT, at BIGINT, value DOUBLE, partner DOUBLE, first DOUBLE"
    pipeline = Pipeline(records=json_records(columns, key="k"))

    @pipeline.silver
    def silver(rows: DataFrame) -> DataFrame:
        return rows.withColumn("id", sf.to_json("id"))

    @pipeline.gold("by_id", keys=["id"], add=["rows", "partners"])
    def by_id(fresh: DataFrame) -> DataFrame:
        partners = sf.when(sf.col("partner").isNull(), 0).otherwise(1)
        return fresh.withColumns({"rows": sf.lit(1), "partners": partners})

    return pipeline


@pytest.mark.slow
def test_values_and_null_keys_reach_the_tables(
    spark: SparkSession,
    settings: Settings,
    zookeeper: EmbeddedZooKeeper,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kafka: Any,
) -> None:
    """Offsets without a record are neither lag nor lost, in the source and in the sink."""
    world.write(lines(FIRST, 0))
    world.abort(world.source, 10)
    world.end(10_500, "middle")
    await_condition(
        lambda: b'"old"' not in b"".join(value or b"" for value in world.records(world.source)[0])
    )
    environment = {"KSTORM_TEST_GUARANTEE": "exactly_once"}
    with running(
        "values",
        world.name,
        kafka,
        zookeeper,
        tmp_path / "run",
        monkeypatch,
        settings=environment,
        anew=False,
    ) as engine:
        await_condition(lambda: len(world.records(world.sink)[0]) == len(IDS))
        world.abort(world.sink, 10)
        # A bolt without state has to receive the watermark of each spout process again.
        for component in ("left", "first"):
            for worker in engine.processes.of(component):
                worker.process.kill()
        world.write(lines(SECOND, 3))
        world.end(END, "end")
        world.abort(world.source, 10)
        await_condition(lambda: len(world.records(world.sink)[0]) == 2 * len(IDS))
        world.abort(world.sink, 10)

        def lag() -> float:
            found = [worker.status() for worker in engine.processes.of("rows")]
            return sum(status["source"]["lag"] if status else math.inf for status in found)

        await_condition(lambda: lag() == 0)
        engine.stop()
    written, ends = world.records(world.sink)
    assert ends > len(written) + 20, "the sink has offsets without a record"
    own = replace(
        settings,
        topology=world.name,
        zookeeper=zookeeper.connect,
        topic=world.sink,
        tables=str(tmp_path / "tables"),
    )
    tables = Tables(own.tables)
    run(spark, own, tables, tables_of())
    silver = [
        (shown(row.id), row.k is None, row["at"], row.value, row.partner, row["first"])
        for row in tables.read(spark, "silver").collect()
    ]
    wanted = expected(FIRST, 0) + expected(SECOND, 3)
    assert Counter(map(repr, silver)) == Counter(map(repr, wanted))
    gold = {
        shown(row.id): (row.rows, row.partners) for row in tables.read(spark, "by_id").collect()
    }
    made = {
        id: (
            sum(one[0] == id for one in wanted),
            sum(one[0] == id and one[4] is not None for one in wanted),
        )
        for id in {one[0] for one in wanted}
    }
    assert gold == made
    assert report.summary(spark, tables) == {
        "bronze": len(written),
        "silver": len(written),
        "quarantine": 0,
        "by_id": len(made),
    }
    with closing(TopicLag(spark, own)) as topic:
        assert topic.find() == TableLag()
    outcome = audit(spark, own, tables, Times(None, None), 0)
    assert outcome.faults == []
    assert outcome.proof is not None
    assert outcome.proof.said > 0
    left, source_ends = world.records(world.source)
    (counts,) = [outcome.summary()["outcomes"]]
    assert sum(counts.values()) == len(left) < source_ends
    assert counts.keys() <= {"done", "acked", "committed"}, counts
    other = replace(own, topic=world.source, tables=str(tmp_path / "others"))
    run(spark, other, Tables(other.tables), Pipeline())
    assert report.summary(spark, Tables(other.tables))["silver"] == len(left)
    with closing(TopicLag(spark, other)) as topic:
        assert topic.find() == TableLag()
