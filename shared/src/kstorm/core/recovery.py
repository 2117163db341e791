"""Decides if the local copy of a changelog is valid, and from which offset to update it.

A copy stores its topic, the last offset that it includes, and the time since which it may be
outdated. All three are needed:

* A recreated topic with the same name has other records at the same offsets.
* If another process has deleted a key since, only a tombstone deletes it in the copy. The broker
  removes tombstones after `delete.retention.ms`.
"""

from typing import Final, NamedTuple

# Share of the tombstones' lifetime that is reserved for reading the log and for clock skew.
_MARGIN: Final = 0.25


class LocalCopy(NamedTuple):
    """Metadata stored with a local copy."""

    topic: bytes
    """Id of the copied topic. A recreated topic has another id."""
    reached: int
    """The last offset that it includes."""
    current: float
    """A Unix time at which the log ended at `reached`. Later records were written after that time."""


class ChangelogState(NamedTuple):
    """The present state of a changelog."""

    topic: bytes
    """The topic's id."""
    low: int
    """The first offset still in the log."""
    high: int
    """The offset after the last record, including open transactions."""
    tombstone_secs: float
    """Minimum lifetime of tombstones in seconds (`delete.retention.ms`)."""


class RecoveryPlan(NamedTuple):
    start: int
    """The first offset to read."""
    distrust: str
    """The reason why the local copy must be emptied first, or "" if it is valid."""
    since: float
    """The value for `LocalCopy.current` until the end is reached.

    After that, `LocalCopy.current` is the time at which the log was inspected.
    """


def plan_recovery(copy: LocalCopy | None, log: ChangelogState, now: float) -> RecoveryPlan:
    """Return how to bring a copy up to date with a log inspected at Unix time `now`.

    None means that the copy has no metadata. Records between a valid copy and `low` were compacted
    away, so the later records replace them.
    """
    distrust = _distrust(copy, log, now)
    if copy is None or distrust:
        return RecoveryPlan(log.low, distrust, now)
    return RecoveryPlan(max(log.low, copy.reached + 1), "", copy.current)


def _distrust(copy: LocalCopy | None, log: ChangelogState, now: float) -> str:
    if copy is None:
        return "it does not record which topic it copies"
    if copy.topic != log.topic:
        return "it is a copy of another topic, or of this topic before it was recreated"
    if copy.reached >= log.high:
        return f"it includes offset {copy.reached}, but the log ends before {log.high}"
    age, slack = now - copy.current, log.tombstone_secs * _MARGIN
    if age >= log.tombstone_secs - slack:
        return (
            f"it is {age:.0f} s old, but the topic keeps deletions for only "
            f"{log.tombstone_secs:.0f} s (delete.retention.ms)"
        )
    if age < -slack:
        return f"its time is {-age:.0f} s in the future, according to this machine's clock"
    return ""
