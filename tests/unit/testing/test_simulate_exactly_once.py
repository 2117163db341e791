"""`simulate` on exactly-once topologies: every effect counts once despite its faults."""

from collections import Counter
from collections.abc import Callable

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import (
    FAULTS,
    FeederSpout,
    LocalCluster,
    SimulationError,
    TestWordSpout,
    TupleCaptureBolt,
    complete_topology,
    replace_components,
    simulate,
)
from kstorm.topology import Bolt, Config, Fields, Topology, TopologyBuilder, Tuple
from tests.unit.testing.test_simulate import COUNTS, LINES, Count, Split

SEEDS = range(20)
EACH_ONCE = sorted((word, count) for word, many in COUNTS.items() for count in range(1, many + 1))


def wired(sink: Bolt | TupleCaptureBolt, ackers: int = 1) -> Topology:
    config = Config(topology_processing_guarantee="exactly_once", topology_acker_executors=ackers)
    builder = TopologyBuilder("t", config)
    builder.set_spout("lines", FeederSpout("line"), 2)
    builder.set_bolt("split", Split(), 2).shuffle_grouping("lines")
    builder.set_bolt("count", Count(), 2).fields_grouping("split", Fields("word"))
    builder.set_bolt("sink", sink, 2).shuffle_grouping("count")
    return builder.build()


def captured(cluster: LocalCluster) -> list[tuple[str, int]]:
    sink = cluster.instance("sink")
    assert isinstance(sink, TupleCaptureBolt)
    return sorted((word, count) for word, count in sink.values())


def each_count_is_captured_once(cluster: LocalCluster) -> None:
    found = captured(cluster)
    assert found == EACH_ONCE, f"captured {found}"


@pytest.mark.parametrize("ackers", [0, 1, 2])
def test_each_count_is_captured_once(ackers: int) -> None:
    """Every kind of fault except one happens during the work."""
    report = simulate(
        wired(TupleCaptureBolt(), ackers), {"lines": LINES}, each_count_is_captured_once, SEEDS
    )
    assert report.faults["kill of a bolt"] > 6
    assert report.faults["zombie of a bolt"] > 1
    assert report.faults["offsets set back"] == 0
    assert "offsets set back" in FAULTS


class Writes(Bolt):
    """Writes its input to an outside store at once, as a bolt with a database does."""

    def __init__(self) -> None:
        self.database = _Database()

    def execute(self, tuple: Tuple) -> None:
        self.database[*tuple.values] += 1
        self.collector.ack(tuple)


class _Database(Counter[object]):
    def __deepcopy__(self, memo: object) -> "_Database":
        return self


def test_a_write_elsewhere_is_found_out() -> None:
    """It is outside the epoch, so it is repeated, and a judge that checks a database can detect it."""

    def nothing_is_written_twice(cluster: LocalCluster) -> None:
        twice = [key for key, many in cluster.instance("sink").database.items() if many > 1]  # type: ignore[union-attr]
        assert not twice, f"written twice: {twice}"

    with pytest.raises(SimulationError, match=r"seed \d+: written twice"):
        simulate(lambda: wired(Writes()), {"lines": LINES}, nothing_is_written_twice, SEEDS)


class ForgetsOne(Bolt):
    """Never acks one of the counts."""

    def execute(self, tuple: Tuple) -> None:
        if tuple.values != ("a", 2):
            self.collector.ack(tuple)


def test_unfinished_tuple_is_reported() -> None:
    """Every input was emitted and committed. The message names the task with the unfinished tuple."""
    with pytest.raises(
        SimulationError, match=r"have unfinished tuples: sink\[\d\]\. Does a bolt hold"
    ):
        simulate(wired(ForgetsOne()), {"lines": LINES}, lambda cluster: None, range(1))


@pytest.mark.parametrize("kstorm_seed", range(5))
@pytest.mark.parametrize("victim", ["lines", "split", "count", "sink", "acker"])
def test_a_fed_topology_captures_each_tuple_once(
    local_cluster: Callable[..., LocalCluster], victim: str, kstorm_seed: int
) -> None:
    """Each fed tuple is emitted once, also tuples fed after the crash of any process."""
    feeder = FeederSpout("line")
    cluster = local_cluster(replace_components(wired(TupleCaptureBolt()), {"lines": feeder}))
    for number, line in enumerate(LINES[:4]):
        feeder.feed(line, number)
    for _ in range(10 + 20 * kstorm_seed):
        cluster.step()
    cluster.crash(victim)
    for number, line in enumerate(LINES[4:], 4):
        feeder.feed(line, number)
    cluster.run_until_idle()
    assert captured(cluster) == EACH_ONCE


def test_new_owner_waits_for_open_transactions_of_a_zombie() -> None:
    """A position in an open transaction does not count yet."""
    feeder = FeederSpout("line")
    for number, line in enumerate(LINES):
        feeder.feed(line, number)
    with LocalCluster(replace_components(wired(TupleCaptureBolt()), {"lines": feeder})) as cluster:
        (zombie, _) = cluster.processes("lines")
        while not ((at := zombie.transacting) and at.handed_in and at.effect.records):
            cluster.step()
        cluster.pause("lines", 0)
        cluster.advance_time(50)
        assert captured(cluster) == EACH_ONCE


def test_a_spout_without_a_position_is_refused() -> None:
    """The topology's own spout had a position, and `build` rejects a spout without one."""
    with pytest.raises(
        TopologyError,
        match="but the TestWordSpout that replaces 'lines' has no position: use a FeederSpout",
    ):
        replace_components(wired(TupleCaptureBolt()), {"lines": TestWordSpout()})


def test_fixed_tuples_are_emitted_once() -> None:
    sink = TupleCaptureBolt()
    result = complete_topology(wired(sink), {"lines": LINES})
    assert sorted(result.acked("lines")) == list(range(len(LINES)))
    assert sorted((word, count) for word, count in sink.values()) == EACH_ONCE
