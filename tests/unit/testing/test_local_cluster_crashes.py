"""`LocalCluster.crash`: memory is lost, but stored and committed data is not."""

import pytest

from kstorm.core.wire import AckFrame, decode
from kstorm.testing import FeederSpout, LocalCluster
from tests.unit.testing.wordcount import Hold, one_bolt, wordcount


@pytest.fixture
def feeder() -> FeederSpout:
    return FeederSpout("sentence")


def test_a_crashed_acker_loses_nothing(feeder: FeederSpout) -> None:
    """Without a checkpoint, it applies its input again. With a checkpoint, it restores its trees."""
    for checkpoint in (False, True):
        with LocalCluster(one_bolt(feeder, Hold(), topology_tick_tuple_freq_secs=5)) as cluster:
            feeder.feed(["x"], 1)
            cluster.run_until_idle()
            if checkpoint:
                cluster.checkpoint()
            cluster.crash("acker")
            assert cluster.open_trees == int(checkpoint)
            cluster.run_until_idle()
            assert cluster.open_trees == 1
            cluster.advance_time(5)
            assert cluster.acked("feeder") == [1]
            assert cluster.failed("feeder") == []


def test_a_crashed_bolt_forgets_what_it_held(feeder: FeederSpout) -> None:
    """Committed input is not repeated, so the message times out.

    Uncommitted input is executed again.
    """
    with LocalCluster(one_bolt(feeder, Hold(), topology_tick_tuple_freq_secs=5)) as cluster:
        feeder.feed(["x"], 1)
        cluster.run_until_idle()
        cluster.crash("bolt")
        cluster.run_until_idle()
        bolt = cluster.instance("bolt")
        assert isinstance(bolt, Hold)
        assert len(bolt.held) == 1
        cluster.checkpoint()
        cluster.crash("bolt")
        cluster.advance_time(50)
        assert (cluster.acked("feeder"), cluster.failed("feeder")) == ([], [1])


def test_executing_again_delays_a_tree_and_never_completes_it(feeder: FeederSpout) -> None:
    """The bolt crashes after its ack was delivered and before its commit.

    The second ack undoes the first.
    """
    with LocalCluster(wordcount(feeder)) as cluster:
        feeder.feed(["a"], 1)
        while not cluster.emitted("split"):
            cluster.step()
        while [r for r in cluster.sent("wc.__acker") if decode(AckFrame, r).roots] == []:
            cluster.step()
        cluster.crash("split")
        cluster.run_until_idle()
        assert cluster.acked("sentences") == []
        assert len(cluster.emitted("split")) == 2
        cluster.advance_time(46)
        assert cluster.failed("sentences") == [1]


def test_a_stateful_bolt_falls_back_to_its_checkpoint(feeder: FeederSpout) -> None:
    """Counts whose acks were sent survive. The other tuples are counted again."""
    with LocalCluster(wordcount(feeder)) as cluster:
        for _ in range(3):
            feeder.feed(["a"], "m")
            cluster.run_until_idle()
        assert cluster.acked("sentences") == ["m"] * 3
        feeder.feed(["a"])
        while ["a", 4] not in cluster.emitted("count"):
            cluster.step()
        cluster.crash("count")
        cluster.run_until_idle()
        assert cluster.emitted("count")[-1] == ["a", 4]
        assert cluster.emitted("count").count(["a", 4]) == 2


def test_the_acks_of_a_stateful_bolt_wait_for_its_state(feeder: FeederSpout) -> None:
    """A crash before the checkpoint also loses the acks, so no message is acked for a lost state."""
    with LocalCluster(wordcount(feeder)) as cluster:
        feeder.feed(["a"], 1)
        while not cluster.emitted("count"):
            cluster.step()
        for _ in range(50):
            cluster.step()
        assert cluster.acked("sentences") == []
        cluster.crash("count")
        assert cluster.acked("sentences") == []
        cluster.run_until_idle()
        assert cluster.acked("sentences") == [1]
        assert cluster.emitted("count") == [["a", 1], ["a", 1]]


def test_a_crashed_spout_replays_what_its_source_kept() -> None:
    """The source outlives the spout. With replay, it emits pending messages again."""
    for replay in (True, False):
        feeder = FeederSpout("sentence", replay=replay)
        with LocalCluster(wordcount(feeder)) as cluster:
            feeder.feed(["a"], 1)
            while not cluster.pending:
                cluster.step()
            cluster.crash("sentences")
            assert cluster.pending == 0
            cluster.run_until_idle()
            assert cluster.acked("sentences") == ([1] if replay else [])
            assert len(cluster.emitted("sentences")) == (2 if replay else 1)


def test_one_executor_of_several_may_crash(feeder: FeederSpout) -> None:
    """The tasks of the other processes keep their memory."""
    with LocalCluster(wordcount(feeder)) as cluster:
        before = [cluster.instance("count", task) for task in range(3)]
        cluster.crash("count", executor=1)
        same = [cluster.instance("count", task) is before[task] for task in range(3)]
        assert same == [True, False, True]


def test_a_replaying_feeder_gets_everything_through() -> None:
    """Despite failures, timeouts and crashes, every message is acked in the end."""
    feeder = FeederSpout("sentence", replay=True)
    with LocalCluster(wordcount(feeder), seed=3) as cluster:
        for number in range(30):
            feeder.feed([f"a b {number}"], number)
        for name in ("split", "acker", "count", "sentences", "split"):
            for _ in range(100):
                cluster.step()
            cluster.crash(name)
        cluster.advance_time(200)
        assert set(cluster.acked("sentences")) == set(range(30))
        assert (cluster.pending, cluster.open_trees) == (0, 0)
