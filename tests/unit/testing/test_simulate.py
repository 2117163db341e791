"""`simulate`: a user's topology and judge under random faults."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from kstorm.errors import ConfigError, TopologyError
from kstorm.testing import (
    FAULTS,
    FeederSpout,
    LocalCluster,
    SimulationError,
    TupleCaptureBolt,
    simulate,
)
from kstorm.testing.world import discard_narration
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    FailedException,
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)

SEEDS = range(40)
LINES = [["a b"], ["b"], ["c a"], ["a"], ["b c"], ["a b c"]]
COUNTS = Counter(" ".join(line for [line] in LINES).split())
NO_REPEATS = FAULTS & {"scale", "slow broker", "deactivation", "reordered record"}


class Split(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        for word in tuple["line"].split():
            collector.emit([word])


class Count(StatefulBasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> Any:
        count = self.state.get(tuple["word"], 0) + 1
        self.state.put(tuple["word"], count)
        collector.emit([tuple["word"], count])


class CountInMemory(BasicBolt):
    """Loses its counts when its process crashes."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self.counts[tuple["word"]] += 1


def wired(
    count: BasicBolt | StatefulBasicBolt, split: BasicBolt | None = None, **config: Any
) -> Topology:
    builder = TopologyBuilder("t", Config(**config))
    builder.set_spout("lines", FeederSpout("line"), 2)
    builder.set_bolt("split", split or Split(), 2).shuffle_grouping("lines")
    builder.set_bolt("count", count, 2).fields_grouping("split", Fields("word"))
    return builder.build()


def counts(cluster: LocalCluster) -> Counter[str]:
    """Returns the counts in the recovered states."""
    cluster.crash("count")
    found: Counter[str] = Counter()
    for task in range(2):
        instance: Any = cluster.instance("count", task)
        found.update(dict(instance.state.items()))
    return found


def no_word_is_lost(cluster: LocalCluster) -> None:
    assert counts(cluster) >= COUNTS


def test_correct_topology_passes() -> None:
    """All kinds of faults occur, and the report lists them."""
    report = simulate(wired(Count()), {"lines": LINES}, no_word_is_lost, SEEDS)
    assert report.schedules == len(SEEDS)
    assert 100 * len(SEEDS) < report.steps <= 2000 * len(SEEDS)
    assert report.replays
    assert report.in_flight.total() > 0.6 * report.faults.total()
    assert {"kill of a bolt", "zombie of a bolt", "scale", "slow broker"} <= report.faults.keys()


def test_without_the_faults_that_repeat_work_counts_are_exact() -> None:
    def exact(cluster: LocalCluster) -> None:
        assert counts(cluster) == COUNTS
        assert cluster.failed("lines") == []

    report = simulate(wired(Count()), {"lines": LINES}, exact, SEEDS, faults=NO_REPEATS)
    assert report.replays == 0
    assert {
        name for name in report.faults if "kill" in name or "zombie" in name or "disk" in name
    } == set()
    assert report.faults["scale"]


def test_state_kept_in_memory_is_detected() -> None:
    """The seed in the error reproduces the failure and prints its schedule."""

    def all_counted(cluster: LocalCluster) -> None:
        bolts: list[Any] = [cluster.instance("count", task) for task in range(2)]
        lost = COUNTS - (bolts[0].counts + bolts[1].counts)
        assert not lost, "words are missing"

    def run(seeds: Iterable[int], tell: Callable[[str], None]) -> None:
        simulate(
            wired(CountInMemory()), {"lines": LINES}, all_counted, seeds, faults={"kill"}, tell=tell
        )

    with pytest.raises(
        SimulationError, match=r"seed \d+: words are missing[^$]*only=\[[\d, ]*\], tell=print"
    ) as found:
        run(SEEDS, discard_narration)
    stories: list[list[str]] = [[], []]
    for story in stories:
        with pytest.raises(SimulationError) as again:
            run([found.value.seed], story.append)
        assert str(again.value) == str(found.value)
    assert stories[0] == stories[1]
    assert any("count" in line and "is killed" in line for line in stories[0])


def test_unacked_input_is_named() -> None:
    """The error has the last exception."""

    class Picky(Split):
        def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
            if tuple["line"] == "b":
                raise ValueError("no b here")
            super().execute(tuple, collector)

    with pytest.raises(
        SimulationError, match=r"seed 5: the inputs \[1\] of 'lines' were not acked.*no b here"
    ):
        simulate(wired(Count(), Picky()), {"lines": LINES}, no_word_is_lost, [5])


class Moody(Count):
    """Raises at times, also in `prepare`, which ends the process. Its code is async, and waits."""

    moods = Random(1)

    async def prepare(self, config: Config, context: TopologyContext) -> None:
        await asyncio.sleep(0)
        if self.moods.random() < 0.3:
            raise RuntimeError("not today")
        super().prepare(config, context)

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        await asyncio.sleep(0.0001)
        if self.moods.random() < 0.3:
            raise FailedException("try again")
        super().execute(tuple, collector)
        await asyncio.sleep(0)


def test_async_code_and_code_that_raises_in_prepare() -> None:
    report = simulate(wired(Moody()), {"lines": LINES}, no_word_is_lost, range(10))
    assert report.schedules == 10


def test_a_bolt_that_can_never_be_prepared() -> None:
    """Its process restarts forever, and the message shows the error."""

    class Broken(Count):
        def prepare(self, config: Config, context: TopologyContext) -> None:
            raise RuntimeError("no database")

    with pytest.raises(
        SimulationError, match=r"seed 3: user code ended processes 300 times.*'count'.*no database"
    ):
        simulate(wired(Broken()), {"lines": LINES}, no_word_is_lost, [3])


def test_seeds_are_independent() -> None:
    """A capture bolt does not keep tuples of an earlier seed.

    A function builds one topology per seed.
    """
    sink = TupleCaptureBolt()
    builder = TopologyBuilder("t")
    builder.set_spout("lines", FeederSpout("line"))
    builder.set_bolt("sink", sink).shuffle_grouping("lines")
    topology, made = builder.build(), []

    def make() -> Topology:
        made.append(topology)
        return topology

    for given in (topology, make):
        seen: list[int] = []

        def note(cluster: LocalCluster, seen: list[int] = seen) -> None:
            seen.append(len(sink.tuples))

        simulate(given, {"lines": LINES}, note, [1, 1], steps=50)
        assert seen[0] == seen[1] >= len(LINES)
    assert len(made) == 2


def test_zombie_spout_loses_no_input() -> None:
    """The only fault here is zombies."""
    simulate(wired(Count()), {"lines": LINES}, no_word_is_lost, SEEDS, faults={"zombie"})


def test_error_of_the_judge_names_the_seed() -> None:
    def wrong(cluster: LocalCluster) -> None:
        raise KeyError("typo")

    with pytest.raises(KeyError) as error:
        simulate(wired(Count()), {"lines": LINES}, wrong, [9], steps=0)
    assert error.value.__notes__ == ["in simulate, with seed 9"]


def test_mistakes_are_refused() -> None:
    with pytest.raises(ConfigError, match="no fault 'flood': the faults are compaction"):
        simulate(wired(Count()), {"lines": LINES}, no_word_is_lost, faults=["flood"])
    with pytest.raises(TopologyError, match="no tuples are given for the spout 'lines'"):
        simulate(wired(Count()), {}, no_word_is_lost)
    untimed = wired(Count(), topology_enable_message_timeouts=False)
    with pytest.raises(TopologyError, match="'t' has no message timeouts"):
        simulate(untimed, {"lines": LINES}, no_word_is_lost)


class Hold(Bolt):
    def execute(self, tuple: Tuple) -> None:
        pass


def test_a_bolt_that_forgets_to_ack() -> None:
    builder = TopologyBuilder("t", Config(topology_message_timeout_secs=5))
    builder.set_spout("lines", FeederSpout("line"))
    builder.set_bolt("hold", Hold()).shuffle_grouping("lines")
    with pytest.raises(
        SimulationError,
        match=r"inputs \[0, 1, 2, 3, 4, 5\] of 'lines' were not acked within 30 timeouts",
    ):
        simulate(builder.build(), {"lines": LINES}, lambda cluster: None, [0])
