"""No tuple is late because of other partitions, tasks or processes."""

from random import Random
from typing import Any

import pytest

from kstorm.core import watermarks
from kstorm.testing import FeederSpout, LocalCluster, replace_components
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import BasicOutputCollector, FailedException, TopologyBuilder, Tuple
from kstorm.windows import Duration
from tests.unit.windows.event_time import (
    END,
    GUARANTEES,
    PARTITIONS,
    Pass,
    backlog,
    click,
    clicks_topology,
    close,
    late,
    sessions,
    settle,
    shown,
    work,
)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", range(3))
def test_no_click_is_late_after_a_start_with_kills(guarantee: str, seed: int) -> None:
    """The topology starts fresh, clicks keep arriving, and four processes are killed."""
    chance, kafka = Random(seed), FakeKafka({"clicks": PARTITIONS})
    with kafka.cluster(clicks_topology(guarantee), seed=seed) as cluster:
        for part in range(8):
            backlog(kafka, chance, 50, start=50 * part)
            work(cluster, chance.randint(0, 12))
            if part % 2:
                cluster.crash(chance.choice(["clicks", "visits"]), chance.randrange(2))
            cluster.advance_time(chance.choice([0.1, 1, 3]))
        close(kafka)
        settle(cluster)
        assert late(cluster) == []
        assert shown(cluster) == set(range(400))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_no_click_of_a_backlog_is_late(guarantee: str) -> None:
    """All clicks are there at once, so some partitions are read long before others."""
    kafka = FakeKafka({"clicks": PARTITIONS})
    backlog(kafka, Random(1), 4000)
    close(kafka)
    with kafka.cluster(clicks_topology(guarantee), seed=1) as cluster:
        work(cluster, 30)
        settle(cluster)
        assert late(cluster) == []
        assert shown(cluster) == set(range(4000))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", range(5))
def test_exactly_the_intended_clicks_are_late(guarantee: str, seed: int) -> None:
    """Ten runs have a bolt in between, a backlog, a silent partition and user, and kills.

    Three clicks are an hour late.
    """
    chance, kafka = Random(f"intended {seed}"), FakeKafka({"clicks": PARTITIONS + 1})
    backlog(kafka, chance, 300)
    topology = clicks_topology(guarantee, parse=True, event_time="at", event_time_idle_ms=20_000)
    with kafka.cluster(topology, seed=seed) as cluster:
        work(cluster, 5)
        for part in range(4):
            backlog(kafka, chance, 50, start=300 + 50 * part)
            work(cluster, chance.randint(0, 5))
            cluster.crash(chance.choice(["clicks", "parse", "visits"]), chance.randrange(2))
        for partition in range(PARTITIONS):
            click(kafka, partition, -2, 3_700_000, "user1")
        settle(cluster, 60)
        intended = [1000, 1001, 1002]
        for number in intended:
            click(kafka, number % PARTITIONS, number, 200_000 + number)
        settle(cluster)
        close(kafka)
        settle(cluster)
        assert sorted(set(late(cluster))) == intended
        assert shown(cluster) >= set(range(500))
        if guarantee == "exactly_once":
            assert len(late(cluster)) == len(intended)


def test_an_empty_partition_holds_time_back_until_it_is_idle() -> None:
    def kafka() -> FakeKafka:
        found = FakeKafka({"clicks": PARTITIONS})
        for partition in range(PARTITIONS - 1):
            click(found, partition, partition, 100_000)
            click(found, partition, -1, END, "end")
        return found

    with kafka().cluster(clicks_topology()) as cluster:
        settle(cluster, 300)
        assert shown(cluster) == set()
    patient = clicks_topology(change=lambda bolt: bolt.with_idle_timeout(Duration.seconds(30)))
    with kafka().cluster(patient) as cluster:
        settle(cluster, 25)
        assert shown(cluster) == set()
        settle(cluster, 15)
        assert shown(cluster) == {0, 1, 2}


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_spout_task_without_partitions_is_not_waited_for(guarantee: str) -> None:
    """A spout may have more tasks than its topic has partitions, each in its own process."""
    kafka = FakeKafka({"clicks": 1})
    for number in range(20):
        click(kafka, 0, number, 100_000)
    click(kafka, 0, -1, END, "end")
    with kafka.cluster(clicks_topology(guarantee, spout_tasks=3)) as cluster:
        settle(cluster)
        assert (late(cluster), shown(cluster)) == ([], set(range(20)))


def test_a_partition_with_unread_messages_is_not_idle() -> None:
    """It was away, so it was not read for a long time."""
    kafka = FakeKafka({"clicks": PARTITIONS})
    topology = clicks_topology(change=lambda bolt: bolt.with_idle_timeout(Duration.seconds(30)))
    with kafka.cluster(topology) as cluster:
        for partition in range(PARTITIONS):
            click(kafka, partition, partition, 100_000)
        settle(cluster, 5)
        kafka.away = True
        click(kafka, 3, 3, 110_000)
        for partition in range(PARTITIONS - 1):
            click(kafka, partition, -1, END, "end")
        settle(cluster, 300)
        kafka.away = False
        settle(cluster, 20)
        assert late(cluster) == []


def test_a_deactivated_spout_has_no_idle_partitions() -> None:
    """An inactive spout does not read, so it does not know if messages are waiting."""
    kafka = FakeKafka({"clicks": PARTITIONS})
    topology = clicks_topology(change=lambda bolt: bolt.with_idle_timeout(Duration.seconds(30)))
    with kafka.cluster(topology) as cluster:
        for partition in range(PARTITIONS):
            click(kafka, partition, partition, 100_000 if partition == 3 else 200_000)
        settle(cluster, 5)
        cluster.deactivate()
        settle(cluster, 300)
        click(kafka, 3, 3, 110_000)
        cluster.activate()
        settle(cluster, 10)
        assert late(cluster) == []


def test_a_bolt_between_learns_the_watermarks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart it knows no watermark, and its spout has nothing new to send."""

    def windows_after_a_kill(resend: float) -> Any:
        monkeypatch.setattr(watermarks, "RESEND_SECS", resend)
        kafka = FakeKafka({"clicks": PARTITIONS})
        with kafka.cluster(clicks_topology(parse=True, event_time="at")) as cluster:
            for partition in range(PARTITIONS):
                click(kafka, partition, partition, 100_000)
            settle(cluster)
            for partition in range(1, PARTITIONS):
                click(kafka, partition, -1, END, "end")
            settle(cluster)
            cluster.crash("parse")
            click(kafka, 0, -1, END, "end")
            settle(cluster)
            return shown(cluster)

    assert windows_after_a_kill(1e9) == set()
    assert windows_after_a_kill(5.0) == {0, 1, 2, 3}


def test_an_idle_partition_keeps_its_time_when_its_task_moves() -> None:
    """The time is stored with the offset. Other partitions continue, and this one gets no clicks."""
    for guarantee in GUARANTEES:
        kafka = FakeKafka({"clicks": PARTITIONS})
        with kafka.cluster(clicks_topology(guarantee)) as cluster:
            click(kafka, 0, 0, 100_000)
            for partition in range(PARTITIONS):
                click(kafka, partition, 1, 400_000, f"other{partition}")
                click(kafka, partition, 2, 300_000 if partition == 1 else 500_000)
            settle(cluster)
            for component in ("clicks", "visits"):
                cluster.crash(component)
            settle(cluster)
            click(kafka, 1, 3, 500_000)
            settle(cluster)
            assert {number for number in shown(cluster) if number != 2} == {0, 1}


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", range(4))
def test_one_later_tuple_of_a_feeder_closes_all_windows(guarantee: str, seed: int) -> None:
    """This holds on all tasks, whichever spout task emits the tuple.

    The feeder has the event time of the replaced spout.
    """
    feeder = FeederSpout("user", "at", "n")
    topology = clicks_topology(guarantee, parse=True, event_time="at")
    with LocalCluster(replace_components(topology, {"clicks": feeder}), seed=seed) as cluster:
        for number in range(20):
            feeder.feed([f"user{number}", 100_000, number], number)
        settle(cluster, 3)
        assert shown(cluster) == set()
        feeder.feed(["end", END, -1], -1)
        settle(cluster, 3)
        assert shown(cluster) == set(range(20))


class FailsOnce(Pass):
    """Fails tuple 0 once in each task."""

    failed = False

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if tuple["n"] == 0 and not self.failed:
            self.failed = True
            raise FailedException
        super().execute(tuple, collector)


def test_a_feeder_that_replays_holds_event_time_back() -> None:
    """The failed tuple is still in time when it is replayed."""
    feeder = FeederSpout("user", "at", "n", replay=True)
    topology = clicks_topology(parse=True, event_time="at")
    replaced = replace_components(topology, {"clicks": feeder, "parse": FailsOnce()})
    with LocalCluster(replaced) as cluster:
        feeder.feed(["user", 100_000, 0], 0)
        feeder.feed(["end", END, -1], -1)
        settle(cluster)
        assert cluster.failed("clicks")[:1] == [0]
        assert (late(cluster), shown(cluster)) == ([], {0})


def test_an_empty_feeder_is_idle_after_a_time() -> None:
    """Then it no longer delays the tuples of other spouts."""
    first, second = (FeederSpout("user", "at", "n") for _ in range(2))
    builder = TopologyBuilder("two")
    builder.set_spout("first", first)
    builder.set_spout("second", second)
    bolt = sessions().with_idle_timeout(Duration.seconds(30))
    builder.set_bolt("visits", bolt).shuffle_grouping("first").shuffle_grouping("second")
    with LocalCluster(builder.build()) as cluster:
        first.feed(["user", 100_000, 0], 0)
        second.feed(["user", 100_000, 1], 0)
        first.feed(["end", END, -1], 1)
        settle(cluster, 25)
        assert shown(cluster) == set()
        settle(cluster, 10)
        assert shown(cluster) == {0, 1}
