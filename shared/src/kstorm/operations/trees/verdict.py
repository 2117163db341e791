"""Explain in one line why a message is unfinished.

The explanation names what its newest tree waits for, and the state of the component that has to
act.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from kstorm.kafka.completed_ranges import Run
from kstorm.operations.formatting import counted, failure, utc_time
from kstorm.operations.trees.blocking_tuples import BlockingTuple, BlockReason, blocking_tuples
from kstorm.operations.trees.facts import MessageFacts, MessageId
from kstorm.operations.trees.joined import except_for
from kstorm.operations.trees.tree import Tree

_NAMED: Final = 3
"""At most this many tuples are all named in the line, such as the halves of a join."""


class VerdictKind(StrEnum):
    DONE = "done"
    EXCEPT = "done, except for some tuples"
    DEAD = "dead letter"
    SKIPPED = "skipped"
    NOT_READ = "not read yet"
    NO_TREE = "no tree found"
    RETRY = "waits for its retry"
    QUEUED = "queued"
    HELD = "held or forgotten"
    ACKER = "acker behind"
    NOT_TOLD = "not told"
    NOT_STORED = "complete, offset not stored yet"
    NEVER = "never complete, will be replayed"
    ON_ITS_WAY = "on its way or lost"
    UNSURE = "one of several tuples"


class Verdict(Struct, frozen=True):
    """State of a message: its outcome, or the reason why it is unfinished."""

    message: MessageId
    kind: VerdictKind
    said: str
    """A single line."""
    trees: int = 0
    """Number of trees found for the message."""
    root: str = ""
    """Root of the tree that the verdict is about, 16 hex digits."""
    blocked: Sequence[BlockingTuple] = ()
    """Tuples that the tree waits for, most conclusive first."""
    letters: Sequence[int] = ()
    """Numbers of the dead letters of tuples that descend from the message."""

    @property
    def is_final(self) -> bool:
        """True if the verdict cannot change, unless an operator replays the message."""
        return self.kind in (
            VerdictKind.DONE,
            VerdictKind.EXCEPT,
            VerdictKind.DEAD,
            VerdictKind.SKIPPED,
        )


def verdict_on(message: MessageId, attempts: Sequence[Tree], facts: MessageFacts) -> Verdict:
    """Return the verdict on a message from the trees of its attempts, oldest first."""
    kind, said, blocked = _with_tuple_letters(_judge(message, attempts, facts), facts)
    telling = _telling_attempt(attempts)
    root = f"{telling.root:016x}" if telling else ""
    letters = [letter.number for letter in facts.tuple_letters]
    return Verdict(message, kind, said, len(attempts), root, blocked, letters)


def _telling_attempt(trees: Sequence[Tree]) -> Tree | None:
    """Return the most significant tree of the newest attempt.

    One attempt may have several trees. A tree that failed or is open explains more than a complete
    one.
    """
    if not trees:
        return None
    newest = max(trees, key=lambda tree: tree.begun)
    same = [
        tree
        for tree in trees
        if _attempt(tree) == _attempt(newest) and newest.begun - tree.begun < _AT_ONCE_MS
    ]
    return min(same, key=lambda tree: (_OUTCOMES.index(tree.outcome), -tree.begun))


def _attempt(tree: Tree) -> int:
    return tree.origin.attempt if tree.origin else 0


class Explanation(NamedTuple):
    """Kind and explanation of a verdict."""

    kind: VerdictKind
    said: str
    blocked: Sequence[BlockingTuple] = ()


def _judge(message: MessageId, attempts: Sequence[Tree], facts: MessageFacts) -> Explanation:
    newest = _telling_attempt(attempts)
    finished = _finished(message, facts)
    if facts.letters and (finished or newest is None or newest.outcome != "acked"):
        letter = facts.letters[-1]
        return Explanation(VerdictKind.DEAD, f"dead letter #{letter.number}: {letter.reason}")
    if finished:
        return _after_its_letter(newest, finished, facts) or finished
    if newest is None:
        return _without_tree(message, facts)
    if newest.outcome == "acked":
        return _complete(message, newest, facts)
    if newest.outcome == "failed":
        return _failed(newest, attempts, facts)
    return _open(newest, facts)


def _with_tuple_letters(judged: Explanation, facts: MessageFacts) -> Explanation:
    """Add the dead letters of the message's tuples, because these tuples were not processed."""
    if not facts.tuple_letters:
        return judged
    told = except_for(facts.tuple_letters)
    if judged.kind is VerdictKind.DONE:
        rest = judged.said.removeprefix("done").lstrip(": ")
        return Explanation(VerdictKind.EXCEPT, f"done, {told}{rest and f'; {rest}'}")
    return Explanation(judged.kind, f"{judged.said}; {told}", judged.blocked)


def _finished(message: MessageId, facts: MessageFacts) -> Explanation | None:
    """Return the outcome of a message below the stored offset. None for others."""
    if facts.stored is None or message.offset >= facts.stored:
        return None
    ranges = [r for r in facts.finished if r.start <= message.offset < r.end]
    if not ranges:
        return Explanation(VerdictKind.DONE, f"done: the stored offset is {facts.stored:,}")
    newest = ranges[-1]
    if any(skip.start <= message.offset < skip.end for skip in newest.skipped):
        skip = next(skip for skip in newest.skipped if skip.start <= message.offset < skip.end)
        return Explanation(
            VerdictKind.SKIPPED, f"skipped: {skip.why}{f' by {skip.who}' if skip.who else ''}"
        )
    if _in(newest.dead, message.offset):
        return Explanation(VerdictKind.DEAD, "a dead letter, which is no longer stored")
    if _in(newest.empty, message.offset):
        return Explanation(VerdictKind.DONE, "done: its scheme made no tuple from it")
    return Explanation(VerdictKind.DONE, f"done {utc_time(newest.at, facts.now)}")


def _after_its_letter(
    newest: Tree | None, finished: Explanation, facts: MessageFacts
) -> Explanation | None:
    """Return the outcome of a dead message that was replayed afterwards, or None.

    An exactly-once spout discards the letter when it emits the message again.
    """
    if finished.kind is not VerdictKind.DEAD or newest is None or newest.attempt < 2:
        return None
    if newest.outcome == "acked":
        at = utc_time(newest.ended or facts.now, facts.now)
        return Explanation(VerdictKind.DONE, f"done {at}: replayed from its dead letter")
    return _open(newest, facts) if facts.exactly_once and newest.outcome == "open" else None


def _in(runs: Sequence[Run], offset: int) -> bool:
    return any(first <= offset < end for first, end in runs)


def _without_tree(message: MessageId, facts: MessageFacts) -> Explanation:
    reached = [at for at in (facts.stored, facts.position) if at is not None]
    if facts.emitted_to is not None:
        reached.append(facts.emitted_to + 1)
    following = max(reached, default=None)
    if following is not None and message.offset < following:
        return Explanation(
            VerdictKind.NO_TREE,
            (
                f"offsets below {following:,} were emitted, but no tree of this one was found: its "
                "scheme made no tuple from it, or the records of its tree are gone"
            ),
        )
    behind = (
        ""
        if following is None
        else f": {counted(message.offset - following, 'message')} after the spout's position"
    )
    return Explanation(VerdictKind.NOT_READ, f"not read yet{behind}{_spout_trouble(facts)}")


def _spout_trouble(facts: MessageFacts) -> str:
    if facts.deactivated:
        return "; the topology is deactivated"
    return "; no spout holds the lock of its partition" if facts.holder is None else ""


def _complete(message: MessageId, tree: Tree, facts: MessageFacts) -> Explanation:
    closed = tree.proof.closed
    assert closed is not None
    place = (closed.topic, closed.partition)
    told = next((ending for ending in tree.endings if ending.kind == "acked"), None)
    if told is None:
        committed = facts.committed.get(place, 0)
        if committed <= closed.offset:
            behind = counted(facts.ends.get(place, closed.offset + 1) - committed, "record")
            return Explanation(
                VerdictKind.ACKER,
                f"acked; acker {closed.partition} is {behind} behind{_owner(place, facts)}",
            )
        return Explanation(
            VerdictKind.NOT_TOLD,
            (
                "complete, and its acker has read that, but no completion was sent to the "
                f"spout{_replayed(tree, facts)}"
            ),
        )
    if facts.stored is not None and facts.stored < message.offset:
        return Explanation(
            VerdictKind.NOT_STORED,
            (
                f"complete {utc_time(told.place.timestamp, facts.now)}; the offset waits for earlier "
                "messages: the oldest unfinished one is "
                f"{message.topic}/{message.partition}/{facts.stored}"
            ),
        )
    return Explanation(
        VerdictKind.NOT_STORED,
        (
            f"complete {utc_time(told.place.timestamp, facts.now)}; the offset is not stored "
            f"yet{_spout_trouble(facts)}"
        ),
    )


def _failed(tree: Tree, attempts: Sequence[Tree], facts: MessageFacts) -> Explanation:
    at, note = tree.ended or facts.now, tree.note
    told = any(ending.kind == "failed" for ending in tree.endings)
    cause = (
        "failed"
        if note is None
        else f"failed{failure(note, facts.tasks.get(note.task, f'task {note.task}'))}"
    )
    if not told and tree.proof.failed is not None:
        place = (tree.proof.failed.topic, tree.proof.failed.partition)
        if facts.committed.get(place, 0) <= tree.proof.failed.offset:
            return Explanation(
                VerdictKind.ACKER,
                f"{cause}; acker {place[1]} has not read that yet{_owner(place, facts)}",
            )
    failures = _attempt(tree) or len(attempts)
    return Explanation(
        VerdictKind.RETRY, f"{cause} {utc_time(at, facts.now)}; {_retry(failures, at, facts)}"
    )


def _retry(failures: int, at: float, facts: MessageFacts) -> str:
    if facts.retries is None:
        return f"waits for its retry{_spout_trouble(facts)}"
    if 0 <= facts.retries.limit < failures:
        return "its retries are used up, and it becomes a dead letter"
    due = at + facts.retries.delay(failures)
    late = _spout_trouble(facts) if due < facts.now else ""
    return f"waits for its retry {utc_time(due, facts.now)}{late}"


def _open(tree: Tree, facts: MessageFacts) -> Explanation:
    if not tree.proof.begun:
        return Explanation(
            VerdictKind.ON_ITS_WAY,
            (
                "its acker has not received it; it is on its way, or its spout "
                f"died{_replayed(tree, facts)}"
            ),
        )
    blocked = blocking_tuples(tree, facts)
    if not blocked:
        return Explanation(
            VerdictKind.ON_ITS_WAY,
            (
                "it waits for a tuple that is in no record: the tuple is on its way, or was lost "
                f"with its process{_replayed(tree, facts)}"
            ),
        )
    first = blocked[0]
    others = [f"; also {other.said}" for other in blocked[1:]]
    more = "".join(others) if len(blocked) <= _NAMED else f"; and {len(others)} more"
    match first.cause:
        case BlockReason.QUEUED:
            return Explanation(VerdictKind.QUEUED, f"{first.said}{more}", blocked)
        case BlockReason.HELD:
            return Explanation(
                VerdictKind.HELD, f"{first.said}{more}{_replayed(tree, facts)}", blocked
            )
        case BlockReason.TWICE | BlockReason.STRANGE:
            return Explanation(
                VerdictKind.NEVER,
                f"{first.said}; it will never be complete{_replayed(tree, facts)}",
                blocked,
            )
        case BlockReason.DOUBTFUL:
            return Explanation(
                VerdictKind.UNSURE,
                f"most likely {first.said}{more}{_replayed(tree, facts)}",
                blocked,
            )
        case BlockReason.AMONG:
            return Explanation(
                VerdictKind.UNSURE,
                (
                    "it waits for "
                    f"{'a tuple that is in no record, or for ' if first.lost else ''}one of "
                    f"{counted(len(blocked), 'tuple')}, such as this: "
                    f"{first.said}{_replayed(tree, facts)}"
                ),
                blocked,
            )


def _replayed(tree: Tree, facts: MessageFacts) -> str:
    """Describe when the message will be emitted again if nothing else happens."""
    init = tree.init
    if facts.exactly_once or facts.timeout_ms == float("inf"):
        return ""
    if init is None:
        return "; it will be replayed when its spout restarts"
    resets = [ending.place.timestamp for ending in tree.endings if ending.kind == "reset"]
    since = max([init.place.timestamp, *resets])
    first, last = since + facts.timeout_ms, since + _LONGEST * facts.timeout_ms
    if last < facts.now:
        return f"; it should have been replayed by {_bare(last, facts.now)}{_spout_trouble(facts)}"
    return f"; it will be replayed {utc_time(max(first, facts.now), facts.now)} or soon after"


def _bare(ms: float, now: float) -> str:
    return utc_time(ms, now).removeprefix("at ")


def _owner(place: tuple[str, int], facts: MessageFacts) -> str:
    if not facts.owners:
        return ""
    owner = facts.owners.get(place)
    return f" ({owner} runs it)" if owner else ", and no process runs it"


_LONGEST: Final = 1.5
"""A tree fails within this multiple of the message timeout."""
_AT_ONCE_MS: Final = 1000
"""Time within which all trees of one attempt begin."""
_OUTCOMES: Final = ("failed", "open", "acked")
