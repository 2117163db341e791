"""Edge cases of windows from Storm's `WindowManagerTest` and from Flink's and Kafka Streams' tests."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.testing import BoltTester, FeederSpout, LocalCluster
from kstorm.topology import Config, TopologyBuilder
from kstorm.windows import Count, Duration, TupleWindow, WindowedBolt
from tests.unit.windows.shown import Run, Shown


def in_time(bolt: WindowedBolt) -> Run:
    """Sets the event time to the field `ts`, with a stream of late tuples."""
    return Run(bolt.with_timestamp_field("ts").with_late_tuple_stream("late"))


def at(run: Run, *times: int, first: int = 1) -> None:
    """Gives tuples with these times, numbered from `first` on."""
    for number, time in enumerate(times, first):
        run.give(number, at=time)


def watermark(run: Run, time: int) -> None:
    """Advances the watermark with a tuple numbered 0."""
    run.give(0, at=time)
    run.tick()


def windows(run: Run) -> list[list[int]]:
    """Returns the numbers in each window, without the zeros of watermark tuples."""
    return [[number for number in all if number] for all, _, _ in run.shown]


# Storm's WindowManagerTest.


def test_three_tuples_every_ten_milliseconds() -> None:
    """The test's three windows. A window without new tuples is not shown, but Storm repeats it."""
    run = in_time(Shown().with_window(Count(3), Duration(10)))
    at(run, 603, 605, 607, 618, 626)
    watermark(run, 631)
    assert windows(run) == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]


SAME = (10, 10, 11, 12, 12, 12, 12, 13, 14, 15)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (2, [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]),
        (5, [[1, 2], [1, 2, 3, 4], [2, 3, 4, 5, 6], [4, 5, 6, 7, 8], [6, 7, 8, 9, 10]]),
    ],
)
def test_many_tuples_of_one_time_by_their_number(length: int, expected: list[list[int]]) -> None:
    run = in_time(Shown().with_window(Count(length), Count(2)))
    at(run, *SAME)
    run.tick()
    assert windows(run) == expected


def test_out_of_order_up_to_the_lag() -> None:
    """The seventh tuple comes after the sixth, and has its place in the window."""
    bolt = Shown().with_window(Duration(20), Duration(10)).with_lag(Duration(5))
    run = in_time(bolt)
    at(run, 603, 605, 607, 618, 626, 632, 629, 636)
    run.tick()
    assert windows(run) == [[1, 2, 3], [1, 2, 3, 4], [4, 5, 7]]


def test_a_watermark_before_the_first_end_shows_nothing() -> None:
    run = in_time(Shown().with_window(Duration(20), Duration(10)))
    at(run, 603, 605, 607)
    watermark(run, 609)
    assert run.shown == []


def test_a_thousand_more_tuples_than_the_window_is_long_before_it_is_shown() -> None:
    """Storm drops some of them. Here they are new to no window, and their removal is complete."""
    run = Run(Shown().with_window(Count(5), Duration.seconds(3600)))
    run.give(*range(1, 1006))
    run.tick(3600.0)
    assert run.shown == [[list(range(1001, 1006)), list(range(1001, 1006)), []]]
    run.tester.checkpoint()
    assert sum(key.startswith(b"w/t/") for key in run.tester._stored) == 5


# Flink: lateness, edges, offsets of windows.


def test_at_a_windows_edge() -> None:
    """A window includes its last moment and excludes its first.

    Flink and Kafka Streams do the opposite.
    """
    run = in_time(Shown().with_tumbling_window(Duration(10)))
    at(run, 0, 1, 10, 11, 20)
    watermark(run, 30)
    assert windows(run) == [[1], [2, 3], [4, 5], []]
    assert run.spans[:3] == [[-10, 0], [0, 10], [10, 20]]


def test_a_tuple_just_behind_the_watermark_is_the_first_that_is_not_late() -> None:
    run = in_time(Shown().with_tumbling_window(Duration(10)))
    watermark(run, 14)
    at(run, 13, 14, 15)
    watermark(run, 20)
    assert windows(run)[-1] == [3]
    assert [late["values"]["n"] for (late,) in run.tester.emitted("late")] == [1, 2]


def test_late_for_one_window_is_late_for_all() -> None:
    """Flink adds it to its open windows. In Storm, as here, the watermark decides for the tuple."""
    run = in_time(Shown().with_window(Duration(20), Duration(10)))
    watermark(run, 12)
    at(run, 11)
    watermark(run, 40)
    assert all(all == [] for all in windows(run))


def test_a_watermark_that_leaps_shows_all_that_it_passes() -> None:
    """They are shown in order and once, as with small steps of the watermark."""
    leaping, walking = (in_time(Shown().with_window(Duration(30), Duration(10))) for _ in range(2))
    times = (5, 17, 44, 46, 90, 95)
    at(leaping, *times)
    for number, time in enumerate(times, 1):
        walking.give(number, at=time)
        walking.tick()
    watermark(leaping, 200)
    watermark(walking, 200)
    assert leaping.tester.emitted() == walking.tester.emitted()


def test_the_clock_leaps_ahead_and_back() -> None:
    """The jump is an hour. Tuples that arrive meanwhile have the highest shown time.

    Each window is shown once.
    """
    run = Run(Shown().with_tumbling_window(Duration.seconds(10)))
    run.give(1)
    run.tick(3600.0)
    run.tick(20.0)
    run.give(2, 3)
    run.tick(30.0)
    run.tick(3610.0)
    run.tick(3620.0)
    assert run.shown == [[[1], [1], []], [[2, 3], [2, 3], [1]]]


def test_empty_windows_are_not_shown_and_leave_nothing_out() -> None:
    """A tuple that expires in an empty window is not reported twice.

    It is also not reported by a later window that is not adjacent.
    """
    run = in_time(Shown().with_window(Duration(20), Duration(10)))
    at(run, 5, 100)
    watermark(run, 120)
    assert [end for _, end in run.spans] == [10, 20, 100, 110, 120]
    assert [expired for _, _, expired in run.shown] == [[], [], [1], [], [2]]


def test_tuples_between_windows_are_neither_new_nor_expired() -> None:
    run = in_time(Shown().with_window(Duration(3), Duration(10)))
    at(run, 2, 8, 10, 11, 17, 18, 19)
    watermark(run, 20)
    assert [[[n for n in part if n] for part in shown] for shown in run.shown] == [
        [[2, 3], [2, 3], []],
        [[6, 7], [6, 7], [2, 3]],
    ]


def test_times_before_the_epoch_and_far_ahead() -> None:
    run = in_time(Shown().with_tumbling_window(Duration.days(1)))
    day = 86_400_000
    at(run, -3 * day, -3 * day + 1, 253_402_300_799_000)
    run.tick()
    assert windows(run)[:2] == [[1], [2]]
    assert run.spans[0] == [-4 * day, -3 * day]


def test_a_window_of_a_century() -> None:
    """In Storm, the maximum length is 24 days."""
    run = in_time(Shown().with_tumbling_window(Duration.days(36_525)))
    at(run, 1, 36_524 * 86_400_000)
    watermark(run, 36_525 * 86_400_000)
    assert windows(run) == [[1, 2]]


def test_an_input_that_falls_behind_later_holds_windows_back() -> None:
    """The slower partition decides at any time, as in Kafka Streams and Flink."""
    bolt = Shown().with_tumbling_window(Duration(10)).with_timestamp_field("ts")
    run = Run(bolt, {"in": ["n", "ts"], "other": ["n", "ts"]})
    run.give(5)
    run.give(6, source="other")
    run.give(15)
    run.give(16, source="other")
    run.tick()
    assert windows(run) == [[5, 6]]
    run.give(35)
    run.tick()
    assert len(run.shown) == 1
    run.give(31, source="other")
    run.tick()
    assert windows(run) == [[5, 6], [15, 16]]


# Restarts within a window.


def test_restarted_process_continues_its_window() -> None:
    """The restored watermark keeps late tuples late, and no window is shown twice."""
    builder = TopologyBuilder("t", Config(topology_processing_guarantee="exactly_once"))
    builder.set_spout("in", FeederSpout("n", "ts"))
    bolt = (
        Shown()
        .with_window(Duration(20), Duration(10))
        .with_timestamp_field("ts")
        .with_late_tuple_stream("late")
    )
    builder.set_bolt("windows", bolt).shuffle_grouping("in")
    with LocalCluster(builder.build()) as cluster:
        spout: Any = cluster.topology.component("in").component

        def feed(*times: int) -> None:
            for time in times:
                spout.feed([time, time])
            cluster.run_until_idle()
            cluster.advance_time(3)
            cluster.checkpoint()

        feed(3, 7, 12)
        cluster.crash("windows")
        feed(9, 14, 25)
        cluster.crash("windows")
        feed(41)
        assert [[all, end] for all, _, _, _, end in cluster.emitted("windows")] == [
            [[3, 7], 10],
            [[3, 7, 12, 14], 20],
            [[12, 14, 25], 30],
            [[25], 40],
        ]
        assert [late["values"]["n"] for (late,) in cluster.emitted("windows", "late")] == [9]


# The cost of a window.


def definition(
    times: Sequence[int], length: int, slide: int
) -> list[tuple[list[int], list[int], list[int]]]:
    """Returns the windows by count: all, new and expired tuples."""
    found = []
    before: list[int] = []
    for end in range(slide, len(times) + 1, slide):
        inside = list(times[max(0, end - length) : end])
        had = times[: end - slide]
        found.append(
            (inside, [n for n in inside if n not in had], [n for n in before if n not in inside])
        )
        before = inside
    return found


@given(st.integers(0, 60), st.integers(1, 12), st.integers(1, 12), st.sets(st.integers(1, 60)))
def test_windows_by_count_match_their_definition(
    tuples: int, length: int, slide: int, checkpoints: set[int]
) -> None:
    """State is stored at random times. A tuple that no later window needs is dropped."""
    run = Run(Shown().with_window(Count(length), Count(slide)))
    for number in range(1, tuples + 1):
        run.give(number)
        if number in checkpoints:
            run.tester.checkpoint()
    assert [tuple(each) for each in run.shown] == definition(range(1, tuples + 1), length, slide)
    run.tester.checkpoint()
    kept = sum(key.startswith(b"w/t/") for key in run.tester._stored)
    assert kept <= min(length, tuples - tuples % slide) + tuples % slide


class NewAndExpired(WindowedBolt):
    """Reads only the new and expired tuples."""

    def declare_output_fields(self, declarer: Any) -> None:
        """Declares their counts."""
        declarer.declare("new", "expired")

    def execute(self, window: TupleWindow) -> None:
        """Counts them."""
        self.collector.emit([len(window.new), len(window.expired)])


@pytest.mark.parametrize(
    ("length", "slide"),
    [(Count(2000), Count(1)), (Duration(2000), Count(1)), (Duration(2000), Duration(1))],
)
def test_cost_of_a_tuple_does_not_depend_on_the_window_length(length: Any, slide: Any) -> None:
    """The cost is the number of state pairs that a bolt with new and expired tuples reads."""
    tester = BoltTester(
        NewAndExpired().with_window(length, slide).with_timestamp_field("ts"), "n", "ts"
    )
    read = 0
    ranges = tester._state.range

    def counted(start: str = "", end: str | None = None) -> Any:
        nonlocal read
        for pair in ranges(start, end):
            read += 1
            yield pair

    tester._state.range = counted  # type: ignore[method-assign]
    for number in range(1, 2201):
        tester.give([number, number])
        if number % 20 == 0:
            tester.tick()
    assert len(tester.emitted()) == 2200
    assert tester.emitted()[-1] == [1, 1]
    assert read < 2200 * 10
