"""Storm's "Trident API Overview", in its order: each of its examples, with its own tuples."""

import functools
from collections import Counter
from typing import Any, NamedTuple

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import FeederSpout, LocalCluster, complete_topology
from kstorm.topology import Fields
from kstorm.trident import (
    Aggregator,
    Average,
    CombinerAggregator,
    Count,
    Debug,
    Equals,
    Filter,
    FirstN,
    Function,
    ReducerAggregator,
    Stream,
    Sum,
    TridentCollector,
    TridentTopology,
    TridentTuple,
    Window,
    kstorm_state,
)
from kstorm.windows import Count as Tuples
from kstorm.windows import Duration
from tests.unit.trident.streams import Rows, Split, came_out, last_by_key, of_partition, wired

# "Functions" and "Filters".


class MyFunction(Function):
    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        for number in range(tuple[0]):
            collector.emit([number])


class MyFilter(Filter):
    def is_keep(self, tuple: TridentTuple) -> bool:
        return bool(tuple[0] == 1 and tuple[1] == 2)


def test_a_function_copies_a_tuple_for_each_emit_and_drops_it_without_one() -> None:
    found = came_out(
        lambda s: s.each(Fields("b"), MyFunction(), Fields("d")),
        ["a", "b", "c"],
        [[1, 2, 3], [4, 1, 6], [3, 0, 8]],
    )
    assert found == [[1, 2, 3, 0], [1, 2, 3, 1], [4, 1, 6, 0]]


def test_a_filter_of_all_fields() -> None:
    assert came_out(
        lambda s: s.filter(MyFilter()), ["a", "b", "c"], [[1, 2, 3], [2, 1, 1], [2, 3, 4]]
    ) == [[1, 2, 3]]


def test_debug_and_equals(capsys: pytest.CaptureFixture[str]) -> None:
    """These filters are built-in."""
    rows: Rows = [[1, 1], [1, 2], [None, None], [None, 1]]
    found = came_out(
        lambda s: s.each(Fields("a", "b"), Equals()).each("a", Debug("same")), ["a", "b"], rows
    )
    assert found == [[1, 1], [None, None]]
    assert capsys.readouterr().out.splitlines() == [
        "DEBUG(same): {'a': 1}",
        "DEBUG(same): {'a': None}",
    ]


# "map and flatMap", "peek".


@pytest.mark.parametrize(
    ("do", "fields", "expected"),
    [
        (lambda s: s.map(str.upper), ["word"], [["THE COW"]]),
        (lambda s: s.flat_map(str.split), ["word"], [["the"], ["cow"]]),
        (lambda s: s.flat_map(str.split).map(str.upper), ["word"], [["THE"], ["COW"]]),
        (lambda s: s.map(str.upper, Fields("uppercased")), ["uppercased"], [["THE COW"]]),
        (lambda s: s.flat_map(str.split, Fields("other")), ["other"], [["the"], ["cow"]]),
    ],
)
def test_map_and_flat_map(do: Any, fields: list[str], expected: Rows) -> None:
    """Without output fields they keep the stream's fields. Otherwise only the given ones remain."""
    assert came_out(do, ["word"], [["the cow"]]) == expected
    assert (
        list(
            wired("word", do=lambda s: do(s).name("out")).component("out").streams["default"].fields
        )
        == fields
    )


def test_a_peek_before_a_group() -> None:
    seen: list[str] = []
    topology = TridentTopology("t")
    (
        topology.new_stream("in", FeederSpout("word"))
        .flat_map(str.split)
        .map(str.upper)
        .peek(lambda tuple: seen.append(tuple[0]))
        .group_by(Fields("word"))
        .persistent_aggregate(kstorm_state(), Count(), Fields("count"))
        .name("count")
    )
    result = complete_topology(topology.build(), {"in": [["the cow"]]})
    assert seen == ["THE", "COW"]
    assert sorted(result.emitted("count")) == [["COW", 1], ["THE", 1]]


# "min and minBy", "max and maxBy".

PARTITIONS: list[Rows] = [
    [[123, 2], [113, 54], [23, 28], [237, 37], [12, 23], [62, 17], [98, 42]],
    [[64, 18], [72, 54], [2, 28], [742, 71], [98, 45], [62, 12], [19, 174]],
    [[27, 94], [82, 23], [9, 86], [53, 71], [74, 37], [51, 49], [37, 98]],
]


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (lambda s: s.min_by("count"), [[123, 2], [62, 12], [82, 23]]),
        (lambda s: s.max_by("count"), [[113, 54], [19, 174], [37, 98]]),
        (lambda s: s.min_by("count", key=lambda n: -n), [[113, 54], [19, 174], [37, 98]]),
        (lambda s: s.min(lambda tuple: tuple["device-id"]), [[12, 23], [2, 28], [9, 86]]),
        (lambda s: s.max(lambda tuple: tuple["device-id"]), [[237, 37], [742, 71], [82, 23]]),
    ],
)
def test_the_extremes_of_each_partition(do: Any, expected: Rows) -> None:
    for rows, one in zip(PARTITIONS, expected, strict=True):
        assert of_partition(do, ["device-id", "count"], rows) == [one]


class Vehicle(NamedTuple):
    name: str
    speed: int
    efficiency: float


VEHICLES = [Vehicle("slow", 20, 0.9), Vehicle("fast", 90, 0.4), Vehicle("middling", 50, 0.1)]


def by_speed(one: TridentTuple, other: TridentTuple) -> int:
    """A comparator of two tuples."""
    return int(one["vehicle"][1] - other["vehicle"][1])


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (
            lambda s: s.min(functools.cmp_to_key(by_speed)).each("vehicle", Debug()),
            [[["slow", 20, 0.9], "d0"]],
        ),
        (
            lambda s: (
                s.max(functools.cmp_to_key(by_speed)).project("driver").each("driver", Debug())
            ),
            [["d1"]],
        ),
        (
            lambda s: s.min_by("vehicle", lambda vehicle: vehicle[2]),
            [[["middling", 50, 0.1], "d2"]],
        ),
        (lambda s: s.max_by("vehicle", lambda vehicle: vehicle[2]), [[["slow", 20, 0.9], "d0"]]),
    ],
)
def test_the_extremes_by_a_comparator(do: Any, expected: Rows) -> None:
    rows = [[list(vehicle), f"d{number}"] for number, vehicle in enumerate(VEHICLES)]
    assert of_partition(do, ["vehicle", "driver"], rows) == expected


def test_the_first_of_a_batch() -> None:
    """Storm's `FirstN` is an assembly."""
    (rows, *_) = PARTITIONS
    for assembly, expected in (
        (FirstN(2, "count"), [[123, 2], [62, 17]]),
        (FirstN(2, "count", reverse=True), [[113, 54], [98, 42]]),
        (FirstN(2), [[123, 2], [113, 54]]),
        (lambda stream: stream.project("count"), [[count] for _, count in rows]),
    ):
        assert (
            of_partition(
                lambda s, each=assembly: s.apply_assembly(each),  # type: ignore[misc]
                ["device-id", "count"],
                rows,
            )
            == expected
        )
    assert of_partition(lambda s: s.apply_assembly(FirstN(9, "n")), ["n"], [[2], [None], [1]]) == [
        [1],
        [2],
    ]
    with pytest.raises(
        TopologyError, match="FirstN: number is 0: it must be a whole number of at least 1"
    ):
        FirstN(0)
    with pytest.raises(
        TopologyError,
        match=r"test_storm_api.py:\d+: first\(1, m\): the stream has no field 'm', only 'n'",
    ):
        wired("n", do=lambda s: s.apply_assembly(FirstN(1, "m")))


# "Windowing".


class CountAsAggregator(Aggregator):
    """A copy of Storm's `CountAggregator`: an `Aggregator` with its own state."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[int]:
        return [0]

    def aggregate(self, value: list[int], tuple: TridentTuple, collector: TridentCollector) -> None:
        value[0] += 1

    def complete(self, value: list[int], collector: TridentCollector) -> None:
        collector.emit(value)


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (
            lambda s: s.tumbling_window(
                Tuples(3), Fields("word"), CountAsAggregator(), Fields("count")
            ),
            [3, 3],
        ),
        (
            lambda s: s.sliding_window(
                Tuples(4), Tuples(2), Fields("word"), CountAsAggregator(), Fields("count")
            ),
            [2, 4, 4],
        ),
        (
            lambda s: s.window(
                Window(Tuples(2)), Fields("word"), CountAsAggregator(), Fields("count")
            ),
            [2, 2, 2],
        ),
        (lambda s: s.window(Window(Tuples(3), Tuples(3)), Count(), Fields("count")), [3, 3]),
        (
            lambda s: s.tumbling_window(
                Duration.seconds(2), "word", CountAsAggregator(), Fields("count")
            ),
            [6],
        ),
        (
            lambda s: s.sliding_window(
                Duration.seconds(4), Duration.seconds(2), Count(), Fields("count")
            ),
            [6, 6],
        ),
    ],
)
def test_windows_by_count_and_by_duration(do: Any, expected: list[int]) -> None:
    """These include the tutorial's `TumblingCountWindow`."""
    seen: list[int] = []
    topology = TridentTopology("t")
    words = topology.new_stream("spout1", FeederSpout("sentence")).each(
        "sentence", Split(), Fields("word")
    )
    do(words).peek(lambda tuple: seen.append(tuple["count"])).name("out")
    with LocalCluster(topology.build()) as cluster:
        spout: Any = cluster.topology.component("spout1").component
        spout.feed(["the cow jumped over the moon"])
        cluster.run_until_idle()
        for _ in range(3):
            cluster.advance_time(2)
            cluster.run_until_idle()
    assert seen == expected


# "partitionAggregate".

TASKS: list[Rows] = [[["a", 1], ["b", 2]], [["a", 3], ["c", 8]], [["e", 1], ["d", 9], ["d", 10]]]


class CountByReduction(ReducerAggregator):
    def init(self) -> int:
        return 0

    def reduce(self, current: int, tuple: TridentTuple) -> int:
        return current + 1


class CountByCombination(CombinerAggregator):
    def init(self, tuple: TridentTuple) -> int:
        return 1

    def combine(self, one: int, other: int) -> int:
        return one + other

    def zero(self) -> int:
        return 0


def test_a_sum_of_each_partition() -> None:
    found = [
        of_partition(
            lambda s: s.partition_aggregate(Fields("b"), Sum(), Fields("sum")), ["a", "b"], rows
        )
        for rows in TASKS
    ]
    assert found == [[[3]], [[11]], [[20]]]


@pytest.mark.parametrize("count", [CountByCombination, CountByReduction, CountAsAggregator])
def test_the_three_kinds_of_aggregators(count: Any) -> None:
    """Each kind counts a batch and its groups."""
    for rows in TASKS:
        assert of_partition(lambda s: s.partition_aggregate(count(), "n"), ["a", "b"], rows) == [
            [len(rows)]
        ]
        grouped = of_partition(
            lambda s: s.group_by("a").partition_aggregate(count(), "n"), ["a", "b"], rows
        )
        assert last_by_key(grouped) == Counter(key for key, _ in rows)
    assert CountByCombination().zero() == 0


# Chains.


def chain(stream: Any, verb: str, *others: tuple[Any, ...]) -> Stream:
    """Builds a chain of the count, the sum of `b`, and the given aggregator."""
    begun = stream.chained_agg()
    for given in ((Count(), Fields("count")), (Fields("b"), Sum(), Fields("sum")), *others):
        begun = getattr(begun, verb)(*given)
    found: Stream = begun.chain_end()
    return found


def test_a_chain_of_each_partition() -> None:
    """One tuple has all results."""
    for rows, expected in zip(TASKS, [[2, 3], [2, 11], [3, 20]], strict=True):
        assert of_partition(lambda s: chain(s, "partition_aggregate"), ["a", "b"], rows) == [
            expected
        ]


class Each(Aggregator):
    """Emits its input."""

    def init(self, batch_id: Any, collector: TridentCollector) -> None:
        return None

    def aggregate(self, value: None, tuple: TridentTuple, collector: TridentCollector) -> None:
        collector.emit(tuple.values)

    def complete(self, value: None, collector: TridentCollector) -> None:
        pass


def test_a_chain_with_an_aggregator_has_each_of_its_tuples_with_the_others() -> None:
    others = [(Fields("b"), Each(), Fields("each")), (CountByReduction(), Fields("again"))]
    found = of_partition(lambda s: chain(s, "partition_aggregate", *others), ["a", "b"], TASKS[2])
    assert found == [[3, 20, 1, 3], [3, 20, 9, 3], [3, 20, 10, 3]]
    none = [(Fields("b"), FilteredOut(), Fields("each"))]
    assert (
        of_partition(lambda s: chain(s, "partition_aggregate", *none), ["a", "b"], TASKS[2]) == []
    )


class FilteredOut(Each):
    def aggregate(self, value: None, tuple: TridentTuple, collector: TridentCollector) -> None:
        pass


@pytest.mark.parametrize(
    "others", [[], [(CountByReduction(), Fields("again"))]], ids=["combiners", "mixed"]
)
def test_a_chain_of_groups_over_several_tasks(others: Any) -> None:
    """Combiners do their part before the hop. Any other aggregator needs all tuples to be sent."""
    topology = TridentTopology("t")
    stream = (
        topology.new_stream("in", FeederSpout("a", "b")).map(lambda a, b: (a, b)).name("before")
    )
    chain(stream.group_by("a"), "aggregate", *others).name("out").parallelism_hint(2)
    rows = [row for task in TASKS for row in task] * 4
    result = complete_topology(topology.build(), {"in": rows})
    totals: dict[str, Counter[str]] = {}
    for key, count, total, *_ in result.emitted("out"):
        totals.setdefault(key, Counter()).update(count=count, sum=total)
    assert totals["d"] == {"count": 8, "sum": 76}
    assert {key: found["count"] for key, found in totals.items()} == Counter(key for key, _ in rows)
    assert ("combine(Count+Sum)" in topology.describe()) == (not others)


def test_chain_emits_results() -> None:
    """An average stores a sum and a count, but emits the mean."""
    found = of_partition(
        lambda s: chain(s, "partition_aggregate", ("b", Average(), "mean")), ["a", "b"], TASKS[2]
    )
    assert found == [[3, 20, 20 / 3]]


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda s: s.chained_agg().chain_end(), "a chain has no aggregators: add at least one"),
        (
            lambda s: (
                s.chained_agg()
                .aggregate(Count(), "n")
                .partition_aggregate(Count(), "m")
                .chain_end()
            ),
            "a chain has aggregate and partition_aggregate",
        ),
        (
            lambda s: s.chained_agg().aggregate(Count(), ["n", "m"]).chain_end(),
            "Count returns one value: name one output field",
        ),
        (
            lambda s: s.chained_agg().aggregate("x", Sum(), "n").chain_end(),
            r"test_storm_api.py:\d+: .*no field 'x'",
        ),
        (
            lambda s: s.group_by("a").chained_agg().aggregate(Count(), "a").chain_end(),
            "has a field 'a' already",
        ),
    ],
)
def test_chains_that_cannot_be(do: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        wired("a", do=do)


# "projection", "Repartitioning operations" (the others are in test_operations.py), "Aggregation operations".


def test_a_projection() -> None:
    assert came_out(
        lambda s: s.project(Fields("b", "d")), ["a", "b", "c", "d"], [[1, 2, 3, 4]]
    ) == [[2, 4]]


def test_a_count_of_a_batch() -> None:
    rows = [[number] for number in range(9)]
    assert (
        sum(n for (n,) in came_out(lambda s: s.aggregate(Count(), Fields("count")), ["x"], rows))
        == 9
    )
