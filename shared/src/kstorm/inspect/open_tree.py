"""The tuples that keep a tree open, each with what is known of the task that has it."""

from collections.abc import Sequence
from enum import IntEnum

from msgspec import Struct

from kstorm.inspect.facts import Facts
from kstorm.inspect.gather import Place
from kstorm.inspect.tree import Tree
from kstorm.inspect.waiting import waits_for
from kstorm.inspect.words import many


class Cause(IntEnum):
    """Why a tuple keeps its tree open; what is most telling comes first."""

    TWICE = 1
    """Acked twice, as it was executed again after a crash."""
    STRANGE = 2
    """Acked, and nobody announced it: whoever emitted it died before."""
    HELD = 3
    """Its frame was executed, and that is committed; it is neither acked nor failed."""
    QUEUED = 4
    """Its task has not come to it, or is at it."""
    DOUBTFUL = 5
    """See `Waiting.doubtful`."""
    AMONG = 6
    """See `Waiting.among`."""


class Blocked(Struct, frozen=True):
    """A tuple that keeps its tree open."""

    cause: Cause
    edge: str
    """16 hex digits."""
    component: str
    task: int
    """Index of the task among those of the component."""
    place: Place
    row: int
    owner: str
    """The process that has the task; empty if none does, or that is not known."""
    ahead: int
    """Frames before it that its task has to execute; 0 if it was executed."""
    said: str
    lost: bool = False
    """Whether something that is in no record may be what the tree waits for."""


def blocked_by(tree: Tree, facts: Facts) -> Sequence[Blocked]:
    """What an open tree waits for; nothing if none of its tuples is known to be it."""
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
            said = f"executed by {owner or task} (committed) and neither acked nor failed: the bolt holds or forgot it"
            said += f"; {task}" if owner else ""
        case Cause.QUEUED:
            queue = (
                f"{many(ahead, 'frame')} ahead" if ahead else "its frame is next, or being executed"
            )
            said = f"queued at {task}, {queue}{by and f', {by}'}"
        case Cause.TWICE:
            said = f"executed twice by {task}, after a crash"
        case Cause.STRANGE:
            said = f"acked by {task}, and announced by nobody: the process that emitted it died, and executed its input again"
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
