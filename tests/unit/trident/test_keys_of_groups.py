"""Groups, states, joins and windows by any key: NaN, None, equal numbers, bytes, lists, dicts."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kstorm.introspection.key_owner import likely_values, owner_of
from kstorm.introspection.outline import Outline
from kstorm.introspection.outline_builder import outline_of
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import Fields
from kstorm.topology.keys import key_text, key_values
from kstorm.trident import (
    Aggregator,
    ApproximateDistinct,
    Count,
    MapGet,
    MapState,
    NonTransactionalMap,
    OpaqueMap,
    ReducerAggregator,
    Sessions,
    Sum,
    TransactionalMap,
    TridentTopology,
    TupleCollectionGet,
    Window,
    kstorm_state,
)
from kstorm.windows import Count as Tuples
from kstorm.windows import Duration
from tests.unit.trident.streams import feed, wired
from tests.unit.trident.test_outside import Memory
from tests.unit.trident.test_storm_joins import end_window, together

NAN = float("nan")
INF = float("inf")
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
CET = timezone(timedelta(hours=1))

GROUPS: list[list[Any]] = [
    [None],
    [NAN, -NAN, float("-inf") + INF],
    [INF],
    [-INF],
    [1, 1.0],
    [True],
    ["1"],
    [0, -0.0, 0.0],
    [False],
    [b"abc", bytearray(b"abc")],
    ["YWJj"],
    [[1, 2.0], (1.0, 2)],
    [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}],
    [{1: "x"}],
    [NOON, NOON.astimezone(CET)],
    ["2026-11-26T12:00:00Z"],
    [2**64 - 1],
    ["\u00e9"],
    ["e\u0301"],
    [""],
]
"""Each list has values that are one key."""
ROWS = [[value, 1] for _ in range(5) for group in GROUPS for value in group]
EXPECTED = {key_text(group[:1]): 5 * len(group) for group in GROUPS}


def totals(rows: Any) -> dict[str, int]:
    """Returns the highest emitted value of each key."""
    found: dict[str, int] = {}
    for key, value in rows:
        found[key_text([key])] = max(value, found.get(key_text([key]), 0))
    return found


class CountOneByOne(ReducerAggregator):
    def init(self) -> int:
        return 0

    def reduce(self, current: int, tuple: Any) -> int:
        return current + 1


class CountOfBatch(Aggregator):
    """Emits the number of tuples of each group of a batch."""

    def init(self, batch_id: Any, collector: Any) -> list[int]:
        return [0]

    def aggregate(self, value: list[int], tuple: Any, collector: Any) -> None:
        value[0] += 1

    def complete(self, value: list[int], collector: Any) -> None:
        collector.emit(value)


@pytest.mark.parametrize("aggregator", [Count(), CountOneByOne()], ids=["combined", "reduced"])
@pytest.mark.parametrize("hint", [1, 3])
def test_every_key_is_counted_on_its_own(aggregator: Any, hint: int) -> None:
    """Once ten NaN counted as two, and (None, 10), (NaN, 1), (inf, 100) left 100."""
    topology = TridentTopology("t")
    counts = (
        topology.new_stream("in", FeederSpout("key", "n"))
        .group_by("key")
        .persistent_aggregate(kstorm_state(), aggregator, "count")
        .parallelism_hint(hint)
        .name("count")
    )
    asked = topology.new_stream("asked", FeederSpout("key"))
    asked.state_query(counts, Fields("key"), MapGet(), Fields("count")).map(
        lambda *row: row, ["key", "count"]
    ).name("answers")
    everything = topology.new_stream("everything", FeederSpout("x")).broadcast()
    everything.state_query(counts, (), TupleCollectionGet(), Fields("key", "count")).map(
        lambda x, key, count: (key, count), ["key", "count"]
    ).name("all")
    with LocalCluster(topology.build()) as cluster:
        feed(cluster, "in", *ROWS)
        assert cluster.errors == []
        assert totals(cluster.emitted("count")) == EXPECTED
        cluster.crash("count")
        feed(cluster, "in", *ROWS)
        doubled = {key: 2 * count for key, count in EXPECTED.items()}
        assert totals(cluster.emitted("count")) == doubled
        feed(cluster, "asked", *([value] for group in GROUPS for value in group))
        feed(cluster, "everything", ["x"])
        assert {key_text([key]): count for key, count in cluster.emitted("answers")} == doubled
        assert {key_text([key]): count for key, count in cluster.emitted("all")} == doubled
        for key, _ in cluster.emitted("count"):
            assert type(key) is not bytearray
        assert b"abc" in [key for key, _ in cluster.emitted("all")], "bytes stay bytes"
        assert NOON in [key for key, _ in cluster.emitted("all")]


def test_equal_decimals_and_sets_are_one_group() -> None:
    """They must be made in the bolt that groups them. A decimal from elsewhere is its text."""
    made = {
        "a": Decimal("1"),
        "b": Decimal("1.0"),
        "c": [Decimal("1.00")],
        "d": [Decimal("1")],
        "e": {1, "x"},
        "f": frozenset({"x", 1}),
    }
    topology = TridentTopology("t")
    (
        topology.new_stream("in", FeederSpout("name"))
        .map(lambda name: made[name], "key")
        .group_by("key")
        .persistent_aggregate(kstorm_state(), Count(), "count")
        .parallelism_hint(3)
        .name("count")
    )
    with LocalCluster(topology.build()) as cluster:
        for name in made:
            feed(cluster, "in", [name])
        assert cluster.errors == []
        found = totals(cluster.emitted("count"))
    assert found == {key_text(["1"]): 2, key_text([["1"]]): 2, key_text([{1, "x"}]): 2}


def test_a_key_of_two_fields() -> None:
    """Some values are hashable only alone."""
    rows = [[a, b, 1] for a in (NAN, None, 1, 1.0, True) for b in ([1], [1.0], b"x", "eA==")]
    topology = TridentTopology("t")
    (
        topology.new_stream("in", FeederSpout("a", "b", "n"))
        .group_by(Fields("a", "b"))
        .persistent_aggregate(kstorm_state(), Count(), "count")
        .parallelism_hint(3)
        .name("count")
    )
    with LocalCluster(topology.build()) as cluster:
        feed(cluster, "in", *rows, *rows)
        found: dict[str, int] = {}
        for a, b, count in cluster.emitted("count"):
            found[key_text([a, b])] = max(count, found.get(key_text([a, b]), 0))
    assert found == Counter(key_text([a, b]) for a, b, _ in rows + rows)


@pytest.mark.parametrize(
    "aggregator", [Count(), CountOneByOne(), CountOfBatch()], ids=["combined", "reduced", "emitted"]
)
def test_groups_of_a_batch(aggregator: Any) -> None:
    """The groups have no state. The sum over all batches is that of the group."""
    with LocalCluster(
        wired("key", "n", do=lambda s: s.group_by("key").aggregate(aggregator, "count").name("out"))
    ) as cluster:
        feed(cluster, "in", *ROWS)
        assert cluster.errors == []
        found: Counter[str] = Counter()
        for key, count in cluster.emitted("out"):
            found[key_text([key])] += count
    assert found == EXPECTED


@pytest.mark.parametrize(
    "window",
    [
        Window(Duration.minutes(1)),
        Window(Duration.hours(1), Duration.minutes(1)),
        Window(Tuples(len(ROWS))),
        Sessions(Duration.minutes(1)),
    ],
    ids=["panes", "chains", "tuples", "sessions"],
)
@pytest.mark.parametrize("aggregator", [Sum(), CountOneByOne()], ids=["combined", "reduced"])
def test_windows_of_groups(window: Window, aggregator: Any) -> None:
    """Each key has exactly one window of its own."""
    do = lambda s: s.group_by("key").window(window, "n", aggregator, "sum").name("out")  # noqa: E731
    with LocalCluster(wired("key", "n", do=do)) as cluster:
        feed(cluster, "in", *ROWS)
        for _ in range(3):
            cluster.advance_time(61)
            cluster.run_until_idle()
        assert cluster.errors == []
        assert totals(cluster.emitted("out")) == EXPECTED


@pytest.mark.parametrize("kind", [OpaqueMap, TransactionalMap, NonTransactionalMap])
def test_keys_in_a_database(kind: Any) -> None:
    """Their texts are those of kstorm's own state."""
    memory = Memory()
    topology = TridentTopology("t")
    counts = (
        topology.new_stream("in", FeederSpout("key", "n"))
        .group_by("key")
        .persistent_aggregate(kind(memory), Count(), "count")
        .name("count")
    )
    asked = topology.new_stream("asked", FeederSpout("key"))
    asked.state_query(counts, Fields("key"), MapGet(), Fields("count")).map(
        lambda *row: row, ["key", "count"]
    ).name("answers")
    with LocalCluster(topology.build()) as cluster:
        feed(cluster, "in", *ROWS)
        cluster.advance_time(10)
        feed(cluster, "asked", *([value] for group in GROUPS for value in group))
        assert {key_text([key]): n for key, n in cluster.emitted("answers")} == EXPECTED
    assert memory.rows.keys() == EXPECTED.keys()


@pytest.mark.parametrize("window", [None, Window(Duration.minutes(1))], ids=["all", "window"])
@pytest.mark.parametrize("kind", ["inner", "full"])
def test_joins_by_any_key(window: Any, kind: str) -> None:
    """A value joins equal keys, and None joins nothing."""
    if window is None and kind == "full":
        pytest.skip("such a join needs a window")
    topology = TridentTopology("t")
    left = topology.new_stream("left", FeederSpout("key", "a"))
    right = topology.new_stream("right", FeederSpout("key", "b"))
    topology.join(left, "key", right, "key", ["key", "a", "b"], kind, window=window).name("out")
    values = [(group, value) for group, values in enumerate(GROUPS) for value in values]
    with LocalCluster(topology.build()) as cluster:
        rows = [[value, place] for place, (_, value) in enumerate(values)]
        together(cluster, left=rows, right=rows)
        end_window(cluster)
        assert cluster.errors == []
        found = Counter((a, b) for _, a, b in cluster.emitted("out"))
    expected: Counter[Any] = Counter(
        (a, b)
        for a, (one, value) in enumerate(values)
        for b, (other, _) in enumerate(values)
        if one == other and value is not None
    )
    if kind == "full":
        expected |= Counter({(0, None): 1, (None, 0): 1})
    assert found == expected


def test_distinct_values_are_those_of_keys() -> None:
    pytest.importorskip("datasketches")
    distinct = ApproximateDistinct()
    keys = ["x"] * len(ROWS)
    found = distinct.fold_columns(keys, [[key for key, _ in ROWS]], lambda: ())
    assert distinct.result(found["x"]) == len(GROUPS)


class Stored:
    """A state in memory, encoded as MessagePack."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}

    def get(self, key: str, default: Any = None) -> Any:
        return msgspec.msgpack.decode(self.rows[key]) if key in self.rows else default

    def put(self, key: str, value: Any) -> None:
        self.rows[key] = msgspec.msgpack.encode(value)

    def items(self) -> Any:
        return ((key, msgspec.msgpack.decode(value)) for key, value in self.rows.items())


def test_a_map_state_returns_the_keys_that_it_was_given() -> None:
    """NaN is NaN and bytes are bytes. Equal numbers are one key."""
    kept: Any = Stored()
    state = MapState(kept)
    for group in GROUPS:
        for value in group:
            state.put([value, "x"], state.get([value, "x"], 0) + 1)
    found = {key_text(key): count for *key, count in state.get_tuples()}
    assert found == {key_text([group[0], "x"]): len(group) for group in GROUPS}
    (nan,) = (key for key, _, _ in state.get_tuples() if isinstance(key, float) and key != key)
    assert math.isnan(nan)
    with pytest.raises(TypeError, match="cannot be a key"):
        state.put([object()], 1)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: ascii(group[0]))
def test_the_task_of_a_key_is_found_by_its_text(group: list[Any], tmp_path: Path) -> None:
    """`kstorm state get` reads the grouping values from the text."""
    topology = wired(
        "key",
        "n",
        do=lambda s: (
            s.group_by("key")
            .persistent_aggregate(kstorm_state(), Count(), "count")
            .parallelism_hint(7)
            .name("count")
        ),
    )
    told: Outline = outline_of(topology)
    text = key_text(group[:1])
    expected = {owner_of(told, "count", [value]) for value in group}
    assert {owner_of(told, "count", likely_values(told, "count", text))} == expected
    assert key_text(key_values(text)) == text
