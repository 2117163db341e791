"""Windows that keep a value for each group in place of tuples: they show what windows of tuples would."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import gcd
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.testing import BoltTester, FeederSpout, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Fields, Topology
from kstorm.trident import Sum, TridentTopology, Window
from kstorm.trident.making import aggregating
from kstorm.trident.windows import CombiningBolt, window_bolt
from kstorm.windows import Count, Duration, chains

FIELDS = Fields("key", "n", "at")


def sums(window: Window) -> Any:
    """The bolt that adds up `n` by `key`."""
    return window_bolt(
        window, aggregating(Sum(), Fields("key"), Fields("n"), Fields("sum"), FIELDS)[1], Fields("key", "sum")
    )


def test_it_keeps_tuples_only_where_it_has_to() -> None:
    """Where windows end by numbers of tuples."""
    assert type(sums(Window(Duration(10)))) is CombiningBolt
    assert type(sums(Window(Count(10)))) is not CombiningBolt
    assert type(sums(Window(Duration(10), Count(2)))) is not CombiningBolt


def by_definition(tuples: Sequence[tuple[str, int, int]], length: int, slide: int, until: int) -> list[list[Any]]:
    """All sums of all windows, window by window."""
    found: list[list[Any]] = []
    for end in range(-40 // slide * slide, until + 1, slide):
        totals: dict[str, int] = defaultdict(int)
        for key, number, at in tuples:
            if end - length < at <= end:
                totals[key] += number
        found += [[key, total] for key, total in sorted(totals.items())]
    return found


@pytest.mark.parametrize("many", [0, 1000])
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(-20, 60)), max_size=6), max_size=6
    ),
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(0, 20),
)
def test_sums_are_what_they_are_by_definition(
    many: int, rounds: list[list[tuple[str, int, int]]], length: int, slide: int, lag: int
) -> None:
    """Of all that was not late, each window once, whatever length and slide have in common; read pane by pane or by chains."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chains, "MANY", many)
        check_by_definition(rounds, length, slide, lag)


def check_by_definition(rounds: list[list[tuple[str, int, int]]], length: int, slide: int, lag: int) -> None:
    """Of one kind of manager."""
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
        watermark = max(watermark, latest - lag)
    shown, rest = tester.emitted(), by_definition(kept, length, slide, watermark)
    assert Counter(map(tuple, shown)) == Counter(map(tuple, rest))
    runs: Any = tester._runs
    ended, *_ = runs._manager.stored()
    stays = slide if type(runs._manager) is chains.ChainManager else 0  # which lets go when the next window is shown
    panes = [int(key[4:23]) - 2**62 for key, _ in tester._state.range("w/p/", "w/p0")]
    assert all(pane * gcd(length, slide) > ended + min(0, slide - length) - stays for pane in panes), (
        "no more is kept than is needed"
    )


INPUT = [["abc"[number % 3], number, (number * 7) % 50] for number in range(40)]
CLOSING = [[key, 0, 1000] for key in "abc"]


def build() -> Topology:
    """Sums of each key in windows of 20 ms, every 10."""
    topology = TridentTopology("sums")
    window = Window(Duration(20), Duration(10)).with_timestamp_field("at").with_lag(Duration(100))
    stream = topology.new_stream("in", FeederSpout("key", "n", "at")).group_by("key")
    stream.window(window, "n", Sum(), "sum").parallelism_hint(2).to_kafka("sums")
    return topology.build()


def test_sums_are_exact_whatever_dies() -> None:
    """Nothing is late here, as the lag is longer than all."""
    expected = Counter((key, total) for key, total in by_definition([tuple(row) for row in INPUT], 20, 10, 900))  # type: ignore[misc]

    def judge(cluster: KafkaCluster) -> None:
        cluster.advance_time(10)
        cluster.checkpoint()
        records = [json.loads(record.value() or b"") for record in cluster.kafka.records("sums")]
        assert Counter((record["key"], record["sum"]) for record in records) == expected

    simulate(build(), {"in": [*INPUT, *CLOSING]}, judge, range(50), kafka=lambda: FakeKafka({"sums": 1}))


def test_a_look_at_long_windows_changes_little_and_reads_little() -> None:
    """Whatever look it is: the keys do not turn their chains all at once, and no window is read whole."""
    tester = BoltTester(sums(Window(Duration(200), Duration(1)).with_timestamp_field("at")), FIELDS)
    assert type(tester._runs._manager) is chains.ChainManager  # type: ignore[union-attr]
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
