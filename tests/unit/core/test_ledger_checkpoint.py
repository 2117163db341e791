"""Stored and restored ledgers: no tree is forgotten, and no record is applied twice."""

from collections.abc import Mapping

import pytest

from kstorm.core.ledger import BUCKETS
from kstorm.errors import FrameError
from tests.unit.core.acker import SPOUT, Acker


@pytest.fixture
def acker() -> Acker:
    return Acker()


def test_ledger_is_restored_from_its_buckets(acker: Acker) -> None:
    """Open trees keep their values, spout tasks, failures without an init, and ages."""
    acker.init(1, 0b10, 0b100, task=1)
    acker.ack(1, 0b10)
    acker.ack(2, 0b1000)
    acker.fail(3)
    acker.ledger.rotate()
    acker.ledger.rotate()
    acker.init(4, 0b10)
    again = Acker(acker.ledger.checkpoint(), acker.offset)
    assert len(again.ledger) == 4
    again.ack(1, 0b100)
    again.init(2, 0b1000, task=3)
    again.init(3, 0b10)
    assert again.told == {"acked": {1: [1], 3: [2]}, "failed": {SPOUT: [3]}}
    again.ledger.rotate()
    again.ack(4, 0b10)
    assert again.told == {"acked": {SPOUT: [4]}}


def test_buckets_that_could_not_be_stored_are_taken_again(acker: Acker) -> None:
    """They are taken with their current rows, also if empty, because the stored rows are unknown."""
    acker.init(1, 0b10)
    acker.init(2, 0b100)
    taken = acker.ledger.checkpoint()
    assert acker.ledger.checkpoint() == {}
    acker.ack(2, 0b100)
    acker.ledger.not_stored(taken)
    again = acker.ledger.checkpoint()
    assert again.keys() == taken.keys()
    assert len(Acker(again, acker.offset).ledger) == 1


def test_rows_do_not_age_while_the_process_is_stopped(acker: Acker) -> None:
    """A row of age 2 expires at the first rotation after the restart, and a fresh one at the third."""
    acker.init(1, 0b10)
    acker.ledger.rotate()
    acker.ledger.rotate()
    acker.init(2, 0b10)
    again = Acker(acker.ledger.checkpoint(), acker.offset)
    again.ledger.rotate()
    assert len(again.ledger) == 1
    again.ledger.rotate()
    again.ledger.rotate()
    assert len(again.ledger) == 0


def test_checkpoints_are_small(acker: Acker) -> None:
    """A row takes about 20 bytes. A tree that began and ended since the last checkpoint takes none."""
    for root in range(1, 6401):
        acker.init(root, 0b10)
    stored = acker.ledger.checkpoint()
    assert len(stored) == BUCKETS
    assert sum(map(len, stored.values())) < 20 * 6400 + 40 * BUCKETS
    acker.init(7000, 0b10)
    acker.ack(7000, 0b10)
    assert acker.ledger.checkpoint() == {}


def test_unchanged_buckets_are_not_written(acker: Acker) -> None:
    """Only the two changed buckets of 32 are written, also after a restart."""
    stored: dict[bytes, bytes] = {}
    for root in range(1, 65):
        acker.init(root, 0b10)
    stored.update(acker.ledger.checkpoint())
    acker.ack(5, 0b10)
    acker.ack(38, 0b10, 0b100)
    changed = acker.ledger.checkpoint()
    assert sorted(changed) == [b"5", b"6"]
    stored.update(changed)
    again = Acker(stored, acker.offset)
    assert again.ledger.checkpoint() == {}
    again.ack(7, 0b10)
    assert list(again.ledger.checkpoint()) == [b"7"]


def test_a_bucket_that_became_empty_is_written_once(acker: Acker) -> None:
    """Its rows must not return. Afterwards nothing is written."""
    acker.init(1, 0b10)
    stored = acker.ledger.checkpoint()
    acker.ack(1, 0b10)
    stored.update(acker.ledger.checkpoint())
    assert acker.ledger.checkpoint() == {}
    assert len(Acker(stored).ledger) == 0


def replayed(log: list[tuple[str, int, int]], stored: Mapping[bytes, bytes], since: int) -> Acker:
    acker = Acker(stored, since)
    for kind, root, edge in log[since:]:
        getattr(acker, kind)(root, edge)
    return acker


def test_a_replay_skips_what_a_bucket_contains(acker: Acker) -> None:
    """Rule 2: with any stored part of a checkpoint, a replay from the start gives the same rows.

    Without the rule, the second `ack` of 0010 would undo the first, and the tree would be stuck.
    """
    log = [
        ("init", 1, 0b110),
        ("init", 2, 0b10),
        ("ack", 1, 0b10),
        ("init", 3, 0b10),
        ("ack", 3, 0b10),
    ]
    for kind, root, edge in log:
        getattr(acker, kind)(root, edge)
    everything = acker.ledger.checkpoint()
    parts: list[set[bytes]] = [set(), {b"1"}, {b"2"}, {b"1", b"2"}]
    for kept in parts:
        again = replayed(log, {key: everything[key] for key in kept}, 0)
        again.ack(1, 0b100)
        again.ack(2, 0b10)
        told = again.told["acked"][SPOUT]
        assert sorted(set(told)) == [
            1,
            2,
            3,
        ]  # 3 twice if its completion was lost with the acker
        assert len(again.ledger) == 0
        assert (again.ledger.skipped_records > 0) == bool(kept)


def test_a_bucket_never_claims_less_than_it_contains() -> None:
    """A bucket that is written during the replay keeps its earlier offset.

    Otherwise a second crash would apply the records in between twice.
    """
    first = Acker()
    first.init(1, 0b110)  # offset 0, bucket 1
    first.ledger.rotate()
    first.ledger.rotate()
    first.init(33, 0b1000)  # offset 1, bucket 1
    first.ack(33, 0b1000, 0b10000)  # offset 2, bucket 1
    stored = first.ledger.checkpoint()
    second = Acker(stored, 0)  # the commit was lost: the input is replayed from the start
    second.init(1, 0b110)
    second.ledger.rotate()  # root 1 expires, bucket 1 changes
    stored.update(second.ledger.checkpoint())
    third = Acker(stored, 1)
    third.init(33, 0b1000)
    third.ack(33, 0b1000, 0b10000)
    third.ack(33, 0b10000)
    assert third.told == {"acked": {SPOUT: [33]}}


def test_state_of_another_log_is_not_this_logs_state() -> None:
    """A recreated topic starts at offset 0. The old topic's state is ignored, and overwritten."""
    old, new = b"old".ljust(16), b"new".ljust(16)
    acker = Acker(log_id=old)
    for _ in range(100):
        acker.ack(9, 1)
    acker.init(1, 0b10)
    stored = acker.ledger.checkpoint()
    again = Acker(stored, log_id=new)
    assert len(again.ledger) == 0
    again.init(1, 0b1000)
    again.ack(1, 0b1000)
    assert again.told == {"acked": {SPOUT: [1]}}
    again.init(1, 0b10)
    stored.update(again.ledger.checkpoint())
    assert len(Acker(stored, log_id=new).ledger) == 1
    assert len(Acker(stored, log_id=old).ledger) == 1  # bucket 9 was not written by the new one


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"32", None, "the ledger has no bucket b'32'"),
        (b"-1", None, "no bucket b'-1': its buckets are 0 to 31"),
        (b"", None, "no bucket b''"),
        (b"1" * 5000, None, "no bucket"),
        ("²".encode(), None, "no bucket"),
        (b"1", b"", "0 bytes are not a ledger bucket"),
        (b"1", b"\x00" * 29, "29 bytes are not a ledger bucket"),
        (b"1", b"\x02" + bytes(29), "a ledger bucket has format 2, but this release reads 1"),
        (
            b"1",
            b"\x01" + bytes(25) + b"\xff\xff\xff\xff",
            "30 bytes, but claims to have 4294967295 rows",
        ),
        (b"1", b"\x01" + bytes(30), "31 bytes, but claims to have 0 rows"),
    ],
)
def test_invalid_bucket_is_refused(key: bytes, value: bytes | None, said: str) -> None:
    """Foreign records in the changelog are detected before memory is allocated for them."""
    acker = Acker()
    acker.init(1, 0b10)
    good = acker.ledger.checkpoint()[b"1"]
    with pytest.raises(FrameError, match=said):
        Acker({key: good if value is None else value})
