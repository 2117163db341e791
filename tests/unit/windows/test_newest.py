"""Windows of a tuple count that end by time: their stored tuples, and their contents."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import TopologyBuilder
from kstorm.windows import Count, Duration
from kstorm.windows.newest import _FEW
from tests.unit.windows.shown import Run, Shown


def stored(run: Run) -> int:
    """Returns the number of tuples in the state."""
    return sum(1 for _ in run.tester._state.range("w/t/", "w/t0"))


@pytest.mark.parametrize("order", ["up", "down", "shuffled"])
@pytest.mark.parametrize("event_time", [True, False])
def test_tuples_that_no_window_needs_are_dropped(order: str, event_time: bool) -> None:
    """Otherwise the state would hold every tuple of the slide, here 1,000."""
    bolt = Shown().with_window(Count(3), Duration.hours(1))
    run = Run(bolt.with_timestamp_field("ts") if event_time else bolt)
    numbers = list(range(1, 1001))
    if order == "down":
        numbers.reverse()
    elif order == "shuffled":
        Random(1).shuffle(numbers)
    for place, number in enumerate(numbers):
        run.give(number)
        if place % 140 == 0:
            run.tester.checkpoint()
        assert stored(run) <= 3 + 3 + _FEW
    if event_time:
        run.give(9_999_999)
        run.tick()
        expected = [998, 999, 1000]
    else:
        run.tick(3600.0)
        expected = numbers[-3:]
    assert run.shown == [[expected, expected, []]]


def definition(
    times: list[int], length: int, slide: int, until: int
) -> list[tuple[int, list[int], list[int], list[int]]]:
    """Returns the end of each window with a new tuple, and its all, new and expired tuples."""
    found, shown, before = [], -1, list[int]()
    order = sorted(range(len(times)), key=lambda number: (times[number], number))
    for end in range(0, until + 1, slide):
        if not any(shown < time <= end for time in times):
            continue
        inside = [number for number in order if times[number] <= end][-length:]
        new = [number for number in inside if times[number] > shown]
        found.append((end, inside, new, [number for number in before if number not in inside]))
        shown, before = end, inside
    return found


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=8),
    st.integers(1, 4),
    st.integers(1, 25),
    st.integers(0, 30),
    st.sets(st.integers(0, 8)),
)
def test_windows_match_their_definition(
    rounds: list[list[int]], length: int, slide: int, lag: int, dies: set[int]
) -> None:
    """The tuples come in any order, several windows are open, and the state is restored at times."""
    bolt = Shown().with_window(Count(length), Duration(slide)).with_timestamp_field("ts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kstorm.windows.newest._FEW", 0)
        run = Run(bolt.with_lag(Duration(lag)) if lag else bolt)
        _rounds(run, rounds, length, slide, lag, dies)


def _rounds(
    run: Run, rounds: list[list[int]], length: int, slide: int, lag: int, dies: set[int]
) -> None:
    kept: list[int] = []
    watermark = latest = -1
    for place, times in enumerate(rounds):
        for time in times:
            if time > watermark:
                run.give(len(kept), at=time)
                kept.append(time)
                latest = max(latest, time)
        if place in dies:
            executor: Any = run.tester._runs
            executor._stale = True  # memory is loaded again, as after a failed execution
        run.tick()
        watermark = max(watermark, latest - lag) if latest >= 0 else watermark
    found = [(end, all, new, expired) for all, new, expired, _, end in run.tester.emitted()]
    assert found == definition(kept, length, slide, watermark)
    opened = len({-(-time // slide) for time in kept if time > watermark - slide})
    assert stored(run) <= length + opened * (2 * length)


def test_a_process_that_dies_counts_again() -> None:
    """The next process shows the last three tuples, and its state holds no others."""
    builder = TopologyBuilder("t")
    builder.set_spout("in", FeederSpout("n", "ts"))
    bolt = Shown().with_window(Count(3), Duration.minutes(1))
    builder.set_bolt("windows", bolt).shuffle_grouping("in")
    with LocalCluster(builder.build()) as cluster:
        spout: Any = cluster.topology.component("in").component
        for first in (0, 100):
            for number in range(first, first + 100):
                spout.feed([number, 0])
            cluster.run_until_idle()
            cluster.checkpoint()
            cluster.crash("windows")
        cluster.advance_time(120)
        assert [all for all, *_ in cluster.emitted("windows")] == [[197, 198, 199]]


def test_the_search_for_surplus_tuples_reads_only_those() -> None:
    """Otherwise it would read every deleted tuple again until the next checkpoint."""
    run = Run(Shown().with_window(Count(50), Duration.hours(1)))
    read, ranges = 0, run.tester._state.range

    def counted(start: str = "", end: str | None = None) -> Any:
        nonlocal read
        for pair in ranges(start, end):
            read += 1
            yield pair

    run.tester._state.range = counted  # type: ignore[method-assign]
    run.give(*range(2000))
    assert read < 3000
