"""Find the tuples that keep a tree open, and the state of the tasks that have them."""

from collections.abc import Sequence
from enum import IntEnum

from msgspec import Struct

from kstorm.inspect.facts import Facts
from kstorm.inspect.gather import Place
from kstorm.inspect.tree import Tree
from kstorm.inspect.waiting import waits_for
from kstorm.inspect.words import many


class Cause(IntEnum):
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


class Blocked(Struct, frozen=True):
    cause: Cause
    edge: str
    """16 hex digits."""
    component: str
    task: int
    """Index of the task within its component."""
    place: Place
    row: int
    owner: str
    """Process that has the task. Empty if no process has it or it is unknown."""
    ahead: int
    """Frames that the task must execute before this tuple, 0 if the tuple was executed."""
    said: str
    lost: bool = False
    """True if the tree may instead wait for a tuple that is in no record."""


def blocked_by(tree: Tree, facts: Facts) -> Sequence[Blocked]:
    """Return the tuples that an open tree waits for. Empty if none can be identified."""
    waiting = waits_for(tree)
    found = [_unacked(tree, edge, facts) for edge in waiting.unacked]
    found += [_blocked(tree, edge, facts, Cause.TWICE) for edge in waiting.twice]
    found += [_blocked(tree, edge, facts, Cause.STRANGE) for edge in waiting.strange]
    found += [_blocked(tree, edge, facts, Cause.DOUBTFUL) for edge in waiting.doubtful]
    found += [_blocked(tree, edge, facts, Cause.AMONG, waiting.lost) for edge in waiting.among]
    return sorted(found, key=lambda blocked: (blocked.cause, bool(blocked.owner), -blocked.ahead))


def _unacked(tree: Tree, edge: int, facts: Facts) -> Blocked:
    place = tree.tuples[edge].first.place
    committed = facts.committed.get((place.topic, place.partition), 0)
    return _blocked(tree, edge, facts, Cause.HELD if committed > place.offset else Cause.QUEUED)


def _blocked(tree: Tree, edge: int, facts: Facts, cause: Cause, lost: bool = False) -> Blocked:
    seen = tree.tuples[edge].first
    where = (seen.place.topic, seen.place.partition)
    committed, owner = facts.committed.get(where, 0), facts.owners.get(where, "")
    ahead = max(0, seen.place.offset - committed)
    task = f"{seen.target}[{seen.place.partition}]"
    runs = f"{owner} runs it" if owner else "no process runs it"
    by = runs if facts.owners else ""
    match cause:
        case Cause.HELD:
            said = (
                f"executed by {owner or task} (committed) and neither acked nor failed: the "
                "bolt holds or forgot it"
            )
            said += f"; {task}" if owner else ""
        case Cause.QUEUED:
            queue = (
                f"{many(ahead, 'frame')} ahead" if ahead else "its frame is next, or being executed"
            )
            said = f"queued at {task}, {queue}{by and f', {by}'}"
        case Cause.TWICE:
            said = f"executed twice by {task}, after a crash"
        case Cause.STRANGE:
            said = (
                f"acked by {task}, but never announced: the process that emitted it died, and "
                "executed its input again"
            )
        case _:
            at = "executed by" if committed > seen.place.offset else "queued at"
            said = f"{at} {task}{by and f', {by}'}"
    return Blocked(
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
