"""Trees rebuilt from the records of random schedules with faults: every verdict is true."""

from collections.abc import Callable, Iterable, Sequence
from unittest.mock import patch

import pytest

from kstorm.operations.trees.open_edges import OpenEdges, open_edges
from kstorm.operations.trees.proof import CompletionProof
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.tree_reader import AckerEntry
from tests.sim.trees import Rebuilt, explore_exact_trees, explore_trees

SEEDS = range(100)

pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited"
)  # schedules stop during executions


def test_acked_trees_are_proven_and_open_trees_name_unacked_tuples() -> None:
    """With at least once, three of four open trees have a definitely unacked tuple.

    The acks of all completed trees are assigned to their tuples.
    """
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
    """With exactly once, no tuple is acked twice or without an announcement."""
    rebuilt = Rebuilt()
    for seed in range(60):
        explore_exact_trees(seed, rebuilt)
    assert rebuilt.acked > 100
    assert rebuilt.said["unacked"] > 0.75 * rebuilt.said.total() > 30, rebuilt.said


def _every_init_counts(news: Sequence[AckerEntry], acked: bool = False) -> CompletionProof:
    residual = 0
    for one in news:
        residual ^= one.val
    closed = news[-1].place if not residual else None
    return CompletionProof(closed, None, residual, len(news), True, counted=range(len(news)))


def _all_that_is_in_the_tree(tree: Tree) -> OpenEdges:
    return OpenEdges(unacked=list(tree.tuples)) if tree.outcome == "open" else OpenEdges()


def _the_newest(tree: Tree) -> OpenEdges:
    return OpenEdges(unacked=list(tree.tuples)[-1:]) if tree.outcome == "open" else OpenEdges()


def _what_was_sent_once_was_acked_once(tree: Tree) -> OpenEdges:
    said = open_edges(tree)
    return OpenEdges(unacked=[*said.unacked, *said.twice])


def _no_acks_cancel_out(tree: Tree) -> OpenEdges:
    said = open_edges(tree)
    return OpenEdges(
        unacked=[*said.unacked, *said.doubtful],
        twice=said.twice,
        strange=said.strange,
        among=said.among,
    )


@pytest.mark.parametrize(
    ("where", "mutant", "first"),
    [
        ("kstorm.operations.trees.tree.prove", _every_init_counts, 143),
        ("tests.sim.trees.open_edges", _all_that_is_in_the_tree, 0),
        ("tests.sim.trees.open_edges", _the_newest, 0),
        ("tests.sim.trees.open_edges", _what_was_sent_once_was_acked_once, 13),
        ("tests.sim.trees.open_edges", _no_acks_cancel_out, 13),
    ],
)
def test_schedules_find_each_mutant(where: str, mutant: Callable[..., object], first: int) -> None:
    """Removing any single rule is detected. `first` is the first seed that detects it at present."""
    with patch(where, mutant), pytest.raises(AssertionError, match=r"^seed \d+: "):
        _explore([first, *range(400)])


def _explore(seeds: Iterable[int]) -> None:
    for seed in seeds:
        explore_trees(seed)
