"""`FakeKafka` with late, growing, expiring and recreated topics, and the reactions of its clients."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from kstorm.errors import ArgumentError, BrokerError, NotYetError, TopicError
from kstorm.kafka import (
    EARLIEST_TIME,
    LATEST_TIME,
    Broker,
    FieldNameBasedTupleToKafkaMapper,
    GlobalPartitionInformation,
    KafkaBolt,
    KafkaSpout,
    ProcessingGuarantee,
    StaticHosts,
)
from kstorm.kafka.callback import ProducerCallback, RecordMetadata
from kstorm.kafka.finished_ranges import decode_range
from kstorm.testing import BoltTester, FeederSpout, LocalCluster
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Config, TopologyBuilder, Tuple
from tests.unit.testing.test_fake_kafka import SEEDS, config, out, produced, wired


@pytest.mark.parametrize("seed", SEEDS)
def test_work_continues_after_an_outage(seed: int) -> None:
    """During the outage, nothing is read, written or stored. Work continues after it."""
    kafka, source = produced("a", "b"), config()
    with kafka.cluster(wired(source), seed) as cluster:
        for _ in range(10 * seed):
            cluster.step()
        kafka.away = True
        cluster.advance_time(5)
        before = out(kafka), kafka.stored_offset(source, 0), kafka.stored_offset(source, 1)
        kafka.produce("lines", "c")
        cluster.advance_time(5)
        assert before == (
            out(kafka),
            kafka.stored_offset(source, 0),
            kafka.stored_offset(source, 1),
        )
        spout = cluster.instance("lines")
        assert isinstance(spout, KafkaSpout)
        assert "cannot be reached" in str(spout.problem())
        kafka.away = False
        cluster.advance_time(40)
        assert set(out(kafka)) == {"A", "B", "C"}
        assert [kafka.stored_offset(source, number) for number in (0, 1)] == [2, 1]
        assert spout.problem() is None


def test_late_topic_is_reported_and_found() -> None:
    """The spout reports the missing topic, and reads it after its creation."""
    kafka, source = FakeKafka({"out": 1}), config()
    with kafka.cluster(wired(source)) as cluster:
        cluster.advance_time(5)
        assert "no topic 'lines'" in str(cluster.errors[0].error)
        kafka.create_topic("lines")
        kafka.produce("lines", "a")
        cluster.advance_time(5)
        assert out(kafka) == {"A": 1}


def test_missing_sink_topic_acks_nothing() -> None:
    """Tuples for the missing topic are not acked."""
    kafka = FakeKafka({"lines": 1})
    kafka.produce("lines", "a")
    with kafka.cluster(wired(config(retry_limit=2))) as cluster:
        cluster.advance_time(5)
        told = str(cluster.errors[0].error)
        assert "there is no out[0]: the fake Kafka has the topics lines, t.__dead_letters, " in told
        assert told.endswith("; add one with create_topic")
        (letter,) = cluster.dead_letters
        assert (letter.topic, letter.partition, letter.offset, letter.value) == (
            "lines",
            0,
            0,
            b"a",
        )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
def test_batches_that_cannot_be_decoded(seed: int, guarantee: ProcessingGuarantee) -> None:
    """Each is a dead letter with its first offset.

    Later records are read, and every offset has an outcome.
    """
    kafka, source = produced("a", partitions=1), config(processing_guarantee=guarantee)
    assert kafka.produce_undecodable("lines", 4) == (1, 5)
    kafka.produce("lines", "b")
    kafka.produce_undecodable("lines", 1)
    with kafka.cluster(wired(source), seed) as cluster:
        for _ in range(20 * seed):
            cluster.step()
        cluster.crash("lines")
        cluster.advance_time(40)
        assert set(out(kafka)) <= {"A", "B"}
        if guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
            assert set(out(kafka)) == {"A", "B"}
            assert {
                (letter.topic, letter.partition, letter.offset) for letter in cluster.dead_letters
            } == {("lines", 0, 1), ("lines", 0, 6)}
            assert "the batch of offsets 1 to 4 cannot be decoded" in cluster.dead_letters[0].reason
        assert kafka.stored_offset(source) == 7
        ranges = [decode_range(record.value() or b"") for record in kafka.records("t.__finished")]
        assert {offset for found in ranges for offset in range(found.start, found.end)} == set(
            range(7)
        )


def test_added_partitions_are_read_from_their_start() -> None:
    kafka, source = produced("a", partitions=1), config()
    with kafka.cluster(wired(source, tasks=2)) as cluster:
        cluster.run_until_idle()
        kafka.create_topic("lines", 3)
        for number in range(3):
            kafka.produce("lines", str(number), partition=number)
        cluster.advance_time(70)
        assert out(kafka) == {"A": 1, "0": 1, "1": 1, "2": 1}


def test_many_topics() -> None:
    """A regular expression also matches later topics.

    It matches neither the topology's nor Kafka's own.
    """
    kafka = FakeKafka({"in-a": 1, "in-b": 2, "t.upper": 1, "__in-c": 1, "out": 1})
    source = config(".*in-.*|t.*", kafka_topic_wildcard_match=True)
    for topic in ("in-a", "in-b", "t.upper", "__in-c"):
        kafka.produce(topic, topic)
    with kafka.cluster(wired(source)) as cluster:
        cluster.run_until_idle()
        kafka.create_topic("in-d")
        kafka.produce("in-d", "in-d")
        cluster.advance_time(70)
        assert out(kafka) == {"IN-A": 1, "IN-B": 1, "IN-D": 1}
        assert kafka.stored_offset(source, topic="in-a") == 1


def test_partitions_that_hosts_name() -> None:
    """The spout asks `StaticHosts` instead of the topic."""
    kafka = produced("a", "b")
    information = GlobalPartitionInformation("lines", {1: Broker("one", 9092)})
    with kafka.cluster(wired(config(hosts=StaticHosts(information)))) as cluster:
        cluster.run_until_idle()
        assert out(kafka) == {"B": 1}


@pytest.mark.parametrize(
    ("start", "expected"), [(EARLIEST_TIME, "ABC"), (LATEST_TIME, ""), (2000, "BC"), (9000, "")]
)
def test_spout_starts_by_time(start: int, expected: str) -> None:
    """Without a stored offset, it starts by time."""
    kafka = FakeKafka({"lines": 1, "out": 1})
    for second, line in enumerate("abc", 1):
        kafka.produce("lines", line, timestamp=1000 * second)
    with kafka.cluster(wired(config(start_offset_time=start))) as cluster:
        cluster.run_until_idle()
        kafka.produce("lines", "z", timestamp=9999)
        cluster.run_until_idle()
        assert "".join(sorted(out(kafka))) == f"{expected}Z"


def test_tombstones_keys_and_headers() -> None:
    """A tombstone has no tuple. A bolt's records have its tombstones, keys and headers."""
    kafka = FakeKafka({"lines": 1, "out": 3})
    kafka.produce("lines", None, key="k")
    kafka.produce("lines", "a", key=b"k", headers=[("h", "v"), ("n", None)])
    assert kafka.records("lines")[1].headers() == [("h", b"v"), ("n", None)]
    source = config()
    with kafka.cluster(wired(source, KafkaBolt().with_lineage("lines"))) as cluster:
        cluster.advance_time(3)
        (record,) = kafka.records("out")
        assert (record.topic(), record.key(), record.value()) == ("out", b"a", b"A")
        assert record.headers()
        assert kafka.records("out", record.partition()) == [record]
        assert kafka.stored_offset(source) == 2


def test_equal_keys_are_in_one_partition() -> None:
    """Records without a key are spread over partitions."""
    kafka = FakeKafka({"t": 4})
    assert (
        len({kafka.produce("t", "v", key=f"k{number % 2}").partition() for number in range(20)})
        <= 2
    )
    assert {kafka.produce("t", "v").partition() for _ in range(8)} == {0, 1, 2, 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_at_most_once(seed: int) -> None:
    """Every emitted message was stored as done before."""
    kafka, source = (
        produced(*"abcdef"),
        config(processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE),
    )
    with kafka.cluster(wired(source), seed) as cluster:
        for _ in range(25 + 4 * seed):
            cluster.step()
        cluster.crash("lines")
        cluster.advance_time(5)
        assert max(out(kafka).values(), default=1) == 1
        assert [kafka.stored_offset(source, number) for number in (0, 1)] == [3, 3]


@pytest.mark.parametrize("async_", [True, False])
def test_a_bolt_that_waits_for_each_record(async_: bool) -> None:
    """A waiting bolt gets its report during the wait, and another bolt gets it later."""
    kafka = produced("a", "b", "c")
    with kafka.cluster(wired(config(), KafkaBolt().with_async(async_))) as cluster:
        cluster.run_until_idle()
        assert out(kafka) == {"A": 1, "B": 1, "C": 1}
        kafka.away = True
        kafka.produce("lines", "d")
        cluster.run_until_idle()
        kafka.away = False
        cluster.advance_time(3)
        assert out(kafka)["D"] == 1


def test_a_bolt_by_hand() -> None:
    """The record is written, delivered and reported, in each of three cases."""
    kafka = FakeKafka({"out": 1})
    bolt = (
        KafkaBolt()
        .with_topic_selector("out")
        .with_tuple_to_kafka_mapper(FieldNameBasedTupleToKafkaMapper("k", "m"))
    )
    tester = BoltTester(bolt, "k", "m", resources=kafka.resources)
    message = tester.give(["key", "text"])
    assert (kafka.records("out"), tester.held) == ([], [message])
    assert kafka.act()
    tester.settle()
    assert ([record.value() for record in kafka.records("out")], tester.held) == (
        [b"text"],
        [message],
    )
    assert kafka.act()
    tester.settle()
    assert tester.acked == [message]
    assert not kafka.act()
    kafka.refuse = lambda topic, key, value: "no"
    refused = tester.give(["key", "other"])
    assert kafka.settle()
    tester.settle()
    assert (tester.failed, len(kafka.records("out"))) == ([refused], 1)
    large = tester.give(["key", "x" * 1_000_001])
    kafka.settle()
    tester.settle()
    assert tester.failed == [refused, large]
    assert not kafka.settle()
    tester.close()


def test_separate_producer_is_closed() -> None:
    """Its pending records are sent first. The shared producer stays open."""
    for bolt, left in (
        (KafkaBolt().with_producer_properties({"linger.ms": 1}), False),
        (KafkaBolt(), True),
    ):
        kafka = FakeKafka({"out": 1})
        tester = BoltTester(
            bolt.with_topic_selector("out"), "key", "message", resources=kafka.resources
        )
        tester.give(["k", "m"])
        tester.close()
        assert bool(kafka.records("out")) is not left
        assert kafka.settle() is left


def test_fixed_tuples_into_a_topic(complete_topology: Callable[..., LocalCluster]) -> None:
    """The bolts write the messages of the spouts."""
    kafka = FakeKafka({"out": 1})
    result = complete_topology(wired(config()), {"lines": [["a"], ["b"]]}, kafka=kafka)
    assert sorted(result.acked("lines")) == [0, 1]
    assert out(kafka) == {"A": 1, "B": 1}


def test_the_fixture(local_cluster: Callable[..., LocalCluster]) -> None:
    """A cluster of a fake Kafka belongs to the fixture's clusters."""
    kafka = produced("a")
    cluster = local_cluster(wired(config()), kafka=kafka)
    cluster.run_until_idle()
    assert out(kafka) == {"A": 1}


def test_mistakes_of_a_test() -> None:
    """The errors list the valid names."""
    kafka = FakeKafka({"lines": 2})
    for call in (lambda: kafka.produce("wrods", "x"), lambda: kafka.records("wrods")):
        with pytest.raises(
            TopicError,
            match=r"there is no wrods\[0\]: the fake Kafka has the topics lines; add one",
        ):
            call()
    with pytest.raises(TopicError, match=r"there is no lines\[7\]"):
        kafka.produce("lines", "x", partition=7)
    with pytest.raises(TopicError, match="topic 'lines' has 2 partitions and cannot have 1"):
        kafka.create_topic("lines", 1)
    with pytest.raises(ArgumentError, match="partitions is 0: it must be a whole number of at"):
        FakeKafka({"none": 0})
    kafka.produce("lines", "x", partition=0, offset=5)
    with pytest.raises(
        TopicError, match=r"lines\[0\] ends at 6: a record at offset 5 cannot be added"
    ):
        kafka.produce("lines", "x", partition=0, offset=5)


def test_the_same_seed_gives_the_same_run() -> None:
    """The seed also determines the servers' turns."""

    def run(seed: int) -> list[str]:
        told: list[str] = []
        kafka = produced(*map(str, range(12)))
        cluster: KafkaCluster = kafka.cluster(wired(config(), tasks=2), seed, tell=told.append)
        with cluster:
            for _ in range(100):
                cluster.step()
            cluster.crash("sink")
            cluster.advance_time(30)
        return [*told, *(f"{record}" for record in kafka.records("out"))]

    assert run(3) == run(3)
    assert run(3) != run(4)


class Recorded(ProducerCallback):
    """Records the arguments of the callback."""

    told: ClassVar[list[Any]] = []

    def on_completion(
        self, metadata: RecordMetadata | None, error: BrokerError | None, tuple: Tuple
    ) -> None:
        Recorded.told.append((metadata, error, tuple.values))


def test_producer_callback_gets_successes() -> None:
    """It gets the record's place, as in a service. It also gets refusals."""
    Recorded.told = []
    kafka = FakeKafka({"out": 1})
    feeder = FeederSpout("key", "message")
    builder = TopologyBuilder("t")
    builder.set_spout("feeder", feeder)
    sink = KafkaBolt().with_topic_selector("out").with_producer_callback(Recorded())
    builder.set_bolt("sink", sink).shuffle_grouping("feeder")
    kafka.refuse = lambda topic, key, value: "no" if value == b"bad" else None
    with kafka.cluster(builder.build()) as cluster:
        for word in ("a", "bad", "b"):
            feeder.feed(["k", word], word)
        cluster.run_until_idle()
        assert sorted(cluster.acked("feeder")) == ["a", "b"]
    places = {values[1]: metadata for metadata, error, values in Recorded.told if error is None}
    assert {word: (at.topic, at.partition) for word, at in places.items()} == {
        "a": ("out", 0),
        "b": ("out", 0),
    }
    assert sorted(at.offset for at in places.values()) == [0, 1]
    (refused,) = [values[1] for _, error, values in Recorded.told if error is not None]
    assert refused == "bad"


class Unanswered:
    """A serializer whose registry never responds."""

    def serialize(self, topic: str, value: object) -> bytes | None:
        raise NotYetError("the registry does not answer")


def test_held_tuples_follow_the_simulated_clock() -> None:
    """They fail when the message timeout has passed by the cluster's clock, and not before."""
    kafka = FakeKafka({"out": 1})
    feeder = FeederSpout("key", "message")
    builder = TopologyBuilder("t", Config(topology_message_timeout_secs=300))
    builder.set_spout("feeder", feeder)
    sink = KafkaBolt().with_topic_selector("out").with_value_serializer(Unanswered())
    builder.set_bolt("sink", sink).shuffle_grouping("feeder")
    with kafka.cluster(builder.build()) as cluster:
        feeder.feed(["k", "a"], 1)
        cluster.advance_time(299)
        bolt: Any = cluster.instance("sink")
        assert (bolt.metrics()["held"], bolt.metrics()["expired"]) == (1, 0)
        cluster.advance_time(2)
        assert (bolt.metrics()["held"], bolt.metrics()["expired"]) == (0, 1)
        assert cluster.failed("feeder") == [1]
