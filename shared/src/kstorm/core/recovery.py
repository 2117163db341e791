"""From where a local copy of a changelog is brought up to date."""

from typing import NamedTuple


class Recovery(NamedTuple):
    """How to recover."""

    start: int
    """The first offset to read."""
    from_nothing: bool
    """Whether the local copy must be emptied before: it was made from another log than this."""


def recovery(reached: int, low: int, high: int) -> Recovery:
    """How a copy that includes the offset `reached` (-1: it is empty) catches up with a log from `low` up to before `high`.

    A copy that is ahead of its log was made from one that is gone. What lies between the copy and `low` was compacted
    away, so later records hold all that counts of it.
    """
    from_nothing = reached >= high
    return Recovery(low if from_nothing else max(low, reached + 1), from_nothing)
