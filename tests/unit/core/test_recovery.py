"""Validity of local copies, and the log offset at which the recovery starts."""

from typing import Any

import pytest

from kstorm.core.recovery import ChangelogState, LocalCopy, RecoveryPlan, plan_recovery

DAY = 86400.0
NOW = 1_800_000_000.0
COPY = LocalCopy(b"topic", reached=99, current=NOW - 60)
LOG = ChangelogState(b"topic", low=0, high=200, tombstone_secs=DAY)


def test_valid_copy_reads_only_later_records() -> None:
    """The copy counts as newer only after the read has reached the end."""
    assert plan_recovery(COPY, LOG, NOW) == RecoveryPlan(100, "", COPY.current)


def test_a_copy_at_the_end_reads_nothing() -> None:
    """This includes the copy of an empty topic, which has no records."""
    assert plan_recovery(COPY._replace(reached=199), LOG, NOW).start == 200
    assert plan_recovery(COPY._replace(reached=-1), LOG._replace(high=0), NOW) == RecoveryPlan(
        0, "", COPY.current
    )


def test_compacted_records_are_not_requested() -> None:
    """Its keys have later records, or tombstones that still exist."""
    assert plan_recovery(COPY, LOG._replace(low=150), NOW).start == 150


@pytest.mark.parametrize(
    ("copy", "log", "why"),
    [
        pytest.param(
            None, LOG, "does not record", id="an empty disk, or one of a version that kept less"
        ),
        pytest.param(COPY._replace(topic=b"other"), LOG, "another topic", id="of another topic"),
        pytest.param(
            COPY,
            LOG._replace(high=99),
            "offset 99, but the log ends before 99",
            id="ahead of its log",
        ),
        pytest.param(COPY._replace(reached=200), LOG, "offset 200", id="ahead by one"),
        pytest.param(
            COPY._replace(current=NOW - DAY), LOG, "86400 s old", id="older than deletions are kept"
        ),
        pytest.param(
            COPY._replace(current=NOW - 0.75 * DAY), LOG, "64800 s old", id="nearly so old"
        ),
        pytest.param(
            COPY._replace(current=NOW + DAY),
            LOG,
            "86400 s in the future",
            id="of a clock that was wrong",
        ),
        pytest.param(
            COPY,
            LOG._replace(tombstone_secs=0.0),
            "for only 0 s",
            id="a log that keeps no deletions",
        ),
    ],
)
def test_invalid_copy_is_discarded(copy: LocalCopy | None, log: ChangelogState, why: str) -> None:
    """The partition is emptied and read from the start.

    An interrupted read counts as current from now.
    """
    start, distrust, since = plan_recovery(copy, log._replace(low=7), NOW)
    assert (start, since) == (7, NOW)
    assert why in distrust


@pytest.mark.parametrize("age", [0.74 * DAY, 0.0, -0.24 * DAY])
def test_clocks_may_differ(age: float) -> None:
    """The difference plus the time of the read may be a quarter of the tombstone retention."""
    assert not plan_recovery(COPY._replace(current=NOW - age), LOG, NOW).distrust


def test_interrupted_recoveries_do_not_make_the_copy_younger() -> None:
    """A partial recovery is as old as the copy that it extended.

    It may still hold keys that were deleted in between.
    """
    copy: Any = COPY
    for reached in range(100, 104):
        copy = LocalCopy(b"topic", reached, plan_recovery(copy, LOG, NOW + reached).since)
    assert copy.current == COPY.current
