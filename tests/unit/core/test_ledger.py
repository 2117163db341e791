"""The ledger of one acker task, in the terms of Storm's documentation.

These are init, ack, fail and reset timeout.
"""

import random
from typing import Any

import pytest

from kstorm.core.wire import VERSION, AckFrame, pack_ids
from kstorm.errors import FrameError
from tests.unit.core.acker import SPOUT, Acker


@pytest.fixture
def acker() -> Acker:
    return Acker()


# The examples of Storm's documentation, *Guaranteeing message processing*, and of the note *Storm's ack mechanism*.


def test_the_tree_that_ends_in_zero(acker: Acker) -> None:
    """Root 0001: the spout emits 0010 and 1011; 0010 gives 0110, 1011 gives 0111, both are leaves in the end.

    (0010 ^ 1011) ^ (0010 ^ 0110) ^ (1011 ^ 0111) ^ (0110 ^ 0111) = 0. *Storm's ack mechanism* prints the second term as
    (0010 ^ 0010), which would leave 0100: a slip of the pen.
    """
    acker.init(0b0001, 0b0010, 0b1011)
    acker.ack(0b0001, 0b0010, 0b0110)
    acker.ack(0b0001, 0b1011, 0b0111)
    assert acker.told == {}
    acker.ack(0b0001, 0b0110)
    assert acker.told == {}
    acker.ack(0b0001, 0b0111)
    assert acker.told == {"acked": {SPOUT: [0b0001]}}
    assert len(acker.ledger) == 0


def test_a_bolt_task_may_ack_two_tuples_at_once(acker: Acker) -> None:
    """The last term there, (0110 ^ 0111), is two acks folded into one value."""
    acker.init(0b0001, 0b0010, 0b1011)
    acker.ack(0b0001, 0b0010, 0b0110)
    acker.ack(0b0001, 0b1011, 0b0111)
    acker.ack(0b0001, 0b0110 ^ 0b0111)
    assert acker.told == {"acked": {SPOUT: [0b0001]}}


def test_the_tree_that_fails(acker: Acker) -> None:
    """The bolt fails 0010: (0010 ^ 1011) ^ (1011 ^ 0111) ^ 0111 is not 0.

    The spout receives the failure at once.
    """
    acker.init(0b0001, 0b0010, 0b1011)
    acker.ack(0b0001, 0b1011, 0b0111)
    acker.ack(0b0001, 0b0111)
    assert acker.told == {}
    assert len(acker.ledger) == 1
    acker.fail(0b0001)
    assert acker.told == {"failed": {SPOUT: [0b0001]}}
    assert len(acker.ledger) == 0


def test_c_is_removed_as_d_and_e_are_added(acker: Acker) -> None:
    """This is Storm's picture of an ack. The tree can never be completed prematurely."""
    c, d, e = 0xC, 0xD, 0xE
    acker.init(1, c)
    acker.ack(1, c, d, e)
    acker.ack(1, d)
    assert acker.told == {}
    acker.ack(1, e)
    assert acker.told == {"acked": {SPOUT: [1]}}


# Order.


def test_an_ack_before_its_init(acker: Acker) -> None:
    """Messages of different senders may overtake each other. The last one completes the tree."""
    acker.ack(1, 0b10, 0b100)
    acker.ack(1, 0b100)
    assert acker.told == {}
    acker.init(1, 0b10)
    assert acker.told == {"acked": {SPOUT: [1]}}


def test_acks_that_cancel_before_init_complete_nothing(acker: Acker) -> None:
    """Zero means complete only after the init."""
    acker.ack(1, 0b10)
    acker.ack(1, 0b10)
    assert acker.told == {}
    acker.init(1, 0b100)
    assert acker.told == {}


def test_any_order_completes(acker: Acker) -> None:
    """A tree of 40 tuples in 50 random orders is complete after the last message, and not before."""
    chance = random.Random(4)
    for root in range(1, 51):
        edges = [chance.getrandbits(64) for _ in range(40)]
        news: list[Any] = [lambda root=root, edges=edges: acker.init(root, edges[0])]
        news += [
            lambda root=root, e=edges[i], c=edges[2 * i + 1 : 2 * i + 3]: acker.ack(root, e, *c)
            for i in range(40)
        ]
        chance.shuffle(news)
        for tell in news[:-1]:
            tell()
        assert acker.told == {}
        news[-1]()
        assert acker.told == {"acked": {SPOUT: [root]}}
    assert len(acker.ledger) == 0


def test_a_fail_before_its_init(acker: Acker) -> None:
    """The failure is sent as soon as the ledger knows the spout task."""
    acker.fail(1)
    acker.ack(1, 0b10)
    assert acker.told == {}
    acker.init(1, 0b10, 0b100)
    assert acker.told == {"failed": {SPOUT: [1]}}
    assert len(acker.ledger) == 0


def test_fail_after_partial_acks_is_reported_immediately(acker: Acker) -> None:
    """Later acks of the tree are ignored, and make no new tree."""
    acker.init(1, 0b10, 0b100)
    acker.ack(1, 0b10)
    acker.fail(1)
    assert acker.told == {"failed": {SPOUT: [1]}}
    acker.ack(1, 0b100)
    assert acker.told == {}


def test_ack_and_fail_in_one_frame(acker: Acker) -> None:
    """A process may ack and fail tuples of one tree in the same record. Then the tree fails."""
    acker.init(1, 0b10, 0b100)
    acker.take(
        AckFrame(VERSION, 0, roots=pack_ids([1]), vals=pack_ids([0b10]), failed=pack_ids([1]))
    )
    assert acker.told == {"failed": {SPOUT: [1]}}


def test_completions_go_to_the_spout_task_of_the_init(acker: Acker) -> None:
    """The init names the task."""
    for task in (1, 2, 3):
        acker.init(task * 10, 0b10, task=task)
    acker.ack(30, 0b10)
    acker.fail(10)
    acker.ack(20, 0b10)
    assert acker.told == {"acked": {3: [30], 2: [20]}, "failed": {1: [10]}}


def test_a_new_attempt_is_a_new_root(acker: Acker) -> None:
    """Late acks of the first attempt do not change the second."""
    acker.init(1, 0b10)
    acker.fail(1)
    acker.init(2, 0b1000)
    acker.ack(1, 0b10)
    acker.ack(2, 0b1000)
    assert acker.told == {"failed": {SPOUT: [1]}, "acked": {SPOUT: [2]}}


# Rule 1.


def test_init_counts_once(acker: Acker) -> None:
    """A second init would cancel out the first and complete an unprocessed tree."""
    acker.init(1, 0b10)
    acker.init(1, 0b10)
    assert acker.told == {}
    assert acker.ledger.repeated_inits == 1
    acker.ack(1, 0b10)
    assert acker.told == {"acked": {SPOUT: [1]}}


# Time.


def test_an_open_row_lives_between_two_and_three_timeouts(acker: Acker) -> None:
    """`rotate` comes once per timeout. A row survives two rotations, and not three."""
    acker.init(1, 0b10)
    acker.ledger.rotate()
    acker.init(2, 0b10)
    acker.ledger.rotate()
    assert len(acker.ledger) == 2
    acker.ledger.rotate()
    assert len(acker.ledger) == 1
    acker.ledger.rotate()
    assert len(acker.ledger) == 0
    assert acker.ledger.expired == 2
    assert acker.told == {}


def test_acks_do_not_extend_the_lifetime_of_a_row(acker: Acker) -> None:
    """Only a reset of the timeout does so, as in Storm."""
    acker.init(1, 0b10)
    acker.ledger.rotate()
    acker.ledger.rotate()
    acker.ack(1, 0b10, 0b100)
    acker.ledger.rotate()
    assert len(acker.ledger) == 0


def test_reset_restarts_the_lifetime_and_is_forwarded(acker: Acker) -> None:
    """The spout's clock decides, so the spout is notified as well."""
    acker.init(1, 0b10)
    acker.ledger.rotate()
    acker.ledger.rotate()
    acker.reset(1)
    assert acker.told == {"reset": {SPOUT: [1]}}
    acker.ledger.rotate()
    acker.ledger.rotate()
    acker.ack(1, 0b10)
    assert acker.told == {"acked": {SPOUT: [1]}}


def test_a_reset_before_its_init(acker: Acker) -> None:
    """An early reset is legal, sends nothing, and leaves no row."""
    acker.reset(1)
    assert acker.told == {}
    acker.init(1, 0b10)
    acker.ack(1, 0b10)
    assert acker.told == {"acked": {SPOUT: [1]}}
    acker.reset(5)
    assert len(acker.ledger) == 0


def test_a_failed_row_that_waits_for_init_survives_a_reset(acker: Acker) -> None:
    """A reset restarts the timeout, but does not undo a failure."""
    acker.fail(1)
    acker.reset(1)
    acker.init(1, 0b10)
    assert acker.told == {"failed": {SPOUT: [1]}}


def test_ages_after_hundreds_of_rotations(acker: Acker) -> None:
    """Generations have eight bits. A row from a wrap-around lives as long as any other."""
    for rotation in range(600):
        acker.init(rotation + 1, 0b10)
        acker.ledger.rotate()
        assert len(acker.ledger) == min(rotation + 1, 2)


# Bad frames.


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"init_roots": bytes(8)}, "8 bytes of roots and 0 bytes of values"),
        ({"roots": bytes(8), "vals": bytes(16)}, "8 bytes of roots and 16"),
        ({"roots": bytes(7), "vals": bytes(7)}, "a column has 7 bytes"),
        ({"failed": bytes(9)}, "a column has 9 bytes"),
        ({"reset": bytes(1)}, "a column has 1 bytes"),
    ],
)
def test_a_bad_frame_changes_nothing(acker: Acker, columns: dict[str, bytes], said: str) -> None:
    """The ledger rejects the whole frame, even if some columns are valid."""
    good: dict[str, Any] = {"roots": pack_ids([5]), "vals": pack_ids([1]), "failed": pack_ids([6])}
    with pytest.raises(FrameError, match=said):
        acker.take(AckFrame(VERSION, SPOUT, **{**good, **columns}))
    assert len(acker.ledger) == 0
    assert acker.ledger.applied == -1


@pytest.mark.parametrize("task", [0, 4, -1, 2**16, 2**40])
def test_init_of_a_bolt_task_is_refused(acker: Acker, task: int) -> None:
    """No spout task could be notified, and a row has 16 bits for the task."""
    with pytest.raises(FrameError, match=f"inits have task {task}, which is not a spout task"):
        acker.init(1, 0b10, task=task)
    assert len(acker.ledger) == 0
    acker.ledger.checkpoint()


def test_counts(acker: Acker) -> None:
    """The metrics count inits, acks, completed trees, failed trees and the applied offset."""
    acker.init(1, 0b10)
    acker.init(2, 0b10)
    acker.ack(1, 0b10)
    acker.fail(2)
    ledger = acker.ledger
    assert (ledger.inits, ledger.acks, ledger.completed, ledger.failed, ledger.applied) == (
        2,
        1,
        1,
        1,
        3,
    )
