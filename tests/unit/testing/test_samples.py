"""Storm's sample components in a cluster."""

from collections import Counter

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import (
    LocalCluster,
    NGrouping,
    TestGlobalCount,
    TestWordCounter,
    TestWordSpout,
    TupleCaptureBolt,
)
from kstorm.topology import Bolt, TopologyBuilder


def test_words_are_counted() -> None:
    """One bolt counts by word, and one task counts everything, as in Storm's own tests."""
    builder = TopologyBuilder("t")
    builder.set_spout("words", TestWordSpout(limit=50), 2)
    builder.set_bolt("by-word", TestWordCounter(), 4).fields_grouping("words", "word")
    builder.set_bolt("all", TestGlobalCount()).global_grouping("words")
    sink = TupleCaptureBolt()
    builder.set_bolt("sink", sink).global_grouping("by-word").global_grouping("all")
    with LocalCluster(builder.build()) as cluster:
        cluster.run_until_idle()
        words = Counter(word for (word,) in cluster.emitted("words"))
        assert set(words) == set(TestWordSpout.WORDS)
        assert sorted(sink.values("by-word")) == sorted(
            [w, n + 1] for w, most in words.items() for n in range(most)
        )
        assert sorted(sink.values("all")) == [[count] for count in range(1, 101)]
        assert cluster.errors == []


def test_a_spout_without_end() -> None:
    """A test then steps the cluster."""
    builder = TopologyBuilder("t")
    builder.set_spout("words", TestWordSpout(limit=None))
    builder.set_bolt("count", TestGlobalCount()).shuffle_grouping("words")
    with LocalCluster(builder.build()) as cluster:
        while len(cluster.emitted("words")) < 200:
            assert cluster.step()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_first_n_tasks(n: int) -> None:
    """Each of the first n tasks gets every tuple, and the others get none."""
    builder = TopologyBuilder("t")
    builder.set_spout("words", TestWordSpout(limit=10))
    builder.set_bolt("count", TestWordCounter(), 3).custom_grouping("words", NGrouping(n))
    with LocalCluster(builder.build()) as cluster:
        cluster.run_until_idle()
        bolts = [cluster.instance("count", task) for task in range(3)]
        assert [bolt.counts.total() for bolt in bolts if isinstance(bolt, TestWordCounter)] == [
            10
        ] * n + [0] * (3 - n)


def test_a_grouping_of_more_tasks_than_there_are() -> None:
    """The error comes at the start of the emitting task, and has the two numbers."""
    builder = TopologyBuilder("t")
    builder.set_spout("words", TestWordSpout())
    builder.set_bolt("bolt", Bolt(), 2).custom_grouping("words", NGrouping(3))
    with pytest.raises(TopologyError, match=r"NGrouping\(3\) on a bolt of 2 tasks: give it 1 to 2"):
        LocalCluster(builder.build())
