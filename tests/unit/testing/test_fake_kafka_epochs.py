"""Transactions of `FakeKafka`: delivery with an epoch, obstacles, and the start of spouts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kstorm.kafka import FieldNameBasedTupleToKafkaMapper, KafkaBolt, KafkaSpout
from kstorm.kafka.ports import Partition
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka, PermanentRefusal
from kstorm.testing.kafka.broker import PendingRequests
from kstorm.testing.kafka.committed_records import FakePositions
from kstorm.testing.kafka.writer import MAX_BYTES
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)
from tests.unit.testing.test_fake_kafka import config, out, produced

PLACE = Partition("lines", 0)


class Upper(BasicBolt):
    """Writes lines in capitals. Some lines give no record, and a leading dash gives no key."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "message", "offset")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        line = tuple["str"]
        collector.emit(
            [None if line[:1] == "-" else line, None if line == "gone" else line.upper(), 7]
        )


class Twice(Upper):
    """Writes each line twice."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        super().execute(tuple, collector)
        super().execute(tuple, collector)


def exact(sink: KafkaBolt | None = None, bolt: Upper | None = None) -> Topology:
    builder = TopologyBuilder(
        "t", Config(topology_processing_guarantee="exactly_once", topology_message_timeout_secs=10)
    )
    builder.set_spout("lines", KafkaSpout(config()))
    builder.set_bolt("upper", bolt or Upper()).shuffle_grouping("lines")
    builder.set_bolt("sink", (sink or KafkaBolt()).with_topic_selector("out")).shuffle_grouping(
        "upper"
    )
    return builder.build()


@pytest.mark.parametrize("waits", [False, True])
def test_records_arrive_as_they_were_written(waits: bool) -> None:
    """Values are UTF-8 text or tombstones, and headers stay.

    Records without a key use each partition.
    """
    kafka = produced("caf\u00e9", "gone", "-1", "-2", partitions=1)
    sink = KafkaBolt().with_lineage("lines").with_async(not waits)
    with kafka.cluster(exact(sink)) as cluster:
        cluster.run_until_idle()
        records = kafka.records("out")
        assert {(record.key(), record.value()) for record in records} == {
            (b"caf\xc3\xa9", b"CAF\xc3\x89"),
            (b"gone", None),
            (None, b"-1"),
            (None, b"-2"),
        }
        headers = [dict(record.headers() or ()) for record in records]
        assert {own["kstorm-source-topic"] for own in headers} == {b"lines"}
        assert {own["kstorm-source-offset"] for own in headers} == {b"7"}
        assert {record.partition() for record in records if record.key() is None} == {0, 1}


def test_partitions_learn_of_a_commit_one_by_one() -> None:
    """A reader may find some records of an epoch before the others, as with Kafka's commit markers."""
    found_apart = 0
    for seed in range(5):
        kafka = produced("-1", partitions=1)
        with kafka.cluster(exact(bolt=Twice()), seed) as cluster:
            while len(kafka.records("out")) < 2:
                cluster.step()
                found_apart += len(kafka.records("out")) == 1
            cluster.run_until_idle()
            assert out(kafka) == {"-1": 2}
    assert found_apart


def refuse_b(kafka: FakeKafka) -> Callable[[], None]:
    def refuse(topic: str, key: bytes | None, value: bytes | None) -> str | None:
        return "quota exceeded" if (topic, value) == ("out", b"B") else None

    kafka.refuse = refuse
    return partial(setattr, kafka, "refuse", lambda *record: None)


def delete_topic(kafka: FakeKafka) -> Callable[[], None]:
    kafka.delete_topic("out")
    return partial(kafka.create_topic, "out")


def be_away(kafka: FakeKafka) -> Callable[[], None]:
    kafka.away = True
    return partial(setattr, kafka, "away", False)


@pytest.mark.parametrize(
    ("trouble", "why"),
    [(refuse_b, "record for topic 'out': quota exceeded"), (delete_topic, "there is no out[0]")],
)
def test_an_epoch_waits_whole(trouble: Callable[[FakeKafka], Callable[[], None]], why: str) -> None:
    """One refused record delays the whole epoch. Later the same records are written.

    Nothing is executed again for it, and the error is reported once.
    """
    kafka = produced("a", "b", "c", partitions=1)
    mend = trouble(kafka)
    with kafka.cluster(exact()) as cluster:
        cluster.advance_time(20)
        (error,) = [
            error for error in cluster.errors if error.component == "sink"
        ]  # the spout reports slow trees too
        assert why in str(error.error)
        assert cluster.acked("lines") == []
        assert cluster.seen["record refused"] > 1
        mend()
        cluster.advance_time(20)
        assert out(kafka) == {"A": 1, "B": 1, "C": 1}
        assert (len(cluster.acked("lines")), cluster.failed("lines")) == (3, [])
        assert [error for error in cluster.errors if error.component == "sink"] == [error]
        assert cluster.emitted("upper") == [["a", "A", 7], ["b", "B", 7], ["c", "C", 7]]


def test_an_epoch_is_given_up_after_a_minute() -> None:
    """The process exits. After the record is accepted, the restarted process writes the epoch."""
    kafka = produced("a", "b", partitions=1)
    mend = refuse_b(kafka)
    with kafka.cluster(exact()) as cluster:
        cluster.advance_time(70)
        assert cluster.seen["epoch given up"] == 1
        mend()
        cluster.advance_time(150)
        assert out(kafka) == {"A": 1, "B": 1}
        assert (cluster.dead_letters, cluster.open_trees) == ([], 0)


def test_an_epoch_waits_for_servers_that_are_away() -> None:
    """The outage may exceed the broker's transaction timeout. Then the process restarts."""
    kafka = produced("a", "b", partitions=1)
    with kafka.cluster(exact()) as cluster:
        while not cluster.emitted("upper"):
            cluster.step()
        kafka.away = True
        cluster.advance_time(40)
        assert out(kafka) == {}
        kafka.away = False
        cluster.advance_time(150)
        assert out(kafka) == {"A": 1, "B": 1}


def test_a_crash_before_the_commit_leaves_nothing_in_the_topic() -> None:
    """The open transaction of the crashed process does not count either."""
    kafka = produced("a", "b", partitions=1)
    with kafka.cluster(exact()) as cluster:
        while not ((at := cluster.processes("sink")[0].transacting) and at.handed_in):
            cluster.step()
        cluster.crash("sink")
        assert out(kafka) == {}
        cluster.run_until_idle()
        assert out(kafka) == {"A": 1, "B": 1}


def test_own_producers_are_not_in_the_way() -> None:
    """With at least once, records are visible while their tuples' acks wait."""
    kafka = produced("a", partitions=1)
    topology = TopologyBuilder("t")
    topology.set_spout("lines", KafkaSpout(config()))
    topology.set_bolt("upper", Upper()).shuffle_grouping("lines")
    topology.set_bolt("sink", KafkaBolt().with_topic_selector("out")).shuffle_grouping("upper")
    with kafka.cluster(topology.build()) as cluster:
        cluster.run_until_idle()
        assert out(kafka) == {"A": 1}
        assert cluster.processes("sink")[0].transacting is None


def test_a_spout_starts_at_its_position() -> None:
    """ZooKeeper's offset is older, and counts only if Kafka has no position."""
    kafka, topology = produced("a", "b", "c", partitions=1), exact()
    kafka.store_offset(config(), 1)
    with kafka.cluster(topology) as cluster:
        cluster.run_until_idle()
        assert out(kafka) == {"B": 1, "C": 1}
        assert kafka.stored_offset(config()) == 1
        cluster.crash("lines")
        cluster.run_until_idle()
        assert out(kafka) == {"B": 1, "C": 1}
        kafka.produce("lines", "d")
        cluster.advance_time(5)
        assert out(kafka) == {"B": 1, "C": 1, "D": 1}
        assert kafka.stored_offset(config()) == 4


def test_two_spouts_of_one_topic_have_positions_of_their_own() -> None:
    """Each spout reads all records."""
    kafka = produced("a", "b", partitions=1)
    builder = TopologyBuilder("t", Config(topology_processing_guarantee="exactly_once"))
    for name in ("lines", "again"):
        builder.set_spout(name, KafkaSpout(replace(config(), id=name)))
    builder.set_bolt("upper", Upper()).shuffle_grouping("lines").shuffle_grouping("again")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("out")).shuffle_grouping("upper")
    with kafka.cluster(builder.build()) as cluster:
        world = cluster.processes("lines")[0].world
        while 2 not in (world.position("lines", PLACE), world.position("again", PLACE)):
            cluster.step()
        assert world.position("lines", PLACE) != world.position("again", PLACE)
        cluster.crash("lines")
        cluster.crash("again")
        cluster.run_until_idle()
        assert out(kafka) == {"A": 2, "B": 2}


@pytest.mark.parametrize("seed", range(5))
def test_an_heir_waits_for_the_position_of_a_zombie(seed: int) -> None:
    """The zombie's transaction may still be committed, so its messages must not be emitted again."""
    kafka = produced("a", "b", partitions=1)
    with kafka.cluster(exact(), seed) as cluster:
        while not (
            (at := cluster.processes("lines")[0].transacting) and at.handed_in and at.effect.records
        ):
            cluster.step()
        cluster.pause("lines")
        cluster.advance_time(50)
        assert out(kafka) == {"A": 1, "B": 1}


def test_a_position_is_answered_later() -> None:
    """The answer does not come in the call itself, nor during an outage or an open transaction.

    Each later call asks again.
    """
    answers, committed = PendingRequests(), Counter[Partition]()
    is_open = False
    reader = FakePositions(answers, lambda place: None if is_open else committed.get(place, -1))
    assert reader.position(PLACE) is None
    assert reader.position(PLACE) is None
    answers.away = True
    assert not answers.next()
    assert reader.position(PLACE) is None
    answers.away = False
    assert answers.next()
    is_open = True
    assert reader.position(PLACE) is None
    is_open = False
    assert reader.position(PLACE) == -1
    committed[PLACE] = 5
    assert reader.position(PLACE) is None
    assert answers.next()
    assert reader.position(PLACE) == 5
    assert reader.problem() is None


def test_records_stay_in_the_cluster_with_custom_ports() -> None:
    """With a test's own ports, the records of an epoch stay in the topology's cluster."""
    kafka = produced("a", partitions=1)
    lent = {name: port for name, port in kafka.resources.items() if name == "kafka"}
    with LocalCluster(exact(), resources=lent) as cluster:
        for _ in range(20):
            cluster.run_until_idle()
            kafka.settle()
            cluster.wake()
        assert cluster.sent("out") == [b"A"]
        assert out(kafka) == {}


class Blow(FieldNameBasedTupleToKafkaMapper):
    """Makes one record exceed the fake's limit."""

    def get_message_from_tuple(self, tuple: Tuple) -> Any:
        message = super().get_message_from_tuple(tuple)
        return message * MAX_BYTES if message == "B" else message


@pytest.mark.parametrize("refused", [True, False])
def test_permanently_refused_record_is_a_dead_letter(refused: bool) -> None:
    """The letter is in the epoch of its neighbours, which is written.

    So nothing waits, and nothing is executed again.
    """
    kafka = produced("a", "b", "c", partitions=1)
    sink = KafkaBolt()
    if refused:
        kafka.refuse = lambda topic, key, value: (
            PermanentRefusal("it is odd") if value == b"B" else None
        )
    else:
        sink.with_tuple_to_kafka_mapper(Blow())
    with kafka.cluster(exact(sink)) as cluster:
        cluster.run_until_idle()
        assert out(kafka) == {"A": 1, "C": 1}
        (letter,) = cluster.dead_letters
        assert (letter.component, letter.topic, letter.key, (letter.value or b"")[:1]) == (
            "sink",
            "out",
            b"b",
            b"B",
        )
        assert "a record for the topic 'out' is refused: it is " in letter.reason
        assert [error.component for error in cluster.errors] == ["sink"]
        assert (len(cluster.emitted("upper")), len(cluster.acked("lines")), cluster.pending) == (
            3,
            3,
            0,
        )
