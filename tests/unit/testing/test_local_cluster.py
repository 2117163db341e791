"""`LocalCluster`: whole topologies in memory, with crashes and time under the test's control."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kstorm.core.wire import TupleFrame, encode
from kstorm.errors import KstormError, TopologyError
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.testing.placement import Heir
from kstorm.topology import Config, OutputFieldsDeclarer, Spout, TopologyBuilder
from tests.unit.testing.wordcount import Hold, one_bolt, wordcount


@pytest.fixture
def feeder() -> FeederSpout:
    return FeederSpout("sentence")


def test_messages_are_acked_when_all_their_words_are_counted(feeder: FeederSpout) -> None:
    """The path has shuffle and fields groupings, async and stateful bolts, and two processes each."""
    with LocalCluster(wordcount(feeder)) as cluster:
        feeder.feed(["a b a"], message_id="m1")
        feeder.feed(["c a"], message_id="m2")
        feeder.feed(["untracked"])
        cluster.run_until_idle()
        assert sorted(cluster.acked("sentences")) == ["m1", "m2"]
        assert sorted(cluster.emitted("split")) == [
            ["a"],
            ["a"],
            ["a"],
            ["b"],
            ["c"],
            ["untracked"],
        ]
        assert sorted(cluster.emitted("count")) == [
            ["a", 1],
            ["a", 2],
            ["a", 3],
            ["b", 1],
            ["c", 1],
            ["untracked", 1],
        ]
        assert (cluster.pending, cluster.open_trees, cluster.failed("sentences")) == (0, 0, [])
        assert cluster.now == 0


def test_deactivated_topology_finishes_in_flight_tuples(feeder: FeederSpout) -> None:
    """Spout processes that start while inactive emit nothing. Activation resumes them."""
    with LocalCluster(wordcount(feeder)) as cluster:
        feeder.feed(["a"], "m1")
        cluster.run_until_idle()
        cluster.deactivate()
        feeder.feed(["b"], "m2")
        cluster.crash("sentences")
        cluster.scale("sentences", 1)
        cluster.run_until_idle()
        assert cluster.acked("sentences") == ["m1"]
        cluster.activate()
        cluster.run_until_idle()
        assert sorted(cluster.acked("sentences")) == ["m1", "m2"]


def test_a_cluster_may_begin_inactive(feeder: FeederSpout) -> None:
    """Nothing is emitted before its activation."""
    with LocalCluster(wordcount(feeder), active=False) as cluster:
        feeder.feed(["a"], "m1")
        cluster.run_until_idle()
        assert cluster.emitted("sentences") == []
        cluster.activate()
        cluster.run_until_idle()
        assert cluster.acked("sentences") == ["m1"]


def test_the_same_seed_gives_the_same_run() -> None:
    """Runs are identical for any salt of Python's hash. Another seed gives another order of events."""
    script = """
import hashlib
from kstorm.testing import FeederSpout, LocalCluster
from tests.unit.testing.wordcount import wordcount
for seed in (1, 1, 2):
    feeder = FeederSpout("sentence", replay=True)
    with LocalCluster(wordcount(feeder), seed) as cluster:
        for number in range(10):
            feeder.feed(["a b c d"], number)
        for _ in range(150):
            cluster.step()
        cluster.begin_checkpoint()
        for _ in range(20):
            cluster.step()
        for name in ("count", "acker", "sentences"):
            cluster.crash(name)
        cluster.advance_time(100)
        told = [cluster.acked("sentences"), cluster.failed("sentences"), cluster.emitted("count"), cluster.sent("wc.__acker")]
        print(hashlib.sha256(repr(told).encode()).hexdigest())
"""
    root = Path(__file__).parents[3]
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": salt, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for salt in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    first, again, other = outputs[0]
    assert first == again
    assert first != other


# Failures and time.


def test_a_bolt_that_raises_fails_its_message_at_once(feeder: FeederSpout) -> None:
    """No time passes. The error is recorded with its component and task."""
    with LocalCluster(wordcount(feeder)) as cluster:
        feeder.feed(["raise a"], "bad")
        feeder.feed(["good"], "good")
        cluster.run_until_idle()
        assert (cluster.failed("sentences"), cluster.acked("sentences")) == (["bad"], ["good"])
        (error,) = cluster.errors
        assert (error.component, str(error.error), error.doing) == (
            "split",
            "cannot",
            "executing a tuple of 'sentences'",
        )
        assert error.task in cluster.topology.task_ids("split")


def test_a_held_tuple_times_out_between_one_and_one_and_a_half_timeouts(
    feeder: FeederSpout,
) -> None:
    """Only `advance_time` moves the clock."""
    with LocalCluster(one_bolt(feeder, Hold())) as cluster:
        feeder.feed(["x"], 1)
        cluster.run_until_idle()
        assert (cluster.pending, cluster.open_trees) == (1, 1)
        cluster.advance_time(29)
        assert cluster.failed("feeder") == []
        cluster.advance_time(16)
        assert cluster.failed("feeder") == [1]
        assert cluster.pending == 0
        cluster.advance_time(90)
        assert cluster.open_trees == 0


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan")])
def test_a_clock_does_not_go_back(feeder: FeederSpout, seconds: float) -> None:
    """The clock would stop, and a test with a negative duration would wait for nothing."""
    with LocalCluster(one_bolt(feeder, Hold())) as cluster:
        cluster.advance_time(0)
        with pytest.raises(
            KstormError,
            match=r"advance_time\(.*\): a clock cannot go back; give it 0 seconds or more",
        ):
            cluster.advance_time(seconds)


def test_without_timeouts_a_tree_is_open_until_it_ends(feeder: FeederSpout) -> None:
    """The spout waits for it, and the ackers keep its row, over any number of timeouts."""
    builder = TopologyBuilder("t", Config(topology_message_timeout_secs=5))
    builder.set_spout("feeder", feeder).add_configurations(topology_enable_message_timeouts=False)
    builder.set_bolt("hold", Hold()).shuffle_grouping("feeder").add_configurations(
        topology_tick_tuple_freq_secs=1000
    )
    with LocalCluster(builder.build()) as cluster:
        feeder.feed(["x"], 1)
        cluster.advance_time(999)
        assert (cluster.pending, cluster.open_trees, cluster.failed("feeder")) == (1, 1, [])
        cluster.advance_time(1)
        assert (cluster.acked("feeder"), cluster.open_trees) == ([1], 0)


def test_a_patient_spout(feeder: FeederSpout) -> None:
    """The ackers keep rows for the longest timeout of all spouts, not only for the topology's own."""
    builder = TopologyBuilder("t", Config(topology_message_timeout_secs=5))
    builder.set_spout("feeder", feeder).add_configurations(topology_message_timeout_secs=60)
    builder.set_bolt("hold", Hold()).shuffle_grouping("feeder").add_configurations(
        topology_tick_tuple_freq_secs=40
    )
    with LocalCluster(builder.build()) as cluster:
        feeder.feed(["x"], 1)
        cluster.advance_time(39)
        assert (cluster.acked("feeder"), cluster.failed("feeder")) == ([], [])
        cluster.advance_time(1)
        assert (cluster.acked("feeder"), cluster.failed("feeder")) == ([1], [])


def test_ticks_arrive_as_time_passes(feeder: FeederSpout) -> None:
    """The test's bolt acks its messages on ticks."""
    with LocalCluster(one_bolt(feeder, Hold(), topology_tick_tuple_freq_secs=5)) as cluster:
        for number in range(3):
            feeder.feed(["x"], number)
        cluster.advance_time(4)
        assert cluster.acked("feeder") == []
        cluster.advance_time(1)
        assert sorted(cluster.acked("feeder")) == [0, 1, 2]


def test_time_that_passes_while_nothing_runs(feeder: FeederSpout) -> None:
    """With run=False, timeouts fire as on an overloaded machine, although work was possible."""
    with LocalCluster(wordcount(feeder)) as cluster:
        feeder.feed(["a"], 1)
        for _ in range(3):
            cluster.step()
        while not cluster.pending:
            assert cluster.step()
        cluster.advance_time(46, run=False)
        assert cluster.failed("sentences") == [1]
        cluster.run_until_idle()
        assert cluster.acked("sentences") == []


# Invalid input.


def test_invalid_frame_becomes_a_dead_letter(feeder: FeederSpout) -> None:
    """This holds on any topic. The letter has coordinates and bytes, and the task continues."""
    topology = wordcount(feeder)
    with LocalCluster(topology) as cluster:
        logs = cluster._world.logs
        bad = encode(TupleFrame(1, "sentences", 1, "default", 1, b"", b"", {}, [[1], [2]]))
        logs.append((topology.bolt_topic("split"), 1), bad)
        logs.append((topology.acker_topic, 0), b"junk")
        logs.append((topology.completions_topic("sentences"), 1), b"junk")
        feeder.feed(["a"], 1)
        cluster.run_until_idle()
        assert cluster.acked("sentences") == [1]
        letters = sorted(cluster.dead_letters, key=lambda letter: letter.topic)
        assert [
            (letter.topic, letter.partition, letter.offset, letter.value) for letter in letters
        ] == [
            ("wc.__acker", 0, 0, b"junk"),
            ("wc.sentences.__completions", 1, 0, b"junk"),
            ("wc.split", 1, 0, bad),
        ]
        assert "has 1 fields: was the topology changed" in letters[2].reason


def test_dead_letters_of_a_spout_are_confirmed(feeder: FeederSpout) -> None:
    """The callback comes after the letter is stored."""
    stored: list[int] = []

    class Picky(FeederSpout):
        def next_tuple(self) -> None:
            if not stored:
                stored.append(0)
                self.collector.dead_letter(
                    "no text", value=b"\xff", on_stored=lambda: stored.append(1)
                )

    with LocalCluster(one_bolt(Picky("sentence"), Hold())) as cluster:
        cluster.run_until_idle()
        (letter,) = cluster.dead_letters
        assert (letter.component, letter.reason, letter.value) == ("feeder", "no text", b"\xff")
        assert stored == [0, 1]


# The cluster itself.


def test_a_spout_that_never_runs_dry(feeder: FeederSpout) -> None:
    """`run_until_idle` raises an error that names the reason. Single steps still work."""

    class Endless(FeederSpout):
        def next_tuple(self) -> None:
            self.collector.emit(["x"])

    with LocalCluster(one_bolt(Endless("sentence"), Hold())) as cluster:
        with pytest.raises(
            KstormError, match="'t' is not idle after 500 steps: let its spouts run dry"
        ):
            cluster.run_until_idle(500)
        assert cluster.step()


def test_unknown_names(feeder: FeederSpout) -> None:
    """The errors list the known names."""
    with LocalCluster(wordcount(feeder)) as cluster:
        with pytest.raises(
            TopologyError, match="no component 'splt': it has sentences, split, count"
        ):
            cluster.crash("splt")
        with pytest.raises(TopologyError, match="'split' declares no stream 'x'"):
            cluster.emitted("split", "x")
        with pytest.raises(TopologyError, match="'split' has no task 7"):
            cluster.instance("split", 7)


def test_components_are_opened_and_closed() -> None:
    """Each task gets a copy of the template, with the resources.

    An orderly end calls all the methods, and a crash calls none.
    """
    calls: list[str] = []

    class Calls:
        def __deepcopy__(self, memo: dict[int, Any]) -> "Calls":
            return self

        def __call__(self, what: str) -> None:
            calls.append(what)

    class Noting(Spout):
        def __init__(self, note: Calls) -> None:
            self.note = note

        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            declarer.declare("sentence")

        def open(self, config: Any, context: Any, collector: Any) -> None:
            self.note(f"open {context.task_index} {context.resources['client']}")

        async def activate(self) -> None:
            self.note("activate")

        def next_tuple(self) -> None:
            pass

        async def deactivate(self) -> None:
            self.note("deactivate")

        def close(self) -> None:
            self.note("close")

    class NotingBolt(Hold):
        def cleanup(self) -> None:
            Calls()("cleanup")

    builder = TopologyBuilder("t")
    builder.set_spout("noting", Noting(Calls()), 2)
    builder.set_bolt("bolt", NotingBolt()).shuffle_grouping("noting")
    cluster = LocalCluster(builder.build(), resources={"client": "lent"})
    cluster.run_until_idle()
    assert calls == ["open 0 lent", "open 1 lent", "activate", "activate"]
    cluster.crash("noting", 0)
    cluster.run_until_idle()
    assert calls[4:] == ["open 0 lent", "activate"]
    cluster.close()
    assert calls[6:] == ["deactivate", "close", "deactivate", "close", "cleanup"]


def test_tasks_of_a_vanished_process_move(feeder: FeederSpout) -> None:
    """Its state moves too. The last process of a component cannot vanish."""
    with LocalCluster(wordcount(feeder)) as cluster:
        feeder.feed(["a b c d"], "m1")
        cluster.run_until_idle()
        assert cluster.vanish("count")
        assert (cluster.executors("count"), cluster.vanish("count")) == (1, False)
        feeder.feed(["a b c d"], "m2")
        cluster.run_until_idle()
        assert sorted(cluster.emitted("count"))[1::2] == [["a", 2], ["b", 2], ["c", 2], ["d", 2]]
        assert cluster.acked("sentences") == ["m1", "m2"]


@pytest.mark.parametrize("heir", ["stranger", "namesake", "others"])
def test_work_of_a_fenced_process_does_not_count(feeder: FeederSpout, heir: Heir) -> None:
    """The new owner counts the uncommitted tuples again, and the two counts are not added."""
    with LocalCluster(wordcount(feeder), seed=3) as cluster:
        feeder.feed(["a b c d"], "m1")
        while len(cluster.emitted("count")) < 4:
            cluster.step()
        cluster.pause("count", 0, heir, sleeps=False)
        cluster.run_until_idle()
        feeder.feed(["a b c d"], "m2")
        cluster.advance_time(100)
        cluster.crash("count")
        feeder.feed(["a b c d"], "m3")
        cluster.run_until_idle()
        counts = dict(cluster.emitted("count")[-4:])
        assert all(count >= 3 for count in counts.values())
        assert {"m2", "m3"} <= set(cluster.acked("sentences"))


def test_recreated_changelog_discards_the_old_state(feeder: FeederSpout) -> None:
    """The local copies still exist, but belong to the old topic."""
    with LocalCluster(wordcount(feeder)) as cluster:
        feeder.feed(["a b c d"], "m1")
        cluster.run_until_idle()
        cluster.remake_changelog("count")
        feeder.feed(["a b c d"], "m2")
        cluster.run_until_idle()
        assert sorted(cluster.emitted("count")[4:]) == [["a", 1], ["b", 1], ["c", 1], ["d", 1]]
        assert cluster.acked("sentences") == ["m1", "m2"]


def test_close_closes_everything_even_if_a_component_raises() -> None:
    """It then raises the first exception, with a note about the others."""
    closed = []

    class Ends(Hold):
        def cleanup(self) -> None:
            closed.append(self.context.component)
            raise ValueError(self.context.component)

    class EndsToo(FeederSpout):
        def close(self) -> None:
            closed.append("feeder")
            raise ValueError("feeder")

    builder = TopologyBuilder("t")
    builder.set_spout("feeder", EndsToo("sentence"))
    builder.set_bolt("one", Ends()).shuffle_grouping("feeder")
    builder.set_bolt("two", Ends()).shuffle_grouping("feeder")
    cluster = LocalCluster(builder.build())
    cluster.run_until_idle()
    with pytest.raises(ValueError, match=r"feeder|one|two") as caught:
        cluster.close()
    assert sorted(closed) == ["feeder", "one", "two"]
    assert len(caught.value.__notes__) == 2
