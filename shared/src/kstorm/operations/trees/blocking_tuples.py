"""Find the tuples that keep a tree open, and the state of the tasks that hold them."""

from collections.abc import Sequence
from enum import IntEnum

from msgspec import Struct

from kstorm.operations.formatting import counted
from kstorm.operations.trees.facts import MessageFacts
from kstorm.operations.trees.open_edges import open_edges
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.tree_reader import RecordPlace


class BlockReason(IntEnum):
    """Reason why a tuple keeps its tree open. The most conclusive one comes first."""

    TWICE = 1
    """Acked twice, because it was executed again after a crash."""
    STRANGE = 2
    """Acked but never announced, because the emitting process died first."""
    HELD = 3
    """Its frame was executed and committed, but the tuple is neither acked nor failed."""
    QUEUED = 4
    """Its task has not reached it, or is executing it."""
    DOUBTFUL = 5
    """See `Waiting.doubtful`."""
    AMONG = 6
    """See `Waiting.among`."""


class BlockingTuple(Struct, frozen=True):
    cause: BlockReason
    edge: str
    """16 hex digits."""
    component: str
    task: int
    """Index of the task within its component."""
    place: RecordPlace
    row: int
    owner: str
    """Process that owns the task. Empty if the task has no owner or the owner is unknown."""
    ahead: int
    """Frames that the task must execute before this tuple, 0 if the tuple was executed."""
    said: str
    lost: bool = False
    """True if the tree may instead wait for a tuple that is missing in the records."""


def blocking_tuples(tree: Tree, facts: MessageFacts) -> Sequence[BlockingTuple]:
    """Return the tuples that an open tree waits for. Empty if none can be identified."""
    waiting = open_edges(tree)
    found = [_unacked(tree, edge, facts) for edge in waiting.unacked]
    found += [_blocking_tuple(tree, edge, facts, BlockReason.TWICE) for edge in waiting.twice]
    found += [_blocking_tuple(tree, edge, facts, BlockReason.STRANGE) for edge in waiting.strange]
    found += [_blocking_tuple(tree, edge, facts, BlockReason.DOUBTFUL) for edge in waiting.doubtful]
    found += [
        _blocking_tuple(tree, edge, facts, BlockReason.AMONG, waiting.lost)
        for edge in waiting.among
    ]
    return sorted(found, key=lambda blocked: (blocked.cause, bool(blocked.owner), -blocked.ahead))


def _unacked(tree: Tree, edge: int, facts: MessageFacts) -> BlockingTuple:
    place = tree.tuples[edge].first.place
    committed = facts.committed.get((place.topic, place.partition), 0)
    return _blocking_tuple(
        tree, edge, facts, BlockReason.HELD if committed > place.offset else BlockReason.QUEUED
    )


def _blocking_tuple(
    tree: Tree, edge: int, facts: MessageFacts, cause: BlockReason, lost: bool = False
) -> BlockingTuple:
    seen = tree.tuples[edge].first
    where = (seen.place.topic, seen.place.partition)
    committed, owner = facts.committed.get(where, 0), facts.owners.get(where, "")
    ahead = max(0, seen.place.offset - committed)
    task = f"{seen.target}[{seen.place.partition}]"
    runs = f"{owner} runs it" if owner else "no process runs it"
    by = runs if facts.owners else ""
    match cause:
        case BlockReason.HELD:
            # With exactly once, a bolt retries a tuple without a record of its failure.
            does = "holds, retries or forgot it" if facts.exactly_once else "holds or forgot it"
            said = (
                f"executed by {owner or task} (committed) and neither acked nor failed: the "
                f"bolt {does}"
            )
            said += f"; {task}" if owner else ""
        case BlockReason.QUEUED:
            queue = (
                f"{counted(ahead, 'frame')} ahead"
                if ahead
                else "its frame is next, or being executed"
            )
            said = f"queued at {task}, {queue}{by and f', {by}'}"
        case BlockReason.TWICE:
            said = f"executed twice by {task}, after a crash"
        case BlockReason.STRANGE:
            said = (
                f"acked by {task}, but never announced: the process that emitted it died, and "
                "executed its input again"
            )
        case _:
            at = "executed by" if committed > seen.place.offset else "queued at"
            said = f"{at} {task}{by and f', {by}'}"
    return BlockingTuple(
        cause,
        f"{edge:016x}",
        seen.target,
        seen.place.partition,
        seen.place,
        seen.row,
        owner,
        ahead,
        f"{said}: row {seen.row} of {seen.place.topic}/{seen.place.partition}/{seen.place.offset}",
        lost,
    )
