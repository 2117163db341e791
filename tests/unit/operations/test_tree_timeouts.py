"""The reason why a tree was open when its spout timed it out."""

import re

from kstorm.operations.trees.timeouts import timeout_reasons, tree_at
from kstorm.operations.trees.tree import Tree
from tests.unit.operations.rebuilding import End, Forgets, trees

_LATER = 1_000_000


def last_ack(tree: Tree) -> int:
    """Returns the time of the tree's completion."""
    assert tree.ended is not None
    assert tree.proof.closed is not None
    return tree.proof.closed.timestamp


def test_unacked_tuple_is_named_with_task_and_position() -> None:
    (tree,) = trees(["the cow jumped over the moon"], Forgets())
    (said,) = timeout_reasons([tree], _LATER)
    assert re.fullmatch(
        r"count\[[01]\], row \d+ of t\.count/[01]/\d+: sent 16 min before, and not acked", said
    )


def test_late_ack_is_reported_as_too_late() -> None:
    """The tree completed after its spout had given it up."""
    (tree,) = trees(["moon"], End())
    assert timeout_reasons([tree], _LATER) == [
        f"nothing: the tree {tree.root:016x} was complete, but its spout had not received the completion"
    ]
    cut = last_ack(tree) - 1
    assert tree_at(tree, cut).outcome == "open"
    (said,) = timeout_reasons([tree], cut)
    assert said.startswith("count[")
    assert said.endswith("and acked 1 ms too late")


def test_acker_without_the_tree_is_named() -> None:
    (tree,) = trees(["moon"], End())
    assert timeout_reasons([tree], 0) == [
        f"its acker, which had not received the tree {tree.root:016x}"
    ]


def test_each_tree_of_an_attempt_is_described() -> None:
    both = trees(["the moon", "a moon"], Forgets())
    assert len(timeout_reasons(both, _LATER)) == 2
