"""Windows that store a value per group instead of tuples. Their results are those of tuple windows."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import gcd
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.task_state import TaskState
from kstorm.testing import BoltTester, FeederSpout, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Fields, Topology
from kstorm.trident import Sum, TridentTopology, Window
from kstorm.trident.step_factories import aggregate_step
from kstorm.trident.windows import CombiningBolt, window_bolt
from kstorm.windows import Count, Duration, executor, pane_aggregates, panes

FIELDS = Fields("key", "n", "at")


def sums(window: Window) -> Any:
    """Builds the bolt that sums `n` by `key`."""
    return window_bolt(
        window,
        aggregate_step(Sum(), Fields("key"), Fields("n"), Fields("sum"), FIELDS)[1],
        Fields("key", "sum"),
    )


def test_tuples_are_stored_only_for_windows_by_count() -> None:
    """It needs the tuples only if windows end by count."""
    assert type(sums(Window(Duration(10)))) is CombiningBolt
    assert type(sums(Window(Count(10)))) is not CombiningBolt
    assert type(sums(Window(Duration(10), Count(2)))) is not CombiningBolt


def by_definition(
    tuples: Sequence[tuple[str, int, int]], length: int, slide: int, until: int
) -> list[list[Any]]:
    """Returns all sums of all windows, one window after the other."""
    found: list[list[Any]] = []
    for end in range(-40 // slide * slide, until + 1, slide):
        totals: dict[str, int] = defaultdict(int)
        for key, number, at in tuples:
            if end - length < at <= end:
                totals[key] += number
        found += [[key, total] for key, total in sorted(totals.items())]
    return found


@pytest.mark.parametrize("at_once", [1, 50_000])
@pytest.mark.parametrize("many", [0, 1000])
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(-20, 60)), max_size=6
        ),
        max_size=6,
    ),
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(0, 20),
)
def test_sums_match_their_definition(
    many: int,
    at_once: int,
    rounds: list[list[tuple[str, int, int]]],
    length: int,
    slide: int,
    lag: int,
) -> None:
    """The sums cover all tuples that are not late, and each window is shown once.

    This holds for any length and slide, for panes and chains, and for whole or partial reads.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pane_aggregates, "MANY", many)
        patched.setattr(pane_aggregates, "LINK", 2)
        patched.setattr(executor, "AT_ONCE", at_once)
        patched.setattr(panes, "PIECE", at_once)
        check_by_definition(rounds, length, slide, lag)


def check_by_definition(
    rounds: list[list[tuple[str, int, int]]], length: int, slide: int, lag: int
) -> None:
    """Compares one kind of manager with the definition."""
    window = Window(Duration(length), Duration(slide)).with_timestamp_field("at")
    tester = BoltTester(sums(window.with_lag(Duration(lag)) if lag else window), FIELDS)
    kept: list[tuple[str, int, int]] = []
    watermark = latest = -1000
    for tuples in rounds:
        for each in tuples:
            tester.give(list(each))
            if each[2] > watermark:
                kept.append(each)
                latest = max(latest, each[2])
        tester.tick()
        runs: Any = tester._runs
        while runs._more:
            tester.tick()
        runs._restore()  # restores the stored state
        watermark = max(watermark, latest - lag)
    shown, rest = tester.emitted(), by_definition(kept, length, slide, watermark)
    assert Counter(map(tuple, shown)) == Counter(map(tuple, rest))
    if not rounds:
        return
    ended, *_ = runs._manager.stored()
    panes = [int(key[4:23]) - 2**62 for key, _ in tester._state.range("w/p/", "w/p0")]
    assert all(pane * gcd(length, slide) > ended + min(0, slide - length) for pane in panes), (
        "no more is kept than is needed"
    )


LONG_AFTER = 1000
"""A time after the end of every window."""


class FailingError(Exception):
    """The error of a user's aggregator."""


class Failing:
    """Adds numbers, and raises after each of the given counts of calls."""

    def __init__(self, after: Sequence[int]) -> None:
        self._after = list(after)

    def __call__(self, one: int, other: int) -> int:
        if self._after:
            self._after[0] -= 1
            if not self._after[0]:
                del self._after[0]
                raise FailingError
        return one + other


@pytest.mark.parametrize("kind", [panes.PaneManager, pane_aggregates.PaneAggregateManager])
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(1, 20)), max_size=6
        ),
        max_size=8,
    ),
    st.integers(1, 60),
    st.integers(1, 30),
    st.lists(st.integers(1, 12), max_size=6),
    st.lists(st.booleans(), max_size=12),
)
def test_window_continues_after_an_error_or_a_stop(
    kind: type[panes.PaneManager],
    rounds: list[list[tuple[str, int, int]]],
    length: int,
    slide: int,
    failures: list[int],
    stops: list[bool],
) -> None:
    """With at least once, the changes of a failed execution stay, and the same part is shown again.

    If a reader stops within a window, the next call returns the rest. A part here is two keys.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(panes, "PIECE", 2)
        patched.setattr(pane_aggregates, "LINK", 2)
        run = Run(kind, length, slide, failures, stops)
        given: list[tuple[str, int, int]] = []
        for number, tuples in enumerate(rounds):
            for key, value, ahead in tuples:
                given.append((key, value, 12 * number + ahead))
                run.until_done(lambda: run.add(*given[-1]))
            run.until_done(lambda: run.show(12 * (number + 1)))  # noqa: B023 - it is called at once
        stops.clear()
        run.until_done(lambda: run.show(LONG_AFTER))
    expected: Counter[tuple[int, str]] = Counter()
    for end in range(0, LONG_AFTER, slide):
        for key, value, at in given:
            expected[end, key] += value if end - length < at <= end else 0
    assert run.found == +expected
    if slide <= length:  # otherwise a pane between two windows goes with the next window
        assert list(run.state.items()) == [], "nothing is kept when all has passed"


class Run:
    """Reads the sums of one kind of manager despite failures. `stops` interrupts the reader."""

    def __init__(
        self,
        kind: type[panes.PaneManager],
        length: int,
        slide: int,
        failures: Sequence[int],
        stops: list[bool],
    ) -> None:
        failing, self._stops = Failing(failures), stops
        rows: dict[bytes, bytes] = {}
        state = TaskState(
            rows.get, lambda start: sorted(pair for pair in rows.items() if pair[0] >= start)
        )
        self._rows, self.state = rows, state
        self._make: Callable[[], panes.PaneManager] = lambda: kind(
            state, length, slide, fold, failing
        )
        self._manager = self._make()
        self.found: dict[tuple[int, str], int] = {}

    def until_done(self, do: Callable[[], None]) -> None:
        """Shows windows repeatedly, with a restored manager each time, until all is done."""
        done = False
        while not done:
            with suppress(FailingError):
                do()
                done = True
            stored = self._manager.stored()
            self._manager = self._make()
            self._manager.restore(stored)
        for key, value in self.state.take_changes():
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value
        self.state.stored()
        self.state._make_room()

    def add(self, key: str, value: int, at: int) -> None:
        row: Any = (key, value)
        self._manager.add(at, row)

    def show(self, time: int) -> None:
        """Shows all due windows. No sum is repeated."""
        for window in self._manager.due(time):
            if self._stops and self._stops.pop():
                return
            for [key], total in window.values:
                assert (window.end_timestamp, key) not in self.found
                self.found[window.end_timestamp, key] = total


def fold(row: Any) -> tuple[str, Sequence[Any], Any]:
    """Returns the key, the key as a list, and the value."""
    key, value = row
    return key, [key], value


INPUT = [["abc"[number % 3], number, (number * 7) % 50] for number in range(40)]
CLOSING = [[key, 0, 1000] for key in "abc"]


def build() -> Topology:
    """Builds sums per key in windows of 20 ms, every 10 ms."""
    topology = TridentTopology("sums")
    window = Window(Duration(20), Duration(10)).with_timestamp_field("at").with_lag(Duration(100))
    stream = topology.new_stream("in", FeederSpout("key", "n", "at")).group_by("key")
    stream.window(window, "n", Sum(), "sum").parallelism_hint(2).to_kafka("sums")
    return topology.build()


@pytest.mark.parametrize("many", [0, 1000])
def test_sums_are_exact_whatever_dies(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lag is longer than the test, so nothing is late. Reads are by panes or by chains."""
    monkeypatch.setattr(pane_aggregates, "MANY", many)
    expected = Counter(
        (key, total)
        for key, total in by_definition([tuple(row) for row in INPUT], 20, 10, 900)  # type: ignore[misc]
    )

    def judge(cluster: KafkaCluster) -> None:
        cluster.advance_time(10)
        cluster.checkpoint()
        records = [json.loads(record.value() or b"") for record in cluster.kafka.records("sums")]
        assert Counter((record["key"], record["sum"]) for record in records) == expected

    simulate(
        build(), {"in": [*INPUT, *CLOSING]}, judge, range(8), kafka=lambda: FakeKafka({"sums": 1})
    )


def test_a_look_at_long_windows_changes_little_and_reads_little() -> None:
    """Keys do not rebuild their chains at the same time, and no window is read as a whole."""
    tester = BoltTester(sums(Window(Duration(200), Duration(1)).with_timestamp_field("at")), FIELDS)
    assert type(tester._runs._manager) is pane_aggregates.PaneAggregateManager  # type: ignore[union-attr]
    put, get = tester._state.put, tester._state.get
    touched = 0

    def counted(do: Any) -> Any:
        def count(*args: Any) -> Any:
            nonlocal touched
            touched += 1
            return do(*args)

        return count

    tester._state.put, tester._state.get = counted(put), counted(get)  # type: ignore[method-assign]
    most = 0
    for at in range(1, 421):
        for key in range(32):
            tester.give([f"k{key}", 1, at])
        touched = 0
        tester.tick()
        most = max(most, touched)
    assert tester.emitted()[-1] == ["k9", 200]
    assert most < 32 * 60
