"""Groupings: they choose the tasks for a tuple, and choose the same in every process."""

import os
import string
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kstorm.core.key_hash import stable_hash
from kstorm.core.outbox import Outbox
from kstorm.core.routing import StreamRoutes, routes
from kstorm.errors import EmitError
from kstorm.topology import (
    Bolt,
    BoltDeclarer,
    CustomStreamGrouping,
    Input,
    OutputFieldsDeclarer,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyContext,
)

TASKS = 4


class Source(Spout):
    """Declares two fields on the default stream, and one on a direct stream."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "other")
        declarer.declare_stream("to-one", "key", direct=True)


def wired(
    *group: Callable[[BoltDeclarer], object], tasks: int = TASKS, spouts: int = 2
) -> Topology:
    """Builds a spout and one bolt per grouping: task ids 1 and 2, then `tasks` for each bolt."""
    builder = TopologyBuilder("t")
    builder.set_spout("source", Source(), spouts)
    for number, declare in enumerate(group):
        declare(builder.set_bolt(f"bolt{number}", Bolt(), tasks))
    return builder.build()


def route_of(topology: Topology, stream: str = "default", task: int = 0) -> StreamRoutes:
    return routes(topology, "source", task, Outbox(topology))[stream]


def chosen(route: StreamRoutes, *values: Any) -> list[int]:
    """Returns the ids of the tasks that get a tuple."""
    return [
        target for choose in route.choosers for lane in choose(values) for target in lane.targets
    ]


def test_shuffle_gives_equal_shares() -> None:
    """It takes the tasks in turn. None and local-or-shuffle groupings do the same."""
    for declare in (
        lambda b: b.shuffle_grouping("source"),
        lambda b: b.none_grouping("source"),
        lambda b: b.local_or_shuffle_grouping("source"),
    ):
        route = route_of(wired(declare))
        shares = Counter(task for i in range(400) for task in chosen(route, i, 0))
        assert shares == {3: 100, 4: 100, 5: 100, 6: 100}


def test_shuffling_tasks_begin_at_different_targets() -> None:
    """Otherwise many spout tasks with one tuple each would all choose the same bolt task."""
    topology = wired(lambda b: b.shuffle_grouping("source"))
    assert [chosen(route_of(topology, task=task), 1, 2) for task in (0, 1)] == [[3], [4]]


def test_all_and_global() -> None:
    """All goes to every task, and global to the task with the lowest id."""
    assert chosen(route_of(wired(lambda b: b.all_grouping("source"))), 1, 2) == [3, 4, 5, 6]
    route = route_of(wired(lambda b: b.global_grouping("source")))
    assert {task for i in range(20) for task in chosen(route, i, i)} == {3}


def test_each_consumer_gets_its_share() -> None:
    """Each consumer gets the tuples by its own grouping, in the order of declaration."""
    route = route_of(
        wired(lambda b: b.global_grouping("source"), lambda b: b.all_grouping("source"))
    )
    assert chosen(route, 1, 2) == [3, 7, 8, 9, 10]


def test_stream_without_consumers_has_no_lanes() -> None:
    """It has routes without targets."""
    topology = wired(lambda b: b.direct_grouping("source", "to-one"))
    assert chosen(route_of(topology), 1, 2) == []


def test_fields_grouping_looks_at_its_fields_only() -> None:
    """Equal values of these fields choose the same task. Together the keys use all tasks."""
    for fields, other in ((["key"], 1), (["key", "other"], 0)):
        route = route_of(wired(lambda b, fields=fields: b.fields_grouping("source", fields)))  # type: ignore[misc]
        by_key = {f"k{i}": chosen(route, f"k{i}", 0) for i in range(200)}
        assert all(chosen(route, key, other) == tasks for key, tasks in by_key.items())
        shares = Counter(task for tasks in by_key.values() for task in tasks)
        assert set(shares) == {3, 4, 5, 6}
        assert max(shares.values()) < 100


def test_fields_grouping_is_the_same_for_every_emitter() -> None:
    """Two tasks of the emitting component choose the same task for a key."""
    topology = wired(lambda b: b.fields_grouping("source", "key"))
    first, second = route_of(topology, task=0), route_of(topology, task=1)
    assert all(chosen(first, key, 0) == chosen(second, key, 0) for key in map(str, range(100)))


@pytest.mark.parametrize(
    "equal",
    [(1, 1.0, True), (0, 0.0, -0.0, False), (2**53, float(2**53)), (10**20 * 1.0, 10.0**20)],
)
def test_equal_numbers_go_to_the_same_task(equal: Sequence[Any]) -> None:
    """Values that are equal in Python are one key, whether int, float or bool."""
    route = route_of(wired(lambda b: b.fields_grouping("source", "key"), tasks=97))
    assert len({tuple(chosen(route, value, 0)) for value in equal}) == 1


@pytest.mark.parametrize(
    "key",
    [
        None,
        1e300,
        -1e300,
        float("inf"),
        float("nan"),
        2**64 - 1,
        -(2**63),
        b"x",
        ["a", 1],
        {"b": 1},
    ],
)
def test_every_encodable_value_is_a_key(key: Any) -> None:
    """This includes large floats, lists and dicts. Dicts are equal in any order."""
    route = route_of(
        wired(
            lambda b: b.fields_grouping("source", "key"),
            lambda b: b.partial_key_grouping("source", "key"),
        )
    )
    assert chosen(route, key, 0)[:1] == chosen(route, key, 1)[:1]
    assert stable_hash([{"a": 1, "b": 2}]) == stable_hash([{"b": 2, "a": 1}])
    assert stable_hash([{7: None, b"k": [1]}]) == stable_hash([{b"k": [True], 7.0: None}])
    assert stable_hash([[1, {"a": 2.0}]]) == stable_hash([(1.0, {"a": 2})])


def test_unencodable_value_is_refused_as_a_key() -> None:
    """The error shows the value."""
    route = route_of(wired(lambda b: b.fields_grouping("source", "key")))
    with pytest.raises(EmitError, match=r"cannot group by \[<object object"):
        chosen(route, object(), 0)
    with pytest.raises(EmitError, match="cannot group by"):
        chosen(route, 2**64, 0)
    nested: list[object] = []
    nested.append(nested)
    with pytest.raises(EmitError, match="cannot group by"):
        chosen(route, nested, 0)


def test_repeated_key_goes_to_the_same_task() -> None:
    """The cache of keys does not change the choice, also when it overflows."""
    route = route_of(wired(lambda b: b.fields_grouping("source", "key")))
    before = {key: chosen(route, key, 0) for key in ("a", "b", "c")}
    for i in range(70_000):
        chosen(route, str(i), 0)
    assert {key: chosen(route, key, 0) for key in before} == before


def test_fields_grouping_is_the_same_in_every_process() -> None:
    """Python salts `hash` per process. The hash of keys has no salt."""
    script = (
        "from kstorm.core.routing import stable_hash\n"
        "print([stable_hash([k]) for k in ('apple', b'apple', 7, 7.5, None, ['x', 1])], len({hash('apple'), hash('b')}))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {
        f"{[stable_hash([k]) for k in ('apple', b'apple', 7, 7.5, None, ['x', 1])]} 2\n"
    }


def test_the_hash_of_keys_never_changes() -> None:
    """A different hash in a later version would split the state of every stateful bolt."""
    assert stable_hash(["apple"]) == 4_061_005_286
    assert stable_hash([1, "a", None]) == 3_607_126_713
    assert stable_hash([{"b": [2], "a": 1}]) == 222_123_704


def test_partial_keys_use_two_tasks_a_key_and_balance() -> None:
    """Two tasks share a hot key evenly. A third task never gets it."""
    route = route_of(wired(lambda b: b.partial_key_grouping("source", "key"), tasks=8))
    hot = Counter(task for _ in range(1000) for task in chosen(route, "hot", 0))
    assert len(hot) == 2
    assert set(hot.values()) == {500}
    route = route_of(wired(lambda b: b.partial_key_grouping("source", "key"), tasks=8))
    seen: dict[str, set[int]] = {}
    load: Counter[int] = Counter()
    for i in range(8000):
        key = f"k{i % 40}"
        tasks = chosen(route, key, 0)
        seen.setdefault(key, set()).update(tasks)
        load.update(tasks)
    assert all(len(tasks) <= 2 for tasks in seen.values())
    assert max(load.values()) <= 1.2 * 8000 / 8


def both_choices(topology: Topology, key: Any) -> frozenset[int]:
    """Returns the two choices of a partial key.

    A new task sends its second tuple to the other choice.
    """
    route = route_of(topology)
    return frozenset(task for _ in range(2) for task in chosen(route, key, 0))


@pytest.mark.parametrize("length", [1, 2, 5, 10, 30])
@pytest.mark.parametrize("fields", [["key"], ["key", "other"]])
def test_every_pair_of_tasks_is_some_keys_choice(length: int, fields: list[str]) -> None:
    """Keys of one length choose all 28 pairs of 8 tasks about equally often, so the load is even."""
    random = Random(length)
    letters = string.ascii_letters + string.digits + "äöüß€"
    keys = list(
        dict.fromkeys("".join(random.choices(letters, k=length)) for _ in range(2000))
    )  # always in this order
    topology = wired(lambda b: b.partial_key_grouping("source", fields), tasks=8)
    pairs = Counter(both_choices(topology, key) for key in keys)
    assert {len(pair) for pair in pairs} == {2}
    assert len(keys) < 200 or len(pairs) == 28
    assert len(keys) < 1000 or max(pairs.values()) < 2 * len(keys) / 28
    route = route_of(topology)
    load = Counter(task for _ in range(5) for key in keys for task in chosen(route, key, 0))
    assert max(load.values()) <= 1.01 * 5 * len(keys) / 8 + 1


@pytest.mark.parametrize("length", [5, 10])
def test_both_of_two_tasks_are_used_for_a_key(length: int) -> None:
    """With two tasks, every key has the same pair."""
    random = Random(length)
    topology = wired(lambda b: b.partial_key_grouping("source", "key"), tasks=2)
    for key in ("".join(random.choices(string.ascii_lowercase, k=length)) for _ in range(200)):
        assert both_choices(topology, key) == {3, 4}


def test_a_partial_key_of_one_task() -> None:
    """There is only one choice."""
    route = route_of(wired(lambda b: b.partial_key_grouping("source", "key"), tasks=1))
    assert {task for key in range(20) for task in chosen(route, key, 0)} == {3}


def test_the_choices_for_a_key_never_change() -> None:
    """They are the same in every process and version of Python, so at most two tasks see a key."""
    topology = wired(lambda b: b.partial_key_grouping("source", "key"), tasks=8)
    choices = [both_choices(topology, key) for key in ("apple", 7, b"x", ["x", 1])]
    assert choices == [{6, 10}, {7, 9}, {4, 10}, {3, 8}]


def test_unknown_grouping_is_an_error() -> None:
    topology = wired(lambda b: b.shuffle_grouping("source"))
    bolt = topology.component("bolt0")
    strange = replace(bolt, inputs=[Input("source", "default", "strange")])  # type: ignore[arg-type]
    topology = Topology("t", topology.config, {**topology.components, "bolt0": strange})
    with pytest.raises(AssertionError, match="strange"):
        route_of(topology)


def test_a_direct_stream_has_a_lane_for_each_task() -> None:
    """The emitter names the task."""
    route = route_of(wired(lambda b: b.direct_grouping("source", "to-one")), "to-one")
    assert route.is_direct
    assert route.choosers == []
    assert sorted(route.direct) == [3, 4, 5, 6]
    assert [lane.partition for lane in route.direct[5]] == [2]


class Chosen(CustomStreamGrouping):
    """Returns the test's choice, and records the arguments of `prepare`."""

    def __init__(self, choice: Any) -> None:
        self.choice = choice
        self.prepared: list[tuple[int, str, str, list[int]]] = []

    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        self.prepared.append((context.task_id, component, stream, list(target_tasks)))

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        assert self.prepared == [(task, "source", "default", [3, 4, 5, 6])]
        return self.choice(values) if callable(self.choice) else self.choice  # type: ignore[no-any-return]


def test_custom_grouping_chooses_by_task_id() -> None:
    """It may choose one, several or no tasks. Each emitting task prepares its own copy."""
    template = Chosen(lambda values: values[0])
    topology = wired(lambda b: b.custom_grouping("source", template))
    for task in (0, 1):
        route = route_of(topology, task=task)
        assert [chosen(route, choice, 0) for choice in ([4], [6, 3], [])] == [[4], [6, 3], []]
    assert template.prepared == []


@pytest.mark.parametrize("choice", [[1], [3, 7], None, 3, [[3]], ["3"]])
def test_custom_grouping_that_chooses_wrongly(choice: Any) -> None:
    """The error shows a result that is not a list, or that has ids of other tasks."""
    route = route_of(wired(lambda b: b.custom_grouping("source", Chosen(choice))))
    with pytest.raises(
        EmitError,
        match=r"Chosen.choose_tasks returned .*: return a list of task ids from \[3, 4, 5, 6\]",
    ):
        chosen(route, 1, 2)
