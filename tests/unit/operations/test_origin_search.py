"""The search for a message in the origins that init frames contain."""

from collections.abc import Callable
from random import Random

import pytest

from kstorm.core.origins import Origin, OriginRun
from kstorm.core.wire import AckFrame, encode, pack_ids
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.origin_search import (
    MessageRange,
    TreeStart,
    narrow,
    range_in,
    start_of,
    starts_in,
)
from kstorm.operations.trees.tree_reader import TopicRecord

MESSAGE = MessageId("lines", 3, 105)


def frame(*runs: OriginRun, roots: int | None = None) -> TopicRecord:
    count = sum(run.count for run in runs) if roots is None else roots
    ids = pack_ids(range(1, count + 1))
    return TopicRecord(
        "t.__acker",
        1,
        7,
        1000,
        encode(AckFrame(1, 2, init_roots=ids, init_vals=ids, origins=list(runs))),
    )


def test_the_trees_of_a_message_are_found_in_a_frame() -> None:
    """Each has its root, attempt, place and spout task. A message may have several tuples."""
    record = frame(
        OriginRun("lines", 2, 1, 2, 104),
        OriginRun("lines", 3, 1, 3, 104),
        OriginRun("lines", 3, 4, 1, 105),
    )
    assert list(starts_in(record, MESSAGE)) == [
        TreeStart(4, Origin("lines", 3, 105, 1), 1, 7, 1000, 2),
        TreeStart(6, Origin("lines", 3, 105, 4), 1, 7, 1000, 2),
    ]
    assert start_of(record, 6) == TreeStart(6, Origin("lines", 3, 105, 4), 1, 7, 1000, 2)
    assert start_of(record, 7) is None
    twice = frame(OriginRun("lines", 3, 1, 2, 105, bytes([0])))
    assert [begun.root for begun in starts_in(twice, MESSAGE)] == [1, 2]


def test_frames_without_origins_are_skipped() -> None:
    """Earlier releases send them. Invalid frames are skipped too."""
    old = frame(roots=3)
    assert list(starts_in(old, MESSAGE)) == []
    assert range_in(old, "lines", 3) is None
    assert start_of(old, 2) == TreeStart(2, None, 1, 7, 1000, 2)
    for value in (None, b"", b"lines", b"\x93\x01lines"):
        broken = old._replace(value=value)
        assert (list(starts_in(broken, MESSAGE)), range_in(broken, "lines", 3)) == ([], None)
        assert start_of(broken, 2) is None


def test_first_attempts_give_the_range_of_a_partition() -> None:
    """Retries come at any time, so they are ignored."""
    record = frame(
        OriginRun("lines", 3, 1, 3, 104),
        OriginRun("lines", 3, 2, 1, 9),
        OriginRun("other", 3, 1, 1, 900),
    )
    assert range_in(record, "lines", 3) == MessageRange(104, 106, 7, 1000)
    assert range_in(frame(OriginRun("lines", 3, 2, 1, 9)), "lines", 3) is None


def log(offsets: list[int | None], reach: int = 1000) -> Callable[[int, int], MessageRange | None]:
    """Builds a probe of a log whose records each have ten messages from an offset on, or none.

    One probe sees `reach` records.
    """

    def probe(start: int, end: int) -> MessageRange | None:
        for at in range(start, min(end, start + reach)):
            if (first := offsets[at]) is not None:
                return MessageRange(first, first + 9, at, at * 10)
        return None

    return probe


@pytest.mark.parametrize("seed", range(30))
def test_bisection_keeps_the_message_in_range(seed: int) -> None:
    """Frames of other partitions do not matter. The remaining range is small and has the message."""
    random = Random(seed)
    mine = iter(range(0, 100_000, 10))
    offsets = [next(mine) if random.random() < 0.3 else None for _ in range(5000)]
    known = [(at, first) for at, first in enumerate(offsets) if first is not None]
    at, first = random.choice(known)
    before, after = narrow(0, len(offsets), first + random.randrange(10), log(offsets), 50)
    assert before is None or before.offset <= at
    assert after is None or after.offset >= at
    left = (after.offset if after else len(offsets)) - (before.offset if before else 0)
    assert left < 200


def test_messages_beyond_the_log_are_searched_at_its_ends() -> None:
    """A message older than the log is searched at its start."""
    offsets: list[int | None] = [1000 + 10 * at for at in range(2000)]
    before, after = narrow(0, 2000, 999_999, log(offsets), 50)
    assert before is not None
    assert before.offset > 1900
    assert after is None
    before, after = narrow(0, 2000, 3, log(offsets), 50)
    assert before is None
    assert after is not None
    assert after.offset < 100


def test_sparse_partition_is_searched_completely() -> None:
    """An empty probe gives no information about later records."""
    offsets: list[int | None] = [None] * 5000
    offsets[10], offsets[4500] = 0, 100
    before, after = narrow(0, 5000, 105, log(offsets, reach=100), 50)
    assert after is None
    assert before is None or before.offset == 10
