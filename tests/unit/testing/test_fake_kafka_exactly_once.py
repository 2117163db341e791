"""`FakeKafka` under exactly-once topologies: the word count of the examples, from topic to topic.

Each count of a word is in the sink once, from 1 to n, despite crashes. The offset in the fake
ZooKeeper follows.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import cast

import msgspec
import pytest

from examples.wordcount.topology import build
from kstorm.kafka import KafkaBolt, KafkaSpout, SpoutConfig
from kstorm.kafka.finished_ranges import decode_range
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.testing.placement import DiskFate, Heir
from kstorm.topology import Config, Topology

LINES = ["the cow jumped over the moon", "a cow", "the man in the moon", ""] * 5
COMPONENTS = ["sentences", "split", "count", "sink", "acker"]
MOMENTS = [(1, 4, 8), pytest.param((0, 2, 3, 5, 6, 7, 9), marks=pytest.mark.slow)]


def word_count() -> Topology:
    return build(
        config=Config(topology_processing_guarantee="exactly_once"), executors={"count": 2}
    )


def source_of(topology: Topology) -> SpoutConfig:
    return cast("KafkaSpout", topology.component("sentences").component).spout_config


def produced() -> FakeKafka:
    kafka = FakeKafka({"sentences": 2, "word-counts": 3})
    for line in LINES:
        kafka.produce("sentences", line)
    return kafka


def counts(kafka: FakeKafka) -> dict[str, list[int]]:
    found = defaultdict(list)
    for record in kafka.records("word-counts"):
        content = msgspec.json.decode(record.value() or b"")
        assert record.key() == content["word"].encode()
        found[content["word"]].append(content["count"])
    return {word: sorted(own) for word, own in found.items()}


EACH_ONCE = {
    word: list(range(1, many + 1)) for word, many in Counter(" ".join(LINES).split()).items()
}


def expect_each_once(kafka: FakeKafka, cluster: LocalCluster) -> None:
    assert counts(kafka) == EACH_ONCE
    assert (cluster.pending, cluster.open_trees, cluster.unsettled, cluster.dead_letters) == (
        0,
        0,
        0,
        [],
    )
    source = source_of(cluster.topology)
    assert [kafka.stored_offset(source, partition) for partition in (0, 1)] == [10, 10]
    assert [finished(kafka, cluster.topology, partition) for partition in (0, 1)] == [
        set(range(10))
    ] * 2


def finished(kafka: FakeKafka, topology: Topology, partition: int) -> set[int]:
    """Returns the offsets of a partition that are in a range."""
    ranges = [
        decode_range(record.value() or b"") for record in kafka.records(topology.finished_topic)
    ]
    return {
        offset
        for own in ranges
        if own.partition == partition
        for offset in range(own.start, own.end)
    }


@pytest.mark.parametrize("seed", range(3))
def test_each_count_is_there_once(seed: int) -> None:
    """Nothing crashes.

    Each record is in its key's partition, and the counts of a word are in order.
    """
    kafka = produced()
    with kafka.cluster(word_count(), seed) as cluster:
        cluster.run_until_idle()
        assert counts(kafka) == EACH_ONCE
        assert len(cluster.acked("sentences")) == len(LINES)
        cluster.advance_time(5)
        expect_each_once(kafka, cluster)
        places: dict[bytes | None, set[int]] = defaultdict(set)
        for record in kafka.records("word-counts"):
            places[record.key()].add(record.partition())
        assert {len(partitions) for partitions in places.values()} == {1}
        assert len(set.union(*places.values())) > 1
        assert cluster.errors == []


@pytest.mark.parametrize("moments", MOMENTS, ids=len)
@pytest.mark.parametrize("disk", ["kept", "lost", "old"])
@pytest.mark.parametrize("victim", COMPONENTS)
def test_a_crash_costs_and_repeats_nothing(
    victim: str, disk: DiskFate, moments: Sequence[int]
) -> None:
    """A process crashes twice in the same run."""
    for moment in moments:
        kafka = produced()
        with kafka.cluster(word_count(), seed=moment) as cluster:
            for _ in range(2):
                for _ in range(10 + 25 * moment):
                    cluster.step()
                cluster.crash(victim, disk=disk)
            cluster.advance_time(150)  # an acker drops trees of a crashed spout meanwhile
            expect_each_once(kafka, cluster)


@pytest.mark.parametrize("moments", MOMENTS, ids=len)
@pytest.mark.parametrize("heir", ["stranger", "namesake", "others"])
@pytest.mark.parametrize("victim", COMPONENTS)
def test_a_zombie_writes_nothing(victim: str, heir: Heir, moments: Sequence[int]) -> None:
    """A process that is assumed dead continues next to the new owner until Kafka rejects it."""
    for moment in moments:
        kafka = produced()
        with kafka.cluster(word_count(), seed=moment) as cluster:
            for _ in range(10 + 25 * moment):
                cluster.step()
            cluster.pause(victim, heir=heir, sleeps=moment % 2 == 0)
            cluster.advance_time(20)
            cluster.bury()
            cluster.advance_time(150)
            expect_each_once(kafka, cluster)


@pytest.mark.parametrize("first", [0, pytest.param(20, marks=pytest.mark.slow)])
def test_each_count_is_there_once_among_faults(first: int) -> None:
    """Random faults occur during production. Tasks start at once or step by step."""
    seen: Counter[str] = Counter()
    for seed in range(first, first + 20):
        random, kafka = Random(seed), FakeKafka({"sentences": 2, "word-counts": 3})
        rest = list(LINES)
        with kafka.cluster(word_count(), seed, at_once=random.random() < 0.5) as cluster:
            for _ in range(random.randint(1, 12)):
                for _ in range(random.randint(0, 3)):
                    if rest:
                        kafka.produce("sentences", rest.pop(0))
                for _ in range(random.randint(1, 80)):
                    cluster.step()
                strike(kafka, cluster, random)
            for line in rest:
                kafka.produce("sentences", line)
            cluster.bury()
            cluster.advance_time(150)
            expect_each_once(kafka, cluster)
            seen += cluster.seen
    assert seen["zombie refused"] > 0 or seen["zombie ended"] > 0


def strike(kafka: FakeKafka, cluster: LocalCluster, random: Random) -> None:
    victim = random.choice(COMPONENTS)
    match random.randrange(6):
        case 0 | 1:
            cluster.crash(victim, disk=random.choice(("kept", "lost", "old")))
        case 2:
            cluster.pause(
                victim,
                heir=random.choice(("stranger", "namesake", "others")),
                sleeps=random.random() < 0.7,
            )
        case 3:
            cluster.scale(victim, random.randint(1, 2))
        case 4:
            kafka.away = True
            cluster.advance_time(random.randint(1, 12))
            kafka.away = False
        case _:
            cluster.begin_checkpoint()


def test_uncommitted_records_are_not_in_the_topic() -> None:
    """A record is visible after the end of its epoch, and not when the bolt writes it."""
    kafka = produced()
    with kafka.cluster(word_count()) as cluster:
        (sink,) = cluster.processes("sink")
        written, ended = 0.0, False
        while not kafka.records("word-counts"):
            written = sum(
                cast("KafkaBolt", cluster.instance("sink", task)).metrics()["written"]
                for task in (0, 1)
            )
            ended |= written > 0 and sink.transacting is not None and sink.transacting.handed_in
            cluster.step()
        assert written > 0
        assert ended
