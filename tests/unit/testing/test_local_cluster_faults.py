"""Faults of a `LocalCluster`: moved tasks, lost disks, stalled partitions and older offsets."""

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.testing.placement import DiskFate
from tests.unit.testing.wordcount import wordcount


@pytest.fixture
def feeder() -> FeederSpout:
    return FeederSpout("sentence")


@pytest.mark.parametrize("seed", range(5))
def test_tasks_move_during_work_without_replays(feeder: FeederSpout, seed: int) -> None:
    """Bolts and ackers are scaled up and down repeatedly.

    Counts are exact, and each message acked once.
    """
    with LocalCluster(wordcount(feeder, topology_acker_executors=2), seed) as cluster:
        for number in range(60):
            feeder.feed(["a"], number)
        for component, executors in [
            ("split", 1),
            ("count", 3),
            ("acker", 1),
            ("acker", 3),
            ("count", 1),
        ] * 3:
            for _ in range(30):
                cluster.step()
            cluster.scale(component, executors)
        cluster.run_until_idle()
        assert sorted(cluster.acked("sentences")) == list(range(60))
        assert sorted(count for _, count in cluster.emitted("count")) == list(range(1, 61))
        assert cluster.executors("count") == 1
        assert cluster.failed("sentences") == []


def test_a_component_keeps_a_process(feeder: FeederSpout) -> None:
    """Without a process, the component's tasks would have no owner."""
    with (
        LocalCluster(wordcount(feeder)) as cluster,
        pytest.raises(TopologyError, match="executors is 0: it must be a whole number of at"),
    ):
        cluster.scale("count", 0)


@pytest.mark.parametrize("disk", ["lost", "old"])
def test_state_is_recovered_from_its_changelog(feeder: FeederSpout, disk: DiskFate) -> None:
    """The disk is empty, or has an earlier state."""
    with LocalCluster(wordcount(feeder)) as cluster:
        for times in range(1, 4):
            feeder.feed(["a"], times)
            cluster.run_until_idle()
            cluster.checkpoint()
            if times == 2:
                cluster.crash("count")  # the disk of this run becomes an old one
        cluster.crash("count", disk=disk)
        feeder.feed(["a"], 4)
        cluster.run_until_idle()
        assert cluster.emitted("count")[-1] == ["a", 4]


def test_stalled_partition_holds_its_records(feeder: FeederSpout) -> None:
    """Records of other partitions continue to flow."""
    with LocalCluster(wordcount(feeder)) as cluster:
        cluster.stall("wc.__acker", 0)
        cluster.stall("wc.__acker", 1)
        cluster.stall("wc.__acker", 2)
        cluster.stall("wc.__acker", 3)
        feeder.feed(["a b"], 1)
        while len(cluster.emitted("count")) < 2:
            assert cluster.step()
        assert cluster.acked("sentences") == []
        assert cluster.heal()
        cluster.run_until_idle()
        assert cluster.acked("sentences") == [1]


def test_an_acker_whose_offsets_go_back_applies_nothing_twice(feeder: FeederSpout) -> None:
    """The buckets store their offsets. Open trees stay open, and complete later."""
    with LocalCluster(wordcount(feeder)) as cluster:
        cluster.stall("wc.count", 0)
        cluster.stall("wc.count", 1)
        cluster.stall("wc.count", 2)
        feeder.feed(["a b"], 1)
        for _ in range(200):
            cluster.step()
        cluster.begin_checkpoint("acker")
        for _ in range(100):
            cluster.step()
        assert cluster.open_trees == 1
        cluster.rewind("acker", to=0)
        cluster.crash("acker")
        for _ in range(100):
            cluster.step()
        assert cluster.open_trees == 1
        assert cluster.acked("sentences") == []
        cluster.heal()
        cluster.run_until_idle()
        assert cluster.acked("sentences") == [1]
        assert cluster.seen["skipped records"] > 0


def test_records_that_come_twice_only_delay(feeder: FeederSpout) -> None:
    """Delayed trees fail by timeout. No tree is acked too early or twice."""
    with LocalCluster(wordcount(feeder)) as cluster:
        cluster.disturb(duplicate=0.5, reorder=0.5)
        for number in range(20):
            feeder.feed(["a b c"], number)
        cluster.advance_time(100)
        told = cluster.acked("sentences") + cluster.failed("sentences")
        assert sorted(told) == list(range(20))
        assert cluster.failed("sentences")
        assert cluster.pending == 0


def test_a_process_does_not_start_where_a_zombie_sleeps(feeder: FeederSpout) -> None:
    """It would share the zombie's disk and transactional id, and could end its transaction."""
    with LocalCluster(wordcount(feeder)) as cluster:
        cluster.scale("count", 2)
        zombie = cluster.processes("count")[1]
        cluster.pause("count", 1)
        cluster.scale("count", 1)
        cluster.run_until_idle()
        cluster.scale("count", 2)
        other = cluster.processes("count")[1]
        assert other.name != zombie.name
        assert other.disk is not zombie.disk
