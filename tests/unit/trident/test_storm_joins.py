"""Joins of streams: Storm's "Merges and joins", and its outer joins, which are windowed here."""

import json
from collections import Counter
from itertools import permutations
from typing import Any

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import FeederSpout, LocalCluster, complete_topology, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Topology
from kstorm.trident import (
    Count,
    JoinOutFieldsMode,
    JoinType,
    Sessions,
    Stream,
    TridentTopology,
    Window,
)
from kstorm.windows import Count as Tuples
from kstorm.windows import Duration
from tests.unit.trident.streams import Rows, feed

LEFT: Rows = [["k", 1, 2], ["l", 3, 4], ["l", 5, 6]]
RIGHT: Rows = [["k", 7], ["m", 8]]
BOTH = [["k", 1, 2, 7]]
ONLY_LEFT = [["l", 3, 4, None], ["l", 5, 6, None]]
ONLY_RIGHT = [["m", None, None, 8]]


def joined(outputs: Any = ("key", "a", "b", "c"), **how: Any) -> Topology:
    """Builds Storm's example: `["key", "val1", "val2"]` with `["x", "val1"]`."""
    topology = TridentTopology("t")
    stream1 = topology.new_stream("one", FeederSpout("key", "val1", "val2"))
    stream2 = topology.new_stream("two", FeederSpout("x", "val1"))
    topology.join(stream1, "key", stream2, "x", outputs, **how).name("out")
    return topology.build()


def end_window(cluster: LocalCluster, seconds: float = 60) -> None:
    """Ends the window and its epoch."""
    for each in (seconds, 5.0):
        cluster.advance_time(each)
        cluster.run_until_idle()


def together(cluster: LocalCluster, **rows: Rows) -> None:
    """Feeds the streams these tuples at one time."""
    for name, found in rows.items():
        spout: Any = cluster.topology.component(name).component
        for row in found:
            spout.feed(row)
    cluster.run_until_idle()


def came_out_of(topology: Topology) -> Rows:
    """Returns the output after a window."""
    with LocalCluster(topology) as cluster:
        together(cluster, one=LEFT, two=RIGHT)
        end_window(cluster)
        assert cluster.errors == []
        return sorted(cluster.emitted("out"), key=str)


MINUTE = Window(Duration.minutes(1))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinType.INNER, BOTH),
        (JoinType.LEFT, BOTH + ONLY_LEFT),
        ("right", BOTH + ONLY_RIGHT),
        (JoinType.FULL, BOTH + ONLY_LEFT + ONLY_RIGHT),
    ],
)
def test_each_kind_within_a_window(kind: str, expected: Rows) -> None:
    assert came_out_of(joined(kind=kind, window=MINUTE)) == sorted(expected, key=str)


def test_join_without_a_window_covers_the_whole_history() -> None:
    """The order of arrival does not matter."""
    assert came_out_of(joined()) == BOTH


@pytest.mark.parametrize("how", [{}, {"window": MINUTE}])
def test_fields_may_be_preserved(how: Any) -> None:
    """All fields of each stream are kept, in order."""
    topology = TridentTopology("t")
    one = topology.new_stream("one", FeederSpout("val1", "key", "val2")).project(
        "val1", "key", "val2"
    )
    two = topology.new_stream("two", FeederSpout("val1", "x"))
    outputs = ["a", "key", "b", "c", "x"]
    topology.join(one, "key", two, "x", outputs, mode=JoinOutFieldsMode.PRESERVE, **how).name("out")
    with LocalCluster(topology.build()) as cluster:
        together(cluster, one=[[1, "k", 2]], two=[[7, "k"]])
        end_window(cluster)
        assert cluster.emitted("out") == [[1, "k", 2, 7, "k"]]


def test_a_missing_sides_key_is_there() -> None:
    """The fields of each side have it, as in Storm."""
    found = came_out_of(
        joined(["k", "a", "b", "x", "c"], kind="full", window=MINUTE, mode="preserve")
    )
    assert ["m", None, None, "m", 8] in found
    assert ["l", 3, 4, "l", None] in found


def test_tuples_of_different_windows_do_not_pair() -> None:
    """Each side is emitted separately."""
    with LocalCluster(joined(kind="full", window=MINUTE)) as cluster:
        for spout, row in (("one", LEFT[0]), ("two", RIGHT[0])):
            feed(cluster, spout, row)
            end_window(cluster)
        assert sorted(cluster.emitted("out"), key=str) == [["k", 1, 2, None], ["k", None, None, 7]]


def by_event_time() -> Topology:
    """Builds a full join of events within 10 ms."""
    topology = TridentTopology("t")
    one, two = (topology.new_stream(name, FeederSpout("k", name, "at")) for name in ("one", "two"))
    window = Window(Duration(10)).with_timestamp_field("at").with_lag(Duration(100))
    topology.join(
        one, "k", two, "k", ["k", "a", "at", "b", "then"], "full", window=window
    ).to_kafka("joined")
    return topology.build()


ONE = [[number % 5, number, number % 50] for number in range(25)]
TWO = [[number % 5, -number, number % 30] for number in range(25)]
CLOSING = [[9, 0, 1000]]


def test_an_outer_join_is_exact_whatever_dies() -> None:
    """Each pair of a window appears once, and each tuple without a partner once.

    A window includes its end, and not its start.
    """
    pairs = [(a, b) for a in ONE for b in TWO if a[0] == b[0] and -a[2] // 10 == -b[2] // 10]
    expected: Counter[tuple[int | None, int | None]] = Counter((a[1], b[1]) for a, b in pairs)
    expected.update((a[1], None) for a in ONE if a not in [pair[0] for pair in pairs])
    expected.update((None, b[1]) for b in TWO if b not in [pair[1] for pair in pairs])

    def judge(cluster: KafkaCluster) -> None:
        cluster.advance_time(10)
        cluster.checkpoint()
        records = [json.loads(record.value() or b"") for record in cluster.kafka.records("joined")]
        assert (
            Counter((record["a"], record["b"]) for record in records if record["k"] < 9) == expected
        )

    inputs = {"one": ONE + CLOSING, "two": TWO + CLOSING}
    simulate(by_event_time(), inputs, judge, range(5, 12), kafka=lambda: FakeKafka({"joined": 1}))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"kind": "left"},
            r"test_storm_joins.py:\d+: left join\(key\): a left join over the whole history .* give it a window=",
        ),
        ({"kind": "outer"}, "'outer' is not a JoinType: give inner, left, right, full"),
        ({"mode": "all"}, "'all' is not a JoinOutFieldsMode: give compact, preserve"),
        (
            {"mode": "preserve"},
            (
                "4 output fields, but it has 5: all fields of the left stream and all fields of the "
                "right one"
            ),
        ),
        (
            {"window": Sessions(Duration.minutes(1))},
            "streams cannot be joined within sessions: give the join a window=",
        ),
        ({"outputs": ["a"]}, "1 output fields, but it has 4: the key"),
    ],
)
def test_joins_that_cannot_be(how: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        joined(**how)


def test_a_merge_of_three() -> None:
    """The names are those of the first stream."""
    topology = TridentTopology("t")
    streams = [topology.new_stream(name, FeederSpout(name)) for name in ("a", "b", "c")]
    topology.merge(*streams).map(lambda value: value).name("out")
    built = topology.build()
    result = complete_topology(built, {name: [[name]] for name in "abc"})
    assert sorted(result.emitted("out")) == [["a"], ["b"], ["c"]]
    assert list(built.component("out").streams["default"].fields) == ["a"]


def last_hour(topology: TridentTopology) -> tuple[Stream, Stream]:
    """Builds the streams of Storm's section on windowed joins, which keeps one side for a time."""
    views = topology.new_stream("views", FeederSpout("user", "page"))
    return views, topology.new_stream("buys", FeederSpout("buyer", "cents"))


def test_the_last_tuples_of_one_side() -> None:
    """A sliding window applies to both sides."""
    topology = TridentTopology("t")
    views, buys = last_hour(topology)
    window = Window(Duration.minutes(2), Duration.minutes(1))
    topology.join(
        buys, "buyer", views, "user", ["user", "cents", "page"], "left", window=window
    ).name("out")
    with LocalCluster(topology.build()) as cluster:
        feed(cluster, "views", ["ann", "/"])
        cluster.advance_time(50)
        feed(cluster, "buys", ["ann", 5], ["bob", 6])
        end_window(cluster, 60)
        found = cluster.emitted("out")
    assert ["ann", 5, "/"] in found
    assert ["bob", 6, None] in found


def test_join_by_tuple_count_can_be_aggregated() -> None:
    """A join returns a stream."""
    topology = TridentTopology("t")
    one, two = (topology.new_stream(name, FeederSpout("k", name)) for name in ("one", "two"))
    pairs = topology.join(one, "k", two, "k", ["k", "a", "b"], window=Window(Tuples(2)))
    pairs.partition_aggregate(Count(), "n").name("out")
    result = complete_topology(topology.build(), {"one": [[1, 1]], "two": [[1, 2]]})
    assert result.emitted("out") == [[1]]


def three(**how: Any) -> Topology:
    """Joins orders, payments and parcels by the order."""
    topology = TridentTopology("t")
    orders = topology.new_stream("orders", FeederSpout("order", "item"))
    payments = topology.new_stream("payments", FeederSpout("cents", "of"))
    parcels = topology.new_stream("parcels", FeederSpout("id", "place"))
    outputs = how.pop("outputs", ["order", "item", "cents", "place"])
    topology.join_all([orders, payments, parcels], ["order", "of", "id"], outputs, **how).name(
        "out"
    )
    return topology.build()


THREE: dict[str, Rows] = {
    "orders": [[1, "pen"], [2, "ink"], [3, "pad"]],
    "payments": [[10, 1], [20, 1], [30, 2], [99, None]],
    "parcels": [[1, "Rome"], [3, "Oslo"], [None, "Nowhere"]],
}
WHOLE = [[1, "pen", 10, "Rome"], [1, "pen", 20, "Rome"]]


@pytest.mark.parametrize("order", [*permutations(THREE)])
def test_three_streams_over_the_whole_history(order: tuple[str, ...]) -> None:
    """Each combination appears once, whichever stream is first."""
    with LocalCluster(three()) as cluster:
        for name in order:
            feed(cluster, name, *THREE[name])
        end_window(cluster)
        assert cluster.errors == []
        assert sorted(cluster.emitted("out")) == WHOLE


@pytest.mark.parametrize(
    ("optional", "expected"),
    [
        ((), WHOLE),
        ((2,), [*WHOLE, [2, "ink", 30, None]]),
        ((1, 2), [*WHOLE, [2, "ink", 30, None], [3, "pad", None, "Oslo"]]),
    ],
)
def test_three_streams_within_a_window(optional: tuple[int, ...], expected: Rows) -> None:
    """Storm's `mixed(INNER, OUTER, OUTER)` keeps each order."""
    with LocalCluster(three(optional=optional, window=MINUTE)) as cluster:
        together(cluster, **THREE)
        end_window(cluster)
        assert cluster.errors == []
        assert sorted(cluster.emitted("out"), key=str) == sorted(expected, key=str)


def test_fields_of_three_streams_may_be_preserved() -> None:
    outputs = ["order", "item", "cents", "of", "id", "place"]
    with LocalCluster(three(outputs=outputs, mode="preserve")) as cluster:
        together(cluster, **THREE)
        end_window(cluster)
        assert sorted(cluster.emitted("out")) == [
            [1, "pen", 10, 1, 1, "Rome"],
            [1, "pen", 20, 1, 1, "Rome"],
        ]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"optional": [1, 2]}, "an outer join over the whole history .* give it a window="),
        ({"optional": [3]}, "optional has 3: the streams of this join are 0 to 2"),
        ({"outputs": ["a"]}, "1 output fields, but it has 4: the key, .* of the next ones"),
    ],
)
def test_joins_of_three_that_cannot_be(how: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        three(**how)


def test_join_of_three_needs_three_keys() -> None:
    topology = TridentTopology("t")
    streams = [topology.new_stream(name, FeederSpout("k")) for name in "abc"]
    with pytest.raises(TopologyError, match="a join of 3 streams with 2 keys: give at least two"):
        topology.join_all(streams, ["k", "k"], ["k"])
    two = topology.new_stream("two", FeederSpout("k", "l"))
    topology.join_all([streams[0], two, streams[2]], ["k", ["k", "l"], "k"], ["k"])
    with pytest.raises(TopologyError, match=r"the keys have 1 and 2 and 1 fields.* for all"):
        topology.build()
