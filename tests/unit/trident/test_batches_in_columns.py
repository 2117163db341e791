"""Steps give the same result for a frame as for its single tuples, each with its own anchor."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest

from kstorm.errors import EmitError
from kstorm.testing import FeederSpout, complete_topology
from kstorm.topology import Config, Fields
from kstorm.trident import (
    Average,
    CombinerAggregator,
    Count,
    Filter,
    First,
    Function,
    Max,
    Min,
    Stream,
    Sum,
    TridentCollector,
    TridentTopology,
    TridentTuple,
    kstorm_state,
)
from kstorm.trident.aggregators import results_of
from kstorm.trident.batches import Batch, FieldSelection
from kstorm.trident.step_factories import (
    adding_step,
    aggregate_step,
    combine_step,
    filter_step,
    project_step,
)
from kstorm.trident.steps import CallStep, Step, run_all
from tests.unit.trident.streams import came_out

Row = tuple[Any, ...]
Chosen = tuple[Fields, Step]


class Emits(Function):
    """Emits as often as its tuple requests, with `width` values each time."""

    def __init__(self, width: int) -> None:
        self.width = width

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        for number in range(tuple[0] % 3):
            collector.emit([tuple[0] + number] * self.width)


class Odd(Filter):
    def is_keep(self, tuple: TridentTuple) -> bool:
        return bool(tuple[0] % 2)


def _function(chance: Random, fields: Fields, new: list[str]) -> Chosen:
    return adding_step(Emits(len(new)), Fields(chance.choice(fields.names)), Fields(new), fields)


def _call(chance: Random, fields: Fields, new: list[str]) -> Chosen:
    def few(n: int) -> Any:
        return [[n] * len(new)] * (n % 3) if len(new) > 1 else [n] * (n % 3)

    return adding_step(few, Fields(chance.choice(fields.names)), Fields(new), fields)


def _map(chance: Random, fields: Fields, new: list[str]) -> Chosen:
    def makes(*values: Any) -> Any:
        return sum(values) if len(new) == 1 else [sum(values)] * len(new)

    return Fields(new), CallStep(makes, FieldSelection(fields, fields), len(new), many=False)


def _flat_map(chance: Random, fields: Fields, new: list[str]) -> Chosen:
    def makes(*values: Any) -> Any:
        return values if len(new) == 1 else [[v] * len(new) for v in values]

    return Fields(new), CallStep(makes, FieldSelection(fields, fields), len(new))


def _filter(chance: Random, fields: Fields, new: list[str]) -> Chosen:
    return filter_step(Odd(), Fields(chance.choice(fields.names)), fields)


def _project(chance: Random, fields: Fields, new: list[str]) -> Chosen:
    return project_step(Fields(chance.sample(fields.names, chance.randint(1, len(fields)))), fields)


def some_steps(chance: Random) -> list[Step]:
    """Draws a few steps of streams whose first fields are a and b."""
    fields, steps = Fields("a", "b"), list[Step]()
    for number in range(chance.randint(1, 5)):
        new = [f"{name}{number}" for name in "xyz"[: chance.randint(1, 3)]]
        fields, step = chance.choice((_function, _call, _map, _flat_map, _filter, _project))(
            chance, fields, new
        )
        steps.append(step)
    return steps


def rows_of(batch: Batch) -> list[tuple[Row, int]]:
    """Returns the rows with their anchors."""
    return (
        list(zip(zip(*batch.columns(), strict=True), batch.all_positions(), strict=True))
        if batch.size
        else []
    )


@pytest.mark.parametrize("seed", range(300))
def test_frame_gives_the_result_of_its_tuples(seed: int) -> None:
    """This holds for any steps in any order."""
    chance = Random(seed)
    steps = some_steps(chance)
    rows = [(chance.randint(0, 9), chance.randint(0, 9)) for _ in range(chance.randint(1, 6))]
    one_by_one = [
        (row, place)
        for place, values in enumerate(rows)
        for row, _ in rows_of(run_all(steps, Batch.of_tuple(values)))
    ]
    before = Batch.of_rows(rows)
    columns = [list(column) for column in before.columns()]
    assert rows_of(run_all(steps, before)) == one_by_one
    assert before.columns() == columns, "the runtime's own lists were changed"


class Weighed(Count):
    """A subclass of Count with different semantics: it starts with the tuple's value."""

    def init(self, tuple: TridentTuple) -> int:
        return int(tuple[0])


class Heaviest(Weighed):
    """A subclass of Count that also combines differently."""

    def combine(self, one: int, other: int) -> int:
        return max(one, other)


class Greatest(Sum):
    """A subclass of Sum that combines differently."""

    def combine(self, one: Any, other: Any) -> Any:
        return max(one, other)


class Doubled(Sum):
    """A subclass of Sum with another start value."""

    def init(self, tuple: TridentTuple) -> Any:
        return 2 * tuple["n"]


AGGREGATORS: Sequence[CombinerAggregator] = (
    *(Count(), Sum(), Min(), Max(), First(), Average()),
    *(Weighed(), Heaviest(), Greatest(), Doubled()),
)


@pytest.mark.parametrize("aggregator", AGGREGATORS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("groups", [(), ("word",), ("word", "place")], ids=len)
def test_folding_equals_combining_one_by_one(
    aggregator: CombinerAggregator, groups: Iterable[str]
) -> None:
    """The aggregators are built-in or the user's, and combine before and after a hop, or at once.

    Each value is anchored to the last of its tuples.
    """
    chance, fields = Random(1), Fields("word", "place", "n")
    rows = [(chance.choice("ab"), chance.choice([1, 2]), chance.randint(1, 9)) for _ in range(30)]
    own, n = FieldSelection(Fields(groups), fields), FieldSelection(Fields("n"), fields)
    expected: dict[Row, tuple[Any, int]] = {}
    for place, row in enumerate(rows):
        key, value = own.values(row), aggregator.init(n.tuple(row))
        expected[key] = (
            (aggregator.combine(expected[key][0], value) if key in expected else value),
            place,
        )
    wanted = [((*key, aggregator.result(value)), place) for key, (value, place) in expected.items()]

    out = Fields("value")
    _, whole = aggregate_step(aggregator, own.fields, n.fields, out, fields)
    assert rows_of(whole.run(Batch.of_rows(rows))) == wanted
    parted, part = aggregate_step(aggregator, own.fields, n.fields, out, fields, is_partial=True)
    _, rest = combine_step(aggregator, own.fields, out, parted)
    halves = [part.run(Batch.of_rows(each, range(len(each)))) for each in (rows[:15], rows[15:])]
    joined = Batch.of_rows([row for half in halves for row, _ in rows_of(half)])
    assert [row for row, _ in rows_of(rest.run(joined))] == [row for row, _ in wanted]


def test_results_are_shown_where_there_are_any() -> None:
    """Values without a separate result are returned unchanged."""
    assert results_of(Average(), [[6, 2]]) == [3]
    values = [1, 2]
    assert results_of(Sum(), values) is values


class Says(NamedTuple):
    """The values that a function emits, and the expected error."""

    values: Any
    error: str


@pytest.mark.parametrize(
    ("width", "says"),
    [
        (1, Says("word", "emits 'word', which is of type str: emit a list")),
        (1, Says([], "emitted 0 values, but has 1 output fields")),
        (2, Says(["a"], "emitted 1 values, but has 2 output fields")),
    ],
)
def test_an_emit_of_another_number_of_values_is_refused(width: int, says: Says) -> None:
    """A text is not split into letters that mix with other values."""

    class Wrong(Function):
        def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
            collector.emit(says.values)

    _, step = adding_step(
        Wrong(), Fields("n"), Fields(f"x{number}" for number in range(width)), Fields("n")
    )
    with pytest.raises(EmitError, match=f"Wrong {says.error}"):
        step.run(Batch.of_tuple([1]))


def test_emitted_values_are_copied() -> None:
    """A function may reuse its list."""

    class Reuses(Function):
        def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
            values: list[Any] = []
            for number in range(2):
                values[:] = [number]
                collector.emit(values)
                values.append("more")

    assert came_out(lambda s: s.each("n", Reuses(), "x"), ["n"], [[7]]) == [[7, 0], [7, 1]]


def test_error_fails_only_its_tuple() -> None:
    """The others of its frame pass all steps, and count."""

    class Picky(Function):
        def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
            collector.emit([10 // tuple["n"]])

    topology = TridentTopology(
        "t", Config(topology_processing_guarantee="exactly_once", topology_bolt_retry_limit=1)
    )
    stream: Stream = (
        topology.new_stream("in", FeederSpout("n"))
        .each("n", Picky(), "x")
        .filter("x", lambda x: x > 1)
    )
    stream.group_by("x").persistent_aggregate(kstorm_state(), Count(), "count").name("count")
    result = complete_topology(topology.build(), {"in": [[5], [0], [5], [10]]})
    assert max(result.emitted("count")) == [2, 2]
    assert [letter.kind for letter in result.dead_letters] == ["failed"]
