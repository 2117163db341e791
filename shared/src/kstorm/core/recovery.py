"""Whether a local copy of a changelog can be trusted, and from where it is brought up to date.

A copy says which topic it is of, how far it includes it, and since when it may be behind. With less it would go wrong:
a topic of the same name made anew has other records at the same offsets; and a key that was deleted since, by another
process, is deleted in the copy by a tombstone, which the broker removes after `delete.retention.ms`.
"""

from typing import Final, NamedTuple

_MARGIN: Final = (
    0.25  # of the time that tombstones are kept: for reading the log, and for clocks that differ
)


class Copy(NamedTuple):
    """What is kept with a local copy."""

    topic: bytes
    """The id of the topic that it is a copy of; a topic that is made anew has another."""
    reached: int
    """The last offset that it includes."""
    current: float
    """A Unix time at which the log had nothing behind `reached`. What came later was written after it."""


class Log(NamedTuple):
    """What a changelog is like now."""

    topic: bytes
    """The topic's id."""
    low: int
    """The first offset that it has."""
    high: int
    """The offset behind its last, with what is in open transactions."""
    tombstone_secs: float
    """Seconds for which it keeps tombstones at least (`delete.retention.ms`)."""


class Recovery(NamedTuple):
    """How to recover."""

    start: int
    """The first offset to read."""
    distrust: str
    """Why the local copy must be emptied before; empty text: it is good."""
    since: float
    """What to keep as `Copy.current` until the end is reached. Then it is the time at which the log was looked at."""


def recovery(copy: Copy | None, log: Log, now: float) -> Recovery:
    """How a copy catches up with a log that was looked at at `now`, in Unix time. None: it does not say what it is of.

    What lies between a good copy and `low` was compacted away, so later records hold all that counts of it.
    """
    distrust = _distrust(copy, log, now)
    if copy is None or distrust:
        return Recovery(log.low, distrust, now)
    return Recovery(max(log.low, copy.reached + 1), "", copy.current)


def _distrust(copy: Copy | None, log: Log, now: float) -> str:
    if copy is None:
        return "it does not say what it is a copy of"
    if copy.topic != log.topic:
        return "it is a copy of another topic, or of this one before it was made anew"
    if copy.reached >= log.high:
        return f"it includes offset {copy.reached}, and the log ends before {log.high}"
    age, slack = now - copy.current, log.tombstone_secs * _MARGIN
    if age >= log.tombstone_secs - slack:
        return f"it is {age:.0f} s old, and deletions are kept for {log.tombstone_secs:.0f} s (delete.retention.ms)"
    if age < -slack:
        return f"it was written {-age:.0f} s from now, says the clock"
    return ""
