"""Tests of the random sentences without Kafka: the spout's cache and its retries."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from examples.random_sentence import SENTENCES, RandomSentenceSpout, SplitSentence, topology
from kstorm.testing import LocalCluster, TupleCaptureBolt, replace_components
from kstorm.topology import BasicOutputCollector, FailedException, Tuple

Make = Callable[..., LocalCluster]


class SplitAtLast(SplitSentence):
    """Fails the first ten sentences."""

    def prepare(self, *arguments: Any) -> None:
        super().prepare(*arguments)
        self._given = count(1)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if next(self._given) <= 10:
            raise FailedException("not yet")
        super().execute(tuple, collector)


def clock_until(end: float) -> Callable[[], float]:
    """Return a clock that advances one second per call up to `end`, where the sentences stop."""
    ticks = count()
    return lambda: min(next(ticks), end)


def run(
    local_cluster: Make, split: SplitSentence, interval: float = 1.0
) -> tuple[LocalCluster, TupleCaptureBolt]:
    """Run the word count with about twenty sentences until it is idle."""
    sink = TupleCaptureBolt()
    spout = RandomSentenceSpout(interval, clock_until(20.5))
    wired = replace_components(topology(), {"sentences": spout, "split": split, "sink": sink})
    cluster = local_cluster(wired)
    # Each wake-up calls `next_tuple`, which emits a sentence if one is due.
    for _ in range(30):
        cluster.wake()
        cluster.run_until_idle()
    return cluster, sink


@pytest.mark.parametrize("kstorm_seed", range(3))
def test_every_sentence_is_counted_although_some_fail(
    local_cluster: Make, kstorm_seed: int
) -> None:
    """Failed sentences are emitted again with the same id until they are acked.

    Then the cache is empty.
    """
    cluster, sink = run(local_cluster, SplitAtLast())
    spout = cluster.instance("sentences")
    assert isinstance(spout, RandomSentenceSpout)
    failed, acked = cluster.failed("sentences"), cluster.acked("sentences")
    assert len(failed) >= 10
    assert set(failed) <= set(acked)
    assert spout.pending == {}
    emitted = Counter(sentence for (sentence,) in cluster.emitted("sentences"))
    assert emitted.total() == len(acked) + len(failed)
    assert set(emitted) <= set(SENTENCES)
    words = len(cluster.emitted("split"))
    assert words == len(sink.values()) > len(acked)


def test_a_sentence_comes_every_so_often(local_cluster: Make) -> None:
    """With an interval of five seconds there are five sentences in twenty, the first at once."""
    cluster, _sink = run(local_cluster, SplitSentence(), 5.0)
    assert len(cluster.acked("sentences")) == 5
