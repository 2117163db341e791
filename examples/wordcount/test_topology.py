"""Tests of the word count without Kafka: a single bolt, and the topology while its processes die.

`pytest examples` runs them in a few seconds. docs/guides/testing.md explains how to write such tests.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from examples.wordcount.topology import SplitSentence, WordCount, build, topology
from kstorm.testing import (
    BoltTester,
    FeederSpout,
    LocalCluster,
    TupleCaptureBolt,
    replace_components,
    simulate,
)
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import AT_LEAST_ONCE, EXACTLY_ONCE, Config

SENTENCES = ["the cow jumped over the moon", "the man in the moon", "", "a cow"]
WORDS = Counter(" ".join(SENTENCES).split())
IDS = [
    f"sentences-0-{offset}-{position}"
    for offset, line in enumerate(SENTENCES)
    for position in range(len(line.split()))
]
VICTIMS = ["sentences", "split", "count", "sink", "acker"]


def test_a_sentence_is_split(bolt_tester: Callable[..., BoltTester[Any]]) -> None:
    """Every word has its position and is anchored to its sentence, and the sentence is acked."""
    split = bolt_tester(SplitSentence(), "str", "partition", "offset")
    message = split.give(["the cow", 3, 17])
    assert split.emitted() == [["the", "sentences-3-17-0"], ["cow", "sentences-3-17-1"]]
    assert split.anchors() == [[message], [message]]
    assert split.acked == [message]


def test_words_are_counted(bolt_tester: Callable[..., BoltTester[Any]]) -> None:
    """The state has the count, and the record has the count and the word's position."""
    count = bolt_tester(WordCount(), "word", "id")
    for where in ("sentences-0-0-0", "sentences-0-0-5"):
        count.give(["cow", where])
    assert dict(count.bolt.state.items()) == {"cow": 2}
    key, message = count.emitted()[-1]
    record = msgspec.json.decode(message)
    assert (key, record["count"], record["id"]) == ("cow", 2, "sentences-0-0-5")


class Words:
    """The word count with a feeder in place of its source and a capture in place of its sink."""

    def __init__(self, local_cluster: Callable[..., LocalCluster], guarantee: str) -> None:
        wired = build(config=Config(topology_processing_guarantee=guarantee))
        self.source = FeederSpout("str", "partition", "offset", replay=True)
        self.sink = TupleCaptureBolt()
        self.cluster = local_cluster(
            replace_components(wired, {"sentences": self.source, "sink": self.sink})
        )
        for offset, sentence in enumerate(SENTENCES):
            self.source.feed([sentence, 0, offset], message_id=offset)

    def records(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(message) for _, message in self.sink.values()]


@pytest.fixture(params=[AT_LEAST_ONCE, EXACTLY_ONCE])
def words(local_cluster: Callable[..., LocalCluster], request: pytest.FixtureRequest) -> Words:
    """A word count with input that has not run yet, for each guarantee."""
    return Words(local_cluster, request.param)


def expect_each_once(records: Iterable[dict[str, Any]]) -> None:
    """Each occurrence of a word has one record, and the word's counts have no gaps."""
    found = list(records)
    assert sorted(record["id"] for record in found) == sorted(IDS)
    assert Counter((record["word"], record["count"]) for record in found) == Counter(
        (word, count) for word, many in WORDS.items() for count in range(1, many + 1)
    )


def test_every_word_is_counted(words: Words) -> None:
    """Without crashes, each word is counted once and every sentence is acked."""
    words.cluster.run_until_idle()
    expect_each_once(words.records())
    assert sorted(words.cluster.acked("sentences")) == [0, 1, 2, 3]


@pytest.mark.parametrize("kstorm_seed", range(5))
@pytest.mark.parametrize("victim", VICTIMS)
def test_no_word_is_lost_whoever_dies(words: Words, victim: str, kstorm_seed: int) -> None:
    """Every word reaches the sink although a process crashes at a step that depends on the seed.

    With at-least-once processing each sentence is acked in the end. Tuples in flight may be
    processed twice, so a word may have more records than it should, but never fewer. With
    exactly-once processing the numbers are equal, but the receiver of an ack may be dead.
    """
    cluster = words.cluster
    for _ in range(15 + 20 * kstorm_seed):  # the run takes about a hundred steps
        cluster.step()
    cluster.crash(victim)
    # Lost tuples time out after 30 to 45 seconds and are replayed.
    cluster.advance_time(46)
    cluster.run_until_idle()
    assert {record["id"] for record in words.records()} == set(IDS)
    assert cluster.pending == 0
    if cluster.topology.config.exactly_once:
        expect_each_once(words.records())
    else:
        assert set(cluster.acked("sentences")) == {0, 1, 2, 3}


def test_a_dead_acker_costs_no_replay(words: Words) -> None:
    """The acker's ledger survives, so nothing times out and nothing is counted twice."""
    while not words.records():
        words.cluster.step()
    words.cluster.crash("acker")
    words.cluster.advance_time(46)
    assert sorted(words.cluster.acked("sentences")) == [0, 1, 2, 3]
    assert words.cluster.failed("sentences") == []
    expect_each_once(words.records())


def in_topic(kafka: FakeKafka) -> list[dict[str, Any]]:
    """Records of the sink topic."""
    return [msgspec.json.decode(record.value() or b"") for record in kafka.records("word-counts")]


@pytest.mark.parametrize("kstorm_seed", range(5))
@pytest.mark.parametrize("victim", VICTIMS)
def test_each_word_is_in_the_topic_once_whoever_dies(
    local_cluster: Callable[..., LocalCluster], victim: str, kstorm_seed: int
) -> None:
    """The unchanged topology crashes twice, at steps that depend on the seed."""
    kafka = FakeKafka({"sentences": 1, "word-counts": 2})
    for sentence in SENTENCES:
        kafka.produce("sentences", sentence)
    cluster = local_cluster(topology(), kafka=kafka)
    for _ in range(2):
        for _ in range(30 + 30 * kstorm_seed):
            cluster.step()
        cluster.crash(victim)
    cluster.run_until_idle()
    expect_each_once(in_topic(kafka))


def test_each_word_is_in_the_topic_once_among_faults() -> None:
    """Faults of all kinds are injected at any step."""

    def each_once(cluster: KafkaCluster) -> None:
        expect_each_once(in_topic(cluster.kafka))

    inputs = [[sentence, 0, offset] for offset, sentence in enumerate(SENTENCES)]
    simulate(
        topology(),
        {"sentences": inputs},
        each_once,
        range(20),
        kafka=lambda: FakeKafka({"word-counts": 2}),
    )
