"""The windows of a bolt and their contents, by the rules of Storm's `WindowManager`."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.errors import ConfigError, TopologyError
from kstorm.testing import BoltTester, FeederSpout, LocalCluster
from kstorm.topology import Config, KeyValueState, OutputFieldsDeclarer, TopologyBuilder
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE
from kstorm.windows import (
    LATE_TUPLE,
    Count,
    Duration,
    StatefulWindowedBolt,
    TupleWindow,
    WindowedBolt,
)
from tests.unit.windows.shown import Run, Shown


def test_tumbling_by_number() -> None:
    """The window is shown with its last tuple, and each tuple is acked at once."""
    run = Run(Shown().with_tumbling_window(Count(2)))
    run.give(1, 2, 3)
    assert run.shown == [[[1, 2], [1, 2], []]]
    run.give(4)
    assert run.shown[1:] == [[[3, 4], [3, 4], [1, 2]]]
    assert len(run.tester.acked) == 4
    assert run.tester.held == []
    assert run.spans[0] == [None, 1000]


def test_sliding_by_number() -> None:
    """This is Storm's `withWindow(new Count(4), new Count(2))`."""
    run = Run(Shown().with_window(Count(4), Count(2)))
    run.give(1, 2, 3, 4, 5, 6)
    assert run.shown == [
        [[1, 2], [1, 2], []],
        [[1, 2, 3, 4], [3, 4], []],
        [[3, 4, 5, 6], [5, 6], [1, 2]],
    ]


def test_without_a_slide_each_tuple_ends_a_window() -> None:
    run = Run(Shown().with_window(Count(2)))
    run.give(1, 2, 3)
    assert [all for all, _, _ in run.shown] == [[1], [1, 2], [2, 3]]


def test_tumbling_by_time() -> None:
    """Windows follow the clock, in multiples of the length. An empty window is not shown."""
    run = Run(Shown().with_tumbling_window(Duration.seconds(10)))
    run.give(1)
    run.tick(9.9)
    assert run.shown == []
    run.give(2)
    run.tick(10.0)
    run.tick(35.0)
    run.give(3)
    run.tick(41.0)
    assert run.shown == [[[1, 2], [1, 2], []], [[3], [3], [1, 2]]]
    assert run.spans == [[0, 10_000], [30_000, 40_000]]


def test_sliding_by_time() -> None:
    """The number of windows per tuple is the length divided by the slide."""
    run = Run(Shown().with_window(Duration.seconds(3), timedelta(seconds=1)))
    run.give(1)
    run.tick(2.5)
    run.give(2)
    run.tick(10.0)
    assert run.shown == [
        [[1], [1], []],
        [[1], [], []],
        [[1, 2], [2], []],
        [[2], [], [1]],
        [[2], [], []],
    ]
    assert run.spans == [[second * 1000 - 3000, second * 1000] for second in (1, 2, 3, 4, 5)]


def test_the_last_so_many_every_so_often() -> None:
    """A length in tuples with a slide in time is shown if it has new tuples."""
    run = Run(Shown().with_window(Count(3), Duration.seconds(5)))
    run.give(1, 2)
    run.tick(5.0)
    run.tick(20.0)
    run.give(3, 4)
    run.tick(25.0)
    assert run.shown == [[[1, 2], [1, 2], []], [[2, 3, 4], [3, 4], [1]]]


def test_a_time_every_so_many() -> None:
    """The length is a time, and the slide a number of tuples."""
    run = Run(Shown().with_window(Duration.seconds(5), Count(2)))
    run.give(1)
    run.now = 4.0
    run.give(2)
    run.now = 8.0
    run.give(3, 4)
    assert run.shown == [[[1, 2], [1, 2], []], [[2, 3, 4], [3, 4], [1]]]


@pytest.mark.parametrize("back", [0.0, 3.0])
def test_clock_going_back_shows_no_window_twice(back: float) -> None:
    run = Run(Shown().with_tumbling_window(Duration.seconds(10)))
    run.give(1)
    run.tick(10.0)
    run.tick(back)
    run.give(2)
    run.tick(10.0)
    run.tick(20.0)
    assert run.shown == [[[1], [1], []], [[2], [2], [1]]]


def test_event_time() -> None:
    """Windows end by event time, minus the lag. The clock has no effect."""
    bolt = (
        Shown().with_tumbling_window(Duration(10)).with_timestamp_field("ts").with_lag(Duration(5))
    )
    run = Run(bolt)
    run.give(3, 12, 8, 14)
    run.tick(99.0)
    assert run.shown == [], "the watermark is at 9"
    run.give(15)
    run.tick(99.0)
    assert run.shown == [[[3, 8], [3, 8], []]]
    assert run.spans == [[0, 10]]
    run.give(31)
    run.tick(99.0)
    assert run.shown[1:] == [[[12, 14, 15], [12, 14, 15], [3, 8]]]


def test_the_slowest_input_task_counts() -> None:
    """Only input tasks that have sent tuples count, as in Storm."""
    bolt = Shown().with_tumbling_window(Duration(10)).with_timestamp_field("ts")
    run = Run(bolt, {"in": ["n", "ts"], "other": ["n", "ts"]})
    run.give(5, 25)
    run.give(7, source="other")
    run.tick()
    assert run.shown == []
    run.give(11, source="other")
    run.tick()
    assert run.shown == [[[5, 7], [5, 7], []]]


def test_an_input_that_has_not_begun_is_waited_for() -> None:
    """Its first tuples are not late, as in Storm. The wait is limited to that for an idle input."""

    def bolt() -> WindowedBolt:
        return Shown().with_tumbling_window(Duration(10)).with_timestamp_field("ts")

    inputs: dict[Any, Sequence[str]] = {"in": ["n", "ts"], ("in", "more"): ["n", "ts"]}
    run = Run(bolt(), inputs)
    run.tester.give([25, 25], "in")
    run.tick()
    run.tester.checkpoint()
    run.tick(1000.0)
    run.tester.give([3, 3], ("in", "more"))
    run.tick()
    assert run.shown == [[[3], [3], []]]
    impatient = Run(bolt().with_idle_timeout(Duration.seconds(10)), inputs)
    impatient.tester.give([25, 25], "in")
    impatient.tick(1.0)
    impatient.tick(10.9)
    impatient.tester.give([26, 26], "in")
    impatient.tick(11.1)
    impatient.tester.give([3, 3], ("in", "more"))
    assert impatient.tester._runs.metrics()["late_total"] == 1


def test_an_idle_input_does_not_hold_time_back() -> None:
    bolt = (
        Shown()
        .with_tumbling_window(Duration(10))
        .with_timestamp_field("ts")
        .with_idle_timeout(Duration.seconds(60))
    )
    run = Run(bolt, {"in": ["n", "ts"], "other": ["n", "ts"]})
    run.give(7, source="other")
    run.give(5)
    run.now = 50.0
    run.give(25)
    run.tick(60.0)
    assert run.shown == []
    run.tick(61.5)
    assert run.shown == [[[5, 7], [5, 7], []]]
    run.give(8, source="other")
    assert run.tester.bolt.executor is not None
    run.tick(62.0)
    assert len(run.shown) == 1, "what it sends now is late"


def test_late_tuples_have_a_stream_of_their_own() -> None:
    """Tuples at or before the watermark are late. Without the stream they are only counted."""

    def bolt() -> WindowedBolt:
        return Shown().with_tumbling_window(Duration(10)).with_timestamp_field("ts")

    run = Run(bolt().with_late_tuple_stream("late"))
    run.give(20)
    run.tick()
    run.give(20, 21, 3)
    assert run.tester.emitted("late") == [
        [{"component": "in", "stream": "default", "values": {"n": number, "ts": number}}]
        for number in (20, 3)
    ]
    run.give(30)
    run.tick()
    assert run.shown[-1][0] == [21, 30]
    dropping = Run(bolt())
    dropping.give(20)
    dropping.tick()
    dropping.give(3)
    assert dropping.tester._runs.metrics() == {
        "windows_total": 1,
        "late_total": 1,
        "in_time_total": 1,
    }
    assert len(dropping.tester.acked) == 2


def test_tuples_are_ordered_by_their_time() -> None:
    """This includes times before 1970."""
    run = Run(
        Shown()
        .with_tumbling_window(Duration(10))
        .with_timestamp_extractor(lambda tuple: tuple["ts"])
    )
    run.give(-4, -7, 9, -12, 5)
    run.tick()
    assert [all for all, _, _ in run.shown] == [[-12], [-7, -4]]
    assert run.spans == [[-20, -10], [-10, 0]]


@pytest.mark.parametrize("time", [None, "noon", 1.5, True, 2**62])
def test_a_tuple_without_a_time_fails(time: Any) -> None:
    """The others in its frame are in their windows."""
    run = Run(Shown().with_tumbling_window(Duration(10)).with_timestamp_field("ts"))
    run.tester.give([1, time])
    run.give(5, 11)
    run.tick()
    assert len(run.tester.failed) == 1
    assert "it must be the Unix time in milliseconds, a whole number" in str(
        run.tester.errors[0].error
    )
    assert run.shown == [[[5], [5], []]]


def test_a_slide_longer_than_the_window_leaves_tuples_out() -> None:
    """The windows are a sample: the last three of each ten milliseconds."""
    run = Run(Shown().with_window(Duration(3), Duration(10)).with_timestamp_field("ts"))
    run.give(*range(1, 31))
    run.tick()
    assert [all for all, _, _ in run.shown] == [[8, 9, 10], [18, 19, 20], [28, 29, 30]]


def test_leap_of_time_costs_only_its_windows() -> None:
    """The jump is a century, and the windows are a millisecond."""
    run = Run(Shown().with_window(Duration(2), Duration(1)).with_timestamp_field("ts"))
    run.give(5, 3_155_760_000_000)
    run.tick()
    assert run.spans == [[3, 5], [4, 6], [3_155_759_999_998, 3_155_760_000_000]]


class Failing(Shown):
    """Raises on the first look."""

    fails = True

    def execute(self, window: TupleWindow) -> None:
        """Raises once."""
        super().execute(window)
        if self.fails:
            self.fails = False
            raise ValueError("not yet")


def test_a_window_on_which_the_bolt_raises_is_shown_again() -> None:
    run = Run(Failing().with_tumbling_window(Duration(10)).with_timestamp_field("ts"))
    run.give(5, 11)
    run.tick()
    run.give(12)
    run.tick()
    assert run.shown[-1] == [[5], [5], []]
    assert len(run.tester.errors) == 1


class Totals(StatefulWindowedBolt):
    """Keeps a total in addition to its windows."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("total")

    def execute(self, window: TupleWindow) -> None:
        """Adds the window to the total."""
        total = self.state.get("total", 0) + sum(tuple["n"] for tuple in window.new)
        self.state.put("total", total)
        self.collector.emit([total])


def test_bolts_state_is_separate_from_the_windows() -> None:
    """The bolt's state does not show the windows, and the windows do not show the state."""
    run = Run(Totals().with_window(Count(3), Count(2)))
    run.give(1, 2, 3, 4)
    assert run.tester.emitted() == [[3], [10]]
    assert dict(run.tester.bolt.state.items()) == {"total": 10}  # type: ignore[attr-defined]
    assert list(run.tester.bolt.state.range("a", "t")) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: Shown(),
            "it has no window: call with_window, with_tumbling_window or with_session_window",
        ),
        (
            lambda: Shown().with_tumbling_window(Count(1)).with_lag(Duration(1)),
            "event time .lag., but its tuples have no time",
        ),
    ],
)
def test_invalid_settings_are_refused(make: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        BoltTester(make(), "n")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Count(0),
        lambda: Duration(0),
        lambda: Shown().with_window(5),  # type: ignore[arg-type]
        lambda: Duration.seconds(0),
    ],
)
def test_invalid_window_length_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        wrong()


def test_units() -> None:
    assert (
        Duration.days(1) == Duration.hours(24) == Duration.minutes(1440) == Duration.of(86_400_000)
    )
    assert LATE_TUPLE == "late_tuple"


def test_bolt_emits_only_while_a_window_is_shown() -> None:
    bolt = Shown().with_tumbling_window(Count(1))
    run = Run(bolt)
    with pytest.raises(RuntimeError, match="while it executes a window"):
        bolt.collector.emit([1])
    with pytest.raises(RuntimeError, match="are already acked"):
        bolt.collector.fail(None)
    run.give(1)
    assert len(run.shown) == 1


def by_definition(
    times: Sequence[int], length: int, slide: int, until: int
) -> dict[int, list[int]]:
    """Returns all windows with a tuple, by their end."""
    found: dict[int, list[int]] = defaultdict(list)
    for end in range(-slide * 4, until + 1, slide):
        for time in sorted(times):
            if end - length < time <= end:
                found[end].append(time)
    return found


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=6),
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(0, 20),
)
def test_event_time_windows_match_their_definition(
    rounds: list[list[int]], length: int, slide: int, lag: int
) -> None:
    """Each window of tuples that are not late is shown once, in any order of input."""
    bolt = Shown().with_window(Duration(length), Duration(slide)).with_timestamp_field("ts")
    run = Run(bolt.with_lag(Duration(lag)) if lag else bolt)
    kept: list[int] = []
    watermark = latest = -1
    for times in rounds:
        for time in times:
            run.give(time)
            if time > watermark:
                kept.append(time)
                latest = max(latest, time)
        run.tick()
        watermark = max(watermark, latest - lag) if latest >= 0 else watermark
    shown = {end: all for all, _, _, _, end in run.tester.emitted()}
    assert len(shown) == len(run.tester.emitted())
    assert shown == {
        end: all for end, all in by_definition(kept, length, slide, watermark).items() if all
    }


class Hooked(Totals):
    """Records its hooks, and writes in `pre_prepare`."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Hooked":
        return self

    def init_state(self, state: KeyValueState) -> None:
        self.steps.append("init_state")
        super().init_state(state)

    async def pre_prepare(self, checkpoint_id: int) -> None:
        self.steps.append(f"pre_prepare {checkpoint_id}")
        self.state.put("prepared", checkpoint_id)

    def pre_commit(self, checkpoint_id: int) -> None:
        self.steps.append(f"pre_commit {checkpoint_id} of {self.state.get('prepared')}")

    def pre_rollback(self) -> None:
        self.steps.append("pre_rollback")


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
def test_stateful_windowed_bolt_has_a_part_in_its_checkpoints(guarantee: str) -> None:
    bolt, feeder = Hooked(), FeederSpout("n")
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=guarantee))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("totals", bolt.with_tumbling_window(Count(2))).shuffle_grouping("numbers")
    with LocalCluster(builder.build()) as cluster:
        feeder.feed([1], 0)
        cluster.run_until_idle()
        cluster.checkpoint("totals")
        # a checkpoint may precede the tuple
        assert bolt.steps[0] == "init_state"
        prepared = [step.split()[1] for step in bolt.steps if step.startswith("pre_prepare")]
        committed = [step for step in bolt.steps if step.startswith("pre_commit")]
        assert committed == [f"pre_commit {number} of {number}" for number in prepared]
        assert "pre_rollback" not in bolt.steps
        bolt.steps.clear()
        cluster.crash("totals")
        cluster.run_until_idle()
        feeder.feed([2], 1)
        cluster.run_until_idle()
        assert bolt.steps[:2] == ["pre_rollback", "init_state"]
        assert cluster.emitted("totals") == [[3]]
