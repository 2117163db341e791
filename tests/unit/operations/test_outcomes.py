"""The outcome of every tree, from the records of an acker and the completions."""

import pytest

from kstorm.core.wire import AckFrame, CompletionFrame, encode, pack_ids
from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.trees.outcomes import (
    FAILED,
    SLOW,
    TIMED_OUT,
    OutcomeTracker,
    SlownessRule,
    TreeOutcome,
)
from kstorm.operations.trees.tree_reader import TopicRecord
from kstorm.testing import FeederSpout
from tests.unit.operations.rebuilding import Forgets, topology

SHAPE = outline_of(topology(FeederSpout("sentence"), Forgets()))
TASK = SHAPE.task_ids("feeder")[0]
PATIENCE = 47_000
"""One and a half message timeouts of 30 s, and a small margin."""


def begin(outcomes: OutcomeTracker, at: int, *roots: int, begins: bool = False) -> None:
    frame = AckFrame(1, TASK, pack_ids(roots), pack_ids(roots), begins=begins)
    outcomes.begin(TopicRecord(SHAPE.acker_topic, 0, 0, at, encode(frame)))


def end(outcomes: OutcomeTracker, at: int, acked: int = 0, failed: int = 0, reset: int = 0) -> None:
    columns = (pack_ids([root]) if root else b"" for root in (acked, failed, reset))
    frame = CompletionFrame(1, 0, *columns)  # type: ignore[arg-type] # it takes them for notes too
    outcomes.end(TopicRecord(SHAPE.completions_topic("feeder"), 0, 0, at, encode(frame)))


def test_each_outcome_is_reported_once() -> None:
    """A tree that ends in time is not reported. Each other outcome is reported once."""
    outcomes = OutcomeTracker(SHAPE, SlownessRule(ms=2000))
    begin(outcomes, 1000, 1, 2, 3, 4)
    end(outcomes, 2000, acked=1)
    end(outcomes, 2500, failed=2)
    end(outcomes, 3001, acked=3)
    assert outcomes.take(4000) == [
        TreeOutcome(2, FAILED, 1000, 2500),
        TreeOutcome(3, SLOW, 1000, 3001),
    ]
    assert outcomes.take(1000 + PATIENCE - 1) == []
    assert outcomes.take(1000 + PATIENCE) == [TreeOutcome(4, TIMED_OUT, 1000, 31_000)]
    assert (outcomes.take(10 * PATIENCE), outcomes.open) == ([], 0)


def test_reset_restarts_the_timeout() -> None:
    outcomes = OutcomeTracker(SHAPE, SlownessRule())
    begin(outcomes, 1000, 1)
    end(outcomes, 20_000, reset=1)
    assert outcomes.take(20_000 + PATIENCE - 1) == []
    assert [one.kind for one in outcomes.take(20_000 + PATIENCE)] == [TIMED_OUT]


def test_restarted_spout_forgets_its_earlier_trees() -> None:
    """The earlier trees did not time out. Later ones may."""
    outcomes = OutcomeTracker(SHAPE, SlownessRule())
    begin(outcomes, 1000, 1)
    begin(outcomes, 5000, 2)
    begin(outcomes, 5000, begins=True)
    assert [one.root for one in outcomes.take(10 * PATIENCE)] == [2]


def test_the_slowest_share() -> None:
    """The share applies to recent trees."""
    outcomes = OutcomeTracker(SHAPE, SlownessRule(share=0.01))
    for root in range(1, 1001):
        begin(outcomes, 1000, root)
        end(outcomes, 1000 + root, acked=root)
    assert [one.root for one in outcomes.take(9000)] == list(range(1000, 990, -1))


def test_oldest_open_trees_are_dropped_at_the_limit() -> None:
    """Dropped trees are counted. A failure without a known init is counted too."""
    outcomes = OutcomeTracker(SHAPE, SlownessRule(), most_open=10)
    begin(outcomes, 1000, *range(1, 31))
    outcomes.take(2000)
    assert (outcomes.open, outcomes.forgotten) == (10, 20)
    end(outcomes, 2000, failed=1)
    assert (outcomes.take(3000), outcomes.unknown) == ([], 1)


@pytest.mark.parametrize("value", [None, b"", b"moon"])
def test_invalid_frames_are_skipped(value: bytes | None) -> None:
    outcomes = OutcomeTracker(SHAPE, SlownessRule())
    outcomes.begin(TopicRecord(SHAPE.acker_topic, 0, 0, 1, value))
    outcomes.end(TopicRecord(SHAPE.completions_topic("feeder"), 0, 0, 1, value))
    assert (outcomes.take(10 * PATIENCE), outcomes.unknown) == ([], 0)
