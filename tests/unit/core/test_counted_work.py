"""The number of Python calls that the core makes per sentence must not grow unnoticed.

Unlike timings, call counts are the same on every machine.
"""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Any

import pytest

from kstorm.core.completion_box import CompletionBox
from kstorm.core.ledger import BUCKETS, Ledger
from kstorm.core.wire import VERSION, AckFrame, pack_ids
from tests.bench.counted_run import POLL, WORDS, lines, through
from tests.bench.inprocess import InProcess


@contextmanager
def counting_calls() -> Iterator[Callable[[], int]]:
    """Counts calls of functions, Python's and C's."""
    calls = 0

    def hear(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(hear)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    ("batches", "tasks", "most"),
    [(True, 1, 110), (False, 1, 340), (False, 12, 440), (False, 64, 1245)],
)
def test_calls_a_sentence(batches: bool, tasks: int, most: int) -> None:
    """Counts the calls for spout, split, count, sink, acker and back: 21 tuples per sentence.

    Bolts without `execute_batch` cost calls for each tuple. With many tasks, a frame has few tuples
    for each consumer task.
    """
    pipe = InProcess(tasks=tasks, batches=batches)
    through(pipe, lines(POLL))
    with counting_calls() as calls:
        through(pipe, lines(2 * POLL))
        made = calls()
    assert pipe.finished == 3 * POLL
    assert made / (2 * POLL) < most


def test_records_and_bytes_a_poll() -> None:
    """A poll causes few frames. A word in flight costs its bytes and 16 for its ids."""
    ids = Random(3)
    pipe = InProcess(next_id=lambda: ids.getrandbits(64) | 1)
    through(pipe, lines(10 * POLL))
    assert dict(pipe.work.records) == {
        "spout": 20,
        "split": 30,
        "count": 30,
        "sink": 10,
        "acker": 10,
    }
    sent = {stage: total / (10 * POLL) for stage, total in pipe.work.sent_bytes.items()}
    assert sent["spout"] < 125
    assert sent["split"] < WORDS * 31
    assert sent["count"] < WORDS * 34
    assert sent["sink"] == pytest.approx(16, abs=1)
    assert sent["acker"] == pytest.approx(8, abs=1)


def test_memory_a_sentence_in_flight() -> None:
    """The test measures the peak of a poll. All of it is freed afterwards."""
    pipe = InProcess()
    through(pipe, lines(POLL))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        pipe.run(lines(2000))
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (peak - before) / 2000 < 5500
    assert (after - before) / 2000 < 160


def test_a_checkpoint_writes_what_changed() -> None:
    """It has 20 bytes per open tree and one record per bucket. Unchanged buckets are not written."""
    box = CompletionBox(InProcess().topology)
    ledger, roots = Ledger(box), Random(2).sample(range(1, 1 << 63), 10_000)
    ledger.apply(AckFrame(VERSION, 1, init_roots=pack_ids(roots), init_vals=pack_ids(roots)), 0)
    first = ledger.checkpoint()
    assert len(first) == BUCKETS
    assert sum(map(len, first.values())) < 20.2 * len(roots)
    assert ledger.checkpoint() == {}
    one = next(root for root in roots if root % BUCKETS == 3)
    ledger.apply(AckFrame(VERSION, 0, roots=pack_ids([one]), vals=pack_ids([1])), 1)
    assert list(ledger.checkpoint()) == [b"3"]
