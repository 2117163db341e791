"""Whatever goes wrong, what is said of a tree is true: trees are rebuilt from the records of random schedules among faults."""

from collections.abc import Callable, Sequence
from unittest.mock import patch

import pytest

from kstorm.inspect.gather import News
from kstorm.inspect.proof import Proof
from kstorm.inspect.tree import Tree
from kstorm.inspect.waiting import Waiting, waits_for
from tests.sim.trees import Rebuilt, explore_exact_trees, explore_trees

SEEDS = range(100)

pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited"
)  # schedules are broken off amid executions


def test_acked_trees_are_proven_and_open_trees_name_unacked_tuples() -> None:
    """At least once: three of four open trees have a tuple named for certain, and acks of all that are complete are told apart."""
    rebuilt = Rebuilt()
    for seed in SEEDS:
        explore_trees(seed, rebuilt)
    assert rebuilt.acked > 300
    assert rebuilt.told_apart == rebuilt.acked
    said = rebuilt.said
    assert said["unacked"] > 0.75 * said.total() > 100, said
    assert said["twice"], said
    assert said["strange"], said
    assert not said["nothing"]


def test_trees_of_exactly_once_schedules() -> None:
    """Nothing is acked twice there, and nothing that nobody announced."""
    rebuilt = Rebuilt()
    for seed in range(40):
        explore_exact_trees(seed, rebuilt)
    assert rebuilt.acked > 100
    assert rebuilt.said["unacked"] > 0.75 * rebuilt.said.total() > 30, rebuilt.said


def _every_init_counts(news: Sequence[News], acked: bool = False) -> Proof:
    residual = 0
    for one in news:
        residual ^= one.val
    closed = news[-1].place if not residual else None
    return Proof(closed, None, residual, len(news), True, counted=range(len(news)))


def _all_that_is_in_the_tree(tree: Tree) -> Waiting:
    return Waiting(unacked=list(tree.tuples)) if tree.outcome == "open" else Waiting()


def _the_newest(tree: Tree) -> Waiting:
    return Waiting(unacked=list(tree.tuples)[-1:]) if tree.outcome == "open" else Waiting()


def _what_was_sent_once_was_acked_once(tree: Tree) -> Waiting:
    said = waits_for(tree)
    return Waiting(unacked=[*said.unacked, *said.twice])


def _no_acks_cancel_out(tree: Tree) -> Waiting:
    said = waits_for(tree)
    return Waiting(
        unacked=[*said.unacked, *said.doubtful],
        twice=said.twice,
        strange=said.strange,
        among=said.among,
    )


@pytest.mark.parametrize(
    ("where", "mutant", "within"),
    [
        ("kstorm.inspect.tree.prove", _every_init_counts, 100),
        ("tests.sim.trees.waits_for", _all_that_is_in_the_tree, 20),
        ("tests.sim.trees.waits_for", _the_newest, 20),
        ("tests.sim.trees.waits_for", _what_was_sent_once_was_acked_once, 100),
        ("tests.sim.trees.waits_for", _no_acks_cancel_out, 400),
    ],
)
def test_schedules_find_each_mutant(where: str, mutant: Callable[..., object], within: int) -> None:
    """Each rule taken out in turn is noticed."""
    with patch(where, mutant), pytest.raises(AssertionError, match=r"^seed \d+: "):
        _explore(within)


def _explore(schedules: int) -> None:
    for seed in range(schedules):
        explore_trees(seed)
