"""Find messages by the origins of trees in acker frames.

The emitted offsets of a partition increase with time, except for retries and repeated reads. So
bisection finds the first attempt at a message, and its retries follow later.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kstorm.core.origins import Origin, OriginRun, read_origins
from kstorm.core.wire import AckFrame, decode, unpack_ids
from kstorm.errors import FrameError
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.tree_reader import TopicRecord


class TreeStart(NamedTuple):
    """The start of a tree."""

    root: int
    origin: Origin | None
    partition: int
    """Partition of the acker topic."""
    offset: int
    """Offset of the init in that partition."""
    timestamp: int
    task: int
    """Spout task."""


class MessageRange(NamedTuple):
    """Range of the first attempts at messages of one partition in a record."""

    lowest: int
    highest: int
    offset: int
    """Offset of the record."""
    timestamp: int


def starts_in(record: TopicRecord, message: MessageId) -> Iterator[TreeStart]:
    """Yield the trees of a message that begin in an acker record."""
    frame = _frame(record, message.topic)
    if frame is None or not any(_may_have(run, message) for run in frame.origins):
        return
    roots = unpack_ids(frame.init_roots)
    for root, origin in zip(roots, read_origins(frame.origins, len(roots)), strict=True):
        if origin is not None and origin[:3] == message:
            yield TreeStart(
                root, origin, record.partition, record.offset, record.timestamp, frame.task
            )


def start_of(record: TopicRecord, root: int) -> TreeStart | None:
    """Return the start of a root's tree in an acker record. None if the tree does not start there."""
    frame = _decoded(record)
    roots = unpack_ids(frame.init_roots) if frame else ()
    if frame is None or root not in roots:
        return None
    origin = list(read_origins(frame.origins, len(roots)))[roots.index(root)]
    return TreeStart(root, origin, record.partition, record.offset, record.timestamp, frame.task)


def range_in(record: TopicRecord, topic: str, partition: int) -> MessageRange | None:
    """Return the range of messages whose first attempts are in a record. None if there are none."""
    frame = _frame(record, topic)
    if frame is None:
        return None
    of_it = [
        run
        for run in frame.origins
        if (run.topic, run.partition, run.attempt) == (topic, partition, 1)
    ]
    offsets = [
        origin.offset
        for run in of_it
        for origin in read_origins([run], run.count)
        if origin is not None
    ]
    return (
        MessageRange(min(offsets), max(offsets), record.offset, record.timestamp)
        if offsets
        else None
    )


def runs_in(record: TopicRecord) -> Sequence[OriginRun]:
    """Return the origins of the trees that begin in an acker record."""
    frame = _decoded(record)
    return frame.origins if frame is not None else ()


def narrow(
    start: int, end: int, offset: int, probe: Callable[[int, int], MessageRange | None], least: int
) -> tuple[MessageRange | None, MessageRange | None]:
    """Return the closest known ranges of emits before and after the first attempt at `offset`.

    Both are the same if a record's range includes `offset`. A value is None if unknown.
    `start` and `end` bound the part of an acker's log to search. A part of at most `least` records
    is not bisected. `probe` returns the first emit in a part. If it returns None, the search
    continues before that part.
    """
    before = after = None
    while end - start > least:
        middle = (start + end) // 2
        seen = probe(middle, end)
        if seen is None:
            end = middle
        elif seen.highest < offset:
            before, start = seen, seen.offset + 1
        elif seen.lowest > offset:
            after, end = seen, middle
        else:
            return seen, seen
    return before, after


def _frame(record: TopicRecord, topic: str) -> AckFrame | None:
    """Return a frame with origins. None if the topic's name is not in the record."""
    if record.value is None or topic.encode() not in record.value:
        return None
    frame = _decoded(record)
    return frame if frame is not None and frame.origins else None


def _decoded(record: TopicRecord) -> AckFrame | None:
    try:
        return decode(AckFrame, record.value)
    except FrameError:
        return None


def _may_have(run: OriginRun, message: MessageId) -> bool:
    return (run.topic, run.partition) == (
        message.topic,
        message.partition,
    ) and run.first <= message.offset
