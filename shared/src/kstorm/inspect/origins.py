"""Finds messages in what the frames for ackers say of where trees come from.

The offsets of a partition rise with time, but for retries and for what is read again. So where a message was emitted is found by
halving, and its retries come after that.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kstorm.core.origins import Origin, OriginRun, read_origins
from kstorm.core.wire import AckFrame, decode, unpack_ids
from kstorm.errors import FrameError
from kstorm.inspect.facts import Message
from kstorm.inspect.gather import Record


class Begun(NamedTuple):
    """A tree that began."""

    root: int
    origin: Origin | None
    partition: int
    """Of the acker topic."""
    offset: int
    """Of the init there."""
    timestamp: int
    task: int
    """The spout task."""


class Seen(NamedTuple):
    """The first attempts at messages of one partition in a record."""

    lowest: int
    highest: int
    offset: int
    """Of the record."""
    timestamp: int


def begun_in(record: Record, message: Message) -> Iterator[Begun]:
    """The trees of a message that begin in a record for an acker."""
    frame = _frame(record, message.topic)
    if frame is None or not any(_may_have(run, message) for run in frame.origins):
        return
    roots = unpack_ids(frame.init_roots)
    for root, origin in zip(roots, read_origins(frame.origins, len(roots)), strict=True):
        if origin is not None and origin[:3] == message:
            yield Begun(root, origin, record.partition, record.offset, record.timestamp, frame.task)


def begun_with(record: Record, root: int) -> Begun | None:
    """How the tree of a root begins in a record for an acker; None if it does not."""
    frame = _decoded(record)
    roots = unpack_ids(frame.init_roots) if frame else ()
    if frame is None or root not in roots:
        return None
    origin = list(read_origins(frame.origins, len(roots)))[roots.index(root)]
    return Begun(root, origin, record.partition, record.offset, record.timestamp, frame.task)


def seen_in(record: Record, topic: str, partition: int) -> Seen | None:
    """Which messages of a partition were emitted with a record for the first time; None if none were."""
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
    return Seen(min(offsets), max(offsets), record.offset, record.timestamp) if offsets else None


def runs_in(record: Record) -> Sequence[OriginRun]:
    """What a record for an acker says of the messages whose trees begin in it; nothing if none do."""
    frame = _decoded(record)
    return frame.origins if frame is not None else ()


def narrow(
    start: int, end: int, offset: int, probe: Callable[[int, int], Seen | None], least: int
) -> tuple[Seen | None, Seen | None]:
    """What was emitted shortly before the first attempt at the message at `offset`, and shortly after it, or with it; None where
    nothing is known. `start` and `end` bound the part of an acker's log that is looked at, of which `least` records are not halved.
    `probe` says what is seen first in such a part. If that is None, nothing is concluded, and the part before it is looked at.
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


def _frame(record: Record, topic: str) -> AckFrame | None:
    """A frame that says of some trees where they come from; None if it can be seen that none are of this topic."""
    if record.value is None or topic.encode() not in record.value:
        return None
    frame = _decoded(record)
    return frame if frame is not None and frame.origins else None


def _decoded(record: Record) -> AckFrame | None:
    try:
        return decode(AckFrame, record.value)
    except FrameError:
        return None


def _may_have(run: OriginRun, message: Message) -> bool:
    return (run.topic, run.partition) == (
        message.topic,
        message.partition,
    ) and run.first <= message.offset
