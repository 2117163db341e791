"""The exactly-once ledger: a row ends with its tree, or when its spout task restarts."""

import pytest

from kstorm.core.exactly_once.exact_ledger import ExactLedger
from kstorm.core.wire import VERSION, AckFrame, pack_ids
from tests.unit.core.acker import SPOUT, Acker


@pytest.fixture
def acker() -> Acker:
    return Acker(kind=ExactLedger)


def recovered(acker: Acker) -> Acker:
    """Another process takes over the task."""
    return Acker(acker.ledger.checkpoint(), acker.offset, kind=ExactLedger)


def test_a_tree_outlives_any_number_of_time_outs(acker: Acker) -> None:
    """Kafka was away for hours, and the bolt's ack arrives afterwards."""
    acker.init(1, 0b10)
    for _ in range(1000):
        acker.ledger.rotate()
    acker.ack(1, 0b10)
    assert acker.told == {"acked": {SPOUT: [1]}}


def test_trees_of_an_earlier_run_are_dropped(acker: Acker) -> None:
    """The trees of other spout tasks stay."""
    acker.init(1, 0b10)
    acker.init(2, 0b10, task=SPOUT + 1)
    acker.begin_anew()
    acker.init(3, 0b10)
    assert len(acker.ledger) == 2
    for root in (1, 2, 3):
        acker.ack(root, 0b10)
    assert acker.told == {"acked": {SPOUT: [3], SPOUT + 1: [2]}}
    assert (len(acker.ledger), acker.ledger.expired) == (0, 1)


def test_start_of_a_run_precedes_its_inits(acker: Acker) -> None:
    """A frame's start of the run is applied before its inits."""
    acker.take(
        AckFrame(VERSION, SPOUT, init_roots=pack_ids([1]), init_vals=pack_ids([2]), begins=True)
    )
    assert len(acker.ledger) == 1


def test_frames_of_an_unknown_tree_make_no_row(acker: Acker) -> None:
    """Acks, fails and resets without an init would otherwise leave a row forever."""
    acker.ack(1, 0b10)
    acker.fail(2)
    acker.reset(3)
    assert (len(acker.ledger), acker.told) == (0, {})


def test_a_reset_is_passed_on(acker: Acker) -> None:
    acker.init(1, 0b10)
    acker.reset(1)
    assert acker.told == {"reset": {SPOUT: [1]}}


def test_a_beginning_that_a_bucket_includes_is_not_repeated(acker: Acker) -> None:
    """A recovering acker reads the record again, and must keep the later trees."""
    acker.begin_anew()
    acker.init(1, 0b10)
    after = recovered(acker)
    after.offset = 0
    after.begin_anew()
    after.init(1, 0b10)
    after.ack(1, 0b10)
    assert after.told == {"acked": {SPOUT: [1]}}


def test_rows_of_at_least_once_without_an_init_are_dropped() -> None:
    """Its init was lost, or comes too late."""
    before = Acker()
    before.ack(1, 0b10)
    before.fail(2)
    before.init(3, 0b10)
    after = recovered(before)
    assert len(after.ledger) == 1
    assert len(after.ledger.checkpoint()) == 2  # stores the buckets without them
