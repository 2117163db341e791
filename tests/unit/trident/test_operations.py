"""The result of each stream operation."""

from typing import Any

import pytest

from kstorm.testing import FeederSpout, complete_topology
from kstorm.topology import Config, CustomStreamGrouping, Fields, TopologyContext
from kstorm.trident import (
    Aggregator,
    Average,
    Count,
    Filter,
    FilterNull,
    Function,
    Negate,
    ReducerAggregator,
    Stream,
    Sum,
    TridentCollector,
    TridentTopology,
    TridentTuple,
)
from tests.unit.trident.streams import Rows, Split, came_out, wired


class Even(Filter):
    def is_keep(self, tuple: TridentTuple) -> bool:
        return bool(tuple[0] % 2 == 0)


class Concat(ReducerAggregator):
    def init(self) -> str:
        return ""

    def reduce(self, current: str, tuple: TridentTuple) -> str:
        return f"{current}{tuple['word']}"


class Pairs(Aggregator):
    """Emits each tuple with its number in the batch, and the total, as Storm's aggregators may."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[int]:
        return []

    def aggregate(self, value: list[int], tuple: TridentTuple, collector: TridentCollector) -> None:
        value.append(tuple[0])
        collector.emit([tuple[0], len(value)])

    def complete(self, value: list[int], collector: TridentCollector) -> None:
        collector.emit([sum(value), -1])


NUMBERS: Rows = [["a", 1], ["b", 2], ["a", 3], ["b", 4]]


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (lambda s: s.each(Fields("n"), Even()), [["b", 2], ["b", 4]]),
        (lambda s: s.each("n", lambda n: n > 2), [["a", 3], ["b", 4]]),
        (lambda s: s.filter("n", Negate(Even())), [["a", 1], ["a", 3]]),
        (lambda s: s.filter(lambda word, n: word == "a" and n > 1), [["a", 3]]),
        (lambda s: s.each("n", lambda n: [n * 10], "ten").project("ten"), [[10], [20], [30], [40]]),
        (lambda s: s.each("n", lambda n: [(n, -n)] * (n == 1), ["x", "y"]), [["a", 1, 1, -1]]),
        (lambda s: s.each("n", lambda n: None, "x"), []),
        (
            lambda s: s.map(lambda word, n: (n, word), ["n", "word"]),
            [[1, "a"], [2, "b"], [3, "a"], [4, "b"]],
        ),
        (lambda s: s.map(lambda word, n: word * n, "long"), [["a"], ["bb"], ["aaa"], ["bbbb"]]),
        (lambda s: s.flat_map(lambda word, n: [word] * (n == 4), "word"), [["b"]]),
        (lambda s: s.project("n", "word").filter(lambda n, word: n == 4), [[4, "b"]]),
    ],
)
def test_operations_on_single_tuples(do: Any, expected: Rows) -> None:
    """The operations are functions, filters and maps, given by class or callable."""
    assert came_out(do, ["word", "n"], NUMBERS) == expected


def test_a_function_adds_to_each_tuple() -> None:
    """The input fields stay, as with Storm's `each`."""
    found = came_out(
        lambda s: s.each("sentence", Split(), "word"), ["sentence"], [["the cow"], [""]]
    )
    assert found == [["the cow", "the"], ["the cow", "cow"]]


def test_nulls_can_be_left_out() -> None:
    assert came_out(lambda s: s.each("n", FilterNull()), ["n"], [[None], [0]]) == [[0]]


def test_a_peek_sees_all_and_changes_nothing() -> None:
    seen: list[dict[str, Any]] = []
    found = came_out(
        lambda s: s.peek(lambda tuple: seen.append(tuple.as_dict())), ["n"], [[1], [2]]
    )
    assert found == [[1], [2]]
    assert seen == [{"n": 1}, {"n": 2}]


def test_a_value_of_each_batch() -> None:
    """The number of batches does not matter. Parts of several tasks are combined."""
    rows = [[row] for _, row in NUMBERS]
    for do in (
        lambda s: s.partition_aggregate("n", Sum(), "x"),
        lambda s: s.aggregate("n", Sum(), "x"),
        lambda s: s.map(lambda n: n).parallelism_hint(2).aggregate("n", Sum(), "x"),
    ):
        assert sum(x for (x,) in came_out(do, ["n"], rows)) == 10
    assert came_out(lambda s: s.partition_aggregate("n", Average(), "x"), ["n"], [[7]]) == [[7]]


def test_groups_of_a_batch() -> None:
    """The combined result is correct for any batches."""
    found = came_out(
        lambda s: s.group_by("word").aggregate("n", Sum(), "total"), ["word", "n"], NUMBERS
    )
    totals: dict[str, int] = {}
    for word, total in found:
        totals[word] = totals.get(word, 0) + total
    assert totals == {"a": 4, "b": 6}


def test_an_aggregator_emits_what_it_likes() -> None:
    found = came_out(lambda s: s.partition_aggregate("n", Pairs(), ["n", "at"]), ["n"], [[5]])
    assert found == [[5, 1], [5, -1]]
    grouped = came_out(
        lambda s: s.group_by("word").aggregate("n", Pairs(), ["n", "at"]), ["word", "n"], [["a", 5]]
    )
    assert grouped == [["a", 5, 1], ["a", 5, -1]]


def test_a_reducer_sees_the_tuples_in_their_order() -> None:
    found = came_out(lambda s: s.group_by("word").aggregate(Concat(), "all"), ["word"], [["ab"]])
    assert found == [["ab", "ab"]]


def test_operation_is_prepared_per_task() -> None:
    """Each task prepares its own copy."""
    lives: list[str] = []

    class Lives(Function):
        def prepare(self, config: Config, context: TopologyContext) -> None:
            lives.append(f"{context.component}-{context.task_index}")

        def cleanup(self) -> None:
            lives.append("end")

        def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
            collector.emit([1])

    came_out(lambda s: s.each("n", Lives(), "x").parallelism_hint(2), ["n"], [[1]])
    assert sorted(lives) == ["end", "end", "out-0", "out-1"]


class ToTheLast(CustomStreamGrouping):
    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Any
    ) -> None:
        self.last = target_tasks[-1]

    def choose_tasks(self, task: int, values: Any) -> list[int]:
        return [self.last]


@pytest.mark.parametrize(
    ("do", "copies"),
    [
        (Stream.shuffle, 1),
        (Stream.global_, 1),
        (Stream.batch_global, 1),
        (Stream.broadcast, 3),
        (lambda s: s.partition_by("n"), 1),
        (lambda s: s.partial_key("n"), 1),
        (lambda s: s.partition(ToTheLast()), 1),
    ],
)
def test_each_repartitioning(do: Any, copies: int) -> None:
    """Each one distributes to three tasks."""
    rows = [[number] for number in range(6)]
    found = came_out(lambda s: do(s).map(lambda n: n).parallelism_hint(3), ["n"], rows)
    assert sorted(n for (n,) in found) == sorted(list(range(6)) * copies)


def test_streams_are_merged_by_position() -> None:
    """The names are those of the first stream, also for later groups."""
    topology = TridentTopology("t")
    left = topology.new_stream("left", FeederSpout("word", "n"))
    right = topology.new_stream("right", FeederSpout("term", "many"))
    left.merge(right).group_by("word").aggregate("n", Sum(), "total").name("out")
    result = complete_topology(
        topology.build(), {"left": [["a", 1]], "right": [["a", 2], ["b", 3]]}
    )
    totals: dict[str, int] = {}
    for word, total in result.emitted("out"):
        totals[word] = totals.get(word, 0) + total
    assert totals == {"a": 3, "b": 3}


def test_counting_without_inputs_counts_tuples() -> None:
    found = came_out(lambda s: s.partition_aggregate(Count(), "n"), ["x"], [["a"], ["b"]])
    assert sum(n for (n,) in found) == 2


def test_operations_in_a_row_are_one_bolt() -> None:
    """A repartitioning or a second consumer ends the bolt."""
    one = wired("n", do=lambda s: s.map(lambda n: n).filter(lambda n: True).project("n"))
    assert list(one.components) == ["in", "map"]
    two = wired("n", do=lambda s: s.map(lambda n: n).shuffle().map(lambda n: n))
    assert list(two.components) == ["in", "map", "map-2"]

    def fork(stream: Stream) -> None:
        both = stream.map(lambda n: n).name("both")
        both.map(lambda n: n).name("left")
        both.map(lambda n: n).name("right")

    assert list(wired("n", do=fork).components) == ["in", "both", "left", "right"]
