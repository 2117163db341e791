"""The audit: missing messages and outputs are reported."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from kstorm.core.dead_letters import FAILED, DeadLetter, LetterError, roots_of
from kstorm.core.origins import OriginRun
from kstorm.core.wire import VERSION, AckFrame, encode, pack_ids
from kstorm.dev.servers import EmbeddedKafka
from kstorm_pipeline import PipelineError
from kstorm_pipeline.audit import audit as module
from kstorm_pipeline.audit.audit import AuditOutcome, audit
from kstorm_pipeline.audit.findings import COMPLETE
from kstorm_pipeline.audit.ranges import SpoutReading
from kstorm_pipeline.audit.window import Times, parse_time, source_messages
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.storage import list_names, read_text
from kstorm_pipeline.tables import Tables
from tests.pipeline.orders import NOON, Orders
from tests.pipeline.topic import Topic

pytestmark = pytest.mark.timeout(
    900
)  # on two calm cores a minute; with ten others on them ten times that

NODE = "/spouts/lines"


class Audited:
    """A source with ten messages, and a topology's reports on them."""

    def __init__(self, spark: SparkSession, settings: Settings, bootstrap: str) -> None:
        self.topology = f"t{uuid.uuid4().hex[:8]}"
        self.source = Topic(bootstrap, partitions=1)
        self.spark, self.settings = (
            spark,
            replace(settings, bootstrap_servers=bootstrap, topology=self.topology),
        )
        self.tables = Tables(settings.tables)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        names = [f"{self.topology}.__finished", f"{self.topology}.__dead_letters"]
        for made in self._admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            made.result(30)
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for number in range(10):
            self.source.put(f"message {number}", at=NOON + number * 1000)
        self.source.flush()

    @property
    def reading(self) -> SpoutReading:
        return SpoutReading(NODE, self.source.topic, 0)

    def say(self, start: int, end: int, **more: Any) -> None:
        """Write a finished range."""
        n = more.pop("n", {"acked": end - start})
        place = {
            "reading": NODE,
            "topic": self.source.topic,
            "partition": 0,
            "spout": "lines",
            "task": 1,
        }
        said = {"v": 1, **place, "from": start, "to": end, "n": n, **more}
        self._producer.produce(f"{self.topology}.__finished", json.dumps(said))

    def bury(self, offset: int) -> None:
        """Write a dead letter."""
        letter = {
            "topology": self.topology,
            "topic": self.source.topic,
            "partition": 0,
            "offset": offset,
            "reason": "why",
        }
        self._producer.produce(f"{self.topology}.__dead_letters", json.dumps(letter))

    def bury_tuple(self, *roots: int) -> None:
        """Write the dead letter of a bolt's tuple."""
        letter = DeadLetter(
            topology=self.topology,
            component="check",
            task=7,
            reason="failed 10 times",
            topic=f"{self.topology}.split",
            partition=2,
            offset=40,
            row=3,
            kind=FAILED,
            error=LetterError(type="ValueError"),
            roots=roots_of(roots),
        )
        self._producer.produce(f"{self.topology}.__dead_letters", msgspec.json.encode(letter))

    def begin_trees(self, first: int, roots: Sequence[int]) -> None:
        """Write the inits of consecutive messages' trees into the ackers' topic."""
        ids = pack_ids(roots)
        origins = [OriginRun(self.source.topic, 0, 1, len(roots), first)]
        frame = AckFrame(VERSION, 1, ids, ids, ids, ids, origins=origins)
        topic = f"{self.topology}.__acker"
        self._admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        self._producer.produce(topic, encode(frame))

    def discard(self, key: str) -> None:
        """Write a tombstone."""
        self._producer.produce(f"{self.topology}.__dead_letters", None, key)

    def audit(self, expect: int = 0, since: str = "", until: str = "") -> AuditOutcome:
        assert self._producer.flush(30) == 0
        times = Times(parse_time(since) if since else None, parse_time(until) if until else None)
        return audit(self.spark, self.settings, self.tables, times, expect)


@pytest.fixture
def audited(
    spark: SparkSession, settings: Settings, kafka: EmbeddedKafka, tmp_path: Path
) -> Audited:
    return Audited(spark, replace(settings, tables=str(tmp_path)), kafka.bootstrap)


def faults(outcome: AuditOutcome) -> list[tuple[str, int, int]]:
    return [(each.what, each.first, each.end) for each in outcome.faults]


def test_complete_topology_has_no_faults(audited: Audited) -> None:
    """With overlapping ranges, and messages that are dead, empty or not yet due."""
    audited.say(0, 4, n={"acked": 3, "dead": 1}, dead=[[2, 3]])
    audited.say(3, 8, n={"acked": 4, "empty": 1}, empty=[[5, 6]])
    audited.bury(2)
    outcome = audited.audit()
    assert faults(outcome) == []
    (tally,) = outcome.tallies
    assert (tally.reading, tally.messages) == (audited.reading, 10)
    assert tally.outcomes == {"done": 6, "dead": 1, "empty": 1, "not due": 2}
    assert outcome.complete_until == parse_time("2023-11-14T22:13:28")
    noted = read_text(audited.spark, f"{audited.tables.path(COMPLETE)}/{audited.topology}")
    assert float(noted) == outcome.complete_until.timestamp()
    row = audited.tables.read(audited.spark, "audit_windows").collect()[0]
    assert (row.topology, row.done, row.not_due, row.gap, row.findings, row.except_tuples) == (
        audited.topology,
        6,
        2,
        0,
        0,
        0,
    )


@pytest.mark.slow
def test_done_message_names_the_dead_letter_of_its_tuple(audited: Audited) -> None:
    """A tuple of two messages counts for both. It is not a fault."""
    audited.say(0, 10)
    highest = (1 << 64) - 1
    audited.begin_trees(2, [highest, 12, 13])
    audited.bury_tuple(highest, 13)
    audited.bury_tuple(13)
    audited.bury_tuple(99)
    outcome = audited.audit()
    assert faults(outcome) == []
    assert outcome.summary()["except_tuples"] == 2
    found = [each for each in outcome.findings if each.what == "done, except for a tuple"]
    assert [(each.first, each.end, each.note) for each in found] == [
        (2, 3, "dead letter 0 (check: ValueError)"),
        (4, 5, "dead letter 0 (check: ValueError), dead letter 1 (check: ValueError)"),
    ]
    (row,) = audited.tables.read(audited.spark, "audit_windows").collect()
    assert row.except_tuples == 2


@pytest.mark.slow
def test_discarded_dead_letter_is_accounted_for(audited: Audited) -> None:
    """Kafka retains its key as long as the ranges. Other keys do not count for this partition."""
    audited.say(0, 10, n={"acked": 8, "dead": 2}, dead=[[2, 4]])
    for key in (
        f"{audited.source.topic}/0/2/lines",
        f"{audited.source.topic}/1/3/lines",
        "lines/1/9f",
        "a/b/c/d",
    ):
        audited.discard(key)
    assert faults(audited.audit()) == [("no dead letter", 3, 4)]


def test_gap_is_reported(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle, and after the last range if a later offset is stored, as by a spout that
    stores an offset too far."""
    audited.say(0, 5)
    audited.say(6, 9)
    outcome = audited.audit()
    assert faults(outcome) == [("gap", 5, 6)]
    assert outcome.complete_until == parse_time("2023-11-14T22:13:25")
    audited.settings = replace(audited.settings, zookeeper="somewhere")
    monkeypatch.setattr(module, "stored_offsets", lambda *_: {audited.reading: 12})
    outcome = audited.audit()
    assert faults(outcome) == [("gap", 5, 6), ("gap", 9, 12)]
    assert (
        str(outcome.faults[1])
        == f"gap: {audited.source.topic}[0] 9 to 11 (/spouts/lines): the stored offset is 12"
    )
    assert outcome.summary()["gaps"] == 1 + 3
    found = (
        audited.tables.read(audited.spark, "audit_exceptions")
        .where("what = 'gap'")
        .orderBy("checked", "first")
    )
    assert [(row.level, row.first, row.end) for row in found.collect()] == [
        (0, 5, 6),
        (0, 5, 6),
        (0, 9, 12),
    ]


@pytest.mark.slow
def test_missing_dead_letter_is_reported(audited: Audited) -> None:
    audited.say(0, 10, n={"acked": 7, "dead": 3}, dead=[[2, 4], [8, 9]])
    audited.bury(2)
    audited.bury(8)
    assert faults(audited.audit()) == [("no dead letter", 3, 4)]


@pytest.mark.slow
def test_passed_over_message_is_reported(audited: Audited) -> None:
    """Its range claims an offset without a message, but there is a message at each."""
    audited.say(0, 6)
    audited.say(6, 10, n={"acked": 3, "absent": 1})
    assert faults(audited.audit()) == [("a message was passed over", 6, 10)]


@pytest.mark.slow
def test_skip_is_reported_with_operator_and_reason(audited: Audited) -> None:
    """It is not a fault. Offsets after a step back have to come again."""
    audited.say(0, 8)
    audited.say(
        8,
        10,
        n={"skipped": 2},
        skipped=[{"from": 8, "to": 10, "why": "offsets set", "who": "ann@laptop"}],
    )
    audited.say(
        10, 6, n={}, skipped=[{"from": 10, "to": 6, "why": "offsets reset", "who": "ann@laptop"}]
    )
    audited.say(6, 8)
    audited.say(
        8,
        10,
        n={"skipped": 2},
        skipped=[{"from": 8, "to": 10, "why": "offsets set", "who": "bob@laptop"}],
    )
    outcome = audited.audit()
    assert faults(outcome) == []
    assert [str(each) for each in outcome.findings] == [
        f"skipped: {audited.source.topic}[0] 8 to 9 (/spouts/lines): offsets set (by bob@laptop)"
    ]


@pytest.mark.slow
def test_topics_that_contain_the_sources_name_are_not_read(audited: Audited) -> None:
    """Such as the topics between services."""
    name = audited.source.topic
    others = [f"{name}.more", f"{audited.topology}.{name}"]
    admin = AdminClient({"bootstrap.servers": audited.settings.bootstrap_servers})
    producer = Producer({"bootstrap.servers": audited.settings.bootstrap_servers, "log_level": 0})
    for other, made in admin.create_topics([NewTopic(other, 1, 1) for other in others]).items():
        made.result(30)
        producer.produce(other, b"?")
    assert producer.flush(30) == 0
    messages = source_messages(audited.spark, audited.settings, [name], Times())
    assert [row.topic for row in messages.select("topic").distinct().collect()] == [name]


@pytest.mark.slow
def test_time_window_limits_the_audit(audited: Audited) -> None:
    audited.say(3, 7)
    outcome = audited.audit(since="2023-11-14T22:13:23", until="2023-11-14T22:13:27")
    assert faults(outcome) == []
    assert [(each.first, each.end, each.messages) for each in outcome.tallies] == [(3, 7, 4)]
    assert outcome.complete_until == parse_time("2023-11-14T22:13:27")
    assert not list_names(audited.spark, audited.tables.path(COMPLETE)), (
        "what is found of the past says nothing of now"
    )


@pytest.mark.slow
def test_acked_messages_without_a_record_are_counted_and_listed(
    audited: Audited, orders: Orders
) -> None:
    """They are faults only if each message must have a record. A record of an empty message is a
    fault."""
    audited.say(0, 10, n={"acked": 9, "empty": 1}, empty=[[4, 5]])
    for number in (0, 1, 2, 4, 5, 6, 7, 9):
        orders.topic.put("{}", lineage=f"{audited.source.topic}-0-{number}-0")
    orders.topic.put("{}", lineage=f"{audited.source.topic}-0-1-1")
    orders.run()
    audited.tables = orders.tables
    outcome = audited.audit()
    assert faults(outcome) == [("a record of a message that was not processed", 4, 5)]
    assert [(each.what, each.first) for each in outcome.findings if not each.fault] == [
        ("acked without a record", 3),
        ("acked without a record", 8),
    ]
    (tally,) = outcome.tallies
    assert (tally.outputs, tally.without_output) == (9, 2)
    assert ("acked without a record", 3, 4) in faults(audited.audit(expect=1))


@pytest.mark.slow
def test_topology_without_ranges(audited: Audited) -> None:
    """A topology that has read nothing is complete. An unknown topology is an error in one line."""
    assert audited.audit().tallies == []
    audited.settings = replace(audited.settings, topology="nobody")
    with pytest.raises(
        PipelineError,
        match=r"there is no topic 'nobody.__finished': is 'nobody' the topology's name",
    ) as error:
        audited.audit()
    assert "\n" not in str(error.value)
