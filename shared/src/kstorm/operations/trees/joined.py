"""Dead letters of tuples, joined with the messages that the tuples descend from.

With exactly once, a tuple that a bolt cannot process becomes a dead letter of its own, and the rest
of the message is processed. The dead letter contains the roots of the tuple's trees.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from kstorm.core.dead_letters import DeadLetter
from kstorm.operations.letters.selection import component_of, kind_of

_MOST_NAMED: Final = 3


class TupleLetter(NamedTuple):
    """A dead letter of a tuple."""

    number: int
    component: str
    """The component where the error occurred."""
    error: str
    """Type of the error, or the letter's kind if there was none."""
    roots: frozenset[str]
    """Roots of the tuple's trees, 16 hex digits each."""


def tuple_letter(number: int, letter: DeadLetter) -> TupleLetter | None:
    """Return the dead letter of a tuple, or None for a dead letter of a message."""
    if not letter.roots:
        return None
    error = letter.error.type if letter.error and letter.error.type else kind_of(letter)
    return TupleLetter(number, component_of(letter), error, frozenset(letter.roots))


def of_roots(letters: Iterable[TupleLetter], roots: Collection[int]) -> list[TupleLetter]:
    """Return the letters of tuples that descend from these roots."""
    wanted = {f"{root:016x}" for root in roots}
    return [letter for letter in letters if not wanted.isdisjoint(letter.roots)]


def except_for(letters: Sequence[TupleLetter]) -> str:
    """Return `except for one tuple: dead letter 304 (check: ValueError)`."""
    named = ", ".join(
        f"{letter.number} ({letter.component}: {letter.error})" for letter in letters[:_MOST_NAMED]
    )
    more = f" and {len(letters) - _MOST_NAMED} more" if len(letters) > _MOST_NAMED else ""
    some = "one tuple: dead letter" if len(letters) == 1 else f"{len(letters)} tuples: dead letters"
    return f"except for {some} {named}{more}"
