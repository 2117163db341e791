"""Tests of the word count, without Kafka: of a bolt by itself, and of the topology while its processes die.

`pytest examples` runs them in well under a second; docs/testing.md shows how to write such tests.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from examples.wordcount import SplitSentence, WordCount, topology
from kstorm.testing import BoltTester, FeederSpout, LocalCluster, TupleCaptureBolt, replace_components

SENTENCES = ["the cow jumped over the moon", "the man in the moon", "", "a cow"]


def test_a_sentence_is_split(bolt_tester: Callable[..., BoltTester[Any]]) -> None:
    """Every word tells where it stands, hangs on its sentence, and the sentence is acked."""
    split = bolt_tester(SplitSentence(), "str", "partition", "offset")
    message = split.give(["the cow", 3, 17])
    assert split.emitted() == [["the", "3-17-0"], ["cow", "3-17-1"]]
    assert split.anchors() == [[message], [message]]
    assert split.acked == [message]


def test_words_are_counted(bolt_tester: Callable[..., BoltTester[Any]]) -> None:
    """The state has the count, and the record says of which word it is and whose."""
    count = bolt_tester(WordCount(), "word", "id")
    for where in ("0-0-0", "0-0-5"):
        count.give(["cow", where])
    assert dict(count.bolt.state.items()) == {"cow": 2}
    key, message = count.emitted()[-1]
    record = msgspec.json.decode(message)
    assert (key, record["count"], record["id"]) == ("cow", 2, "0-0-5")


class Words:
    """The word count with a feeder where it reads Kafka, and a capture where it writes."""

    def __init__(self, local_cluster: Callable[..., LocalCluster]) -> None:
        self.source = FeederSpout("str", "partition", "offset", replay=True)
        self.sink = TupleCaptureBolt()
        self.cluster = local_cluster(replace_components(topology(), {"sentences": self.source, "sink": self.sink}))
        for offset, sentence in enumerate(SENTENCES):
            self.source.feed([sentence, 0, offset], message_id=offset)

    def records(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(message) for _, message in self.sink.values()]


@pytest.fixture
def words(local_cluster: Callable[..., LocalCluster]) -> Words:
    """A word count that has been fed and not run yet."""
    return Words(local_cluster)


def test_every_word_is_counted(words: Words) -> None:
    """If nothing dies, once; and every sentence is acked."""
    words.cluster.run_until_idle()
    highest: Counter[str] = Counter()
    for record in words.records():
        highest[record["word"]] = max(highest[record["word"]], record["count"])
    assert highest == Counter(" ".join(SENTENCES).split())
    assert sorted(words.cluster.acked("sentences")) == [0, 1, 2, 3]


@pytest.mark.parametrize("kstorm_seed", range(5))
@pytest.mark.parametrize("victim", ["sentences", "split", "count", "sink", "acker"])
def test_no_word_is_lost_whoever_dies(words: Words, victim: str, kstorm_seed: int) -> None:
    """Killed in the middle, at a step that the seed chooses: each sentence is acked in the end, each word is at the sink.

    What was in flight may be processed twice, so there are no fewer records of a word than there should be, and maybe more.
    """
    cluster = words.cluster
    for _ in range(15 + 20 * kstorm_seed):  # of about a hundred
        cluster.step()
    cluster.crash(victim)
    cluster.advance_time(46)  # what was lost on the way times out between 30 and 45 seconds, and is replayed
    cluster.run_until_idle()
    assert set(cluster.acked("sentences")) == {0, 1, 2, 3}
    assert {record["id"] for record in words.records()} == {
        f"0-{offset}-{position}"
        for offset, sentence in enumerate(SENTENCES)
        for position in range(len(sentence.split()))
    }
    assert cluster.pending == 0


def test_a_dead_acker_costs_no_replay(words: Words) -> None:
    """Its ledger survives: nothing times out, nothing is counted twice."""
    while not words.records():
        words.cluster.step()
    words.cluster.crash("acker")
    words.cluster.advance_time(46)
    assert sorted(words.cluster.acked("sentences")) == [0, 1, 2, 3]
    assert words.cluster.failed("sentences") == []
    assert len(words.records()) == len(" ".join(SENTENCES).split())
