"""Find the current dead letters, select from them, and group similar ones.

Letters are similar if they have the same *fingerprint*. It consists of kind, component, error
location, error type and error message. Numbers, ids and quoted text in the message are masked.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kstorm.core.dead_letters import FAILED, REFUSED, UNDECODABLE, DeadLetter, decode_letter
from kstorm.errors import FrameError

FINGERPRINT_DIGITS: Final = 8
"""Hex digits of a fingerprint. Users may give a prefix."""


class LetterRecord(Struct, frozen=True):
    """A record of the dead-letter topic."""

    number: int
    """Offset, which is also the letter's number."""
    key: bytes | None
    value: bytes | None
    """None in a tombstone, which discards the letters with this key."""
    at: int = 0
    """Kafka's timestamp, in ms since 1970."""


class NumberedLetter(Struct, frozen=True):
    number: int
    letter: DeadLetter
    key: bytes | None = None
    """Key of the record. None for letters of early builds, which cannot be discarded."""
    has_value: bool = True
    """True if the letter has its message's value, even if the value is omitted here."""


class CurrentLetters(Struct):
    """The current letters: the last one of each key, unless it was discarded."""

    letters: list[NumberedLetter]
    strange: int = 0
    """Number of records that are not letters."""


class LetterSelection(Struct, frozen=True, kw_only=True):
    """Selects the letters that match every criterion given."""

    numbers: frozenset[int] = frozenset()
    group: str = ""
    """Prefix of a fingerprint."""
    kind: str = ""
    component: str = ""
    """Component where the error occurred, or that gave up on the message."""
    since: int = 0
    """Milliseconds since 1970."""
    match: str = ""
    """Regular expression to search for in the error and the reason, never in the message itself."""

    def has(self, found: NumberedLetter) -> bool:
        """Return True if the letter matches. Raises `re.error` if `match` is invalid."""
        letter = found.letter
        return (
            (not self.numbers or found.number in self.numbers)
            and letter.at >= self.since
            and self.kind in ("", kind_of(letter))
            and self.component in ("", letter.component, component_of(letter))
            and (
                not self.match or re.search(self.match, _describe(letter), re.MULTILINE) is not None
            )
            and fingerprint(letter).startswith(self.group)
        )


class LetterGroup(Struct):
    """A group of similar letters."""

    fingerprint: str
    kind: str
    component: str
    type: str
    where: str
    message: str
    """Error message with the variable parts masked."""
    count: int = 0
    first: int = 0
    """Time of the first letter, in ms since 1970."""
    last: int = 0
    example: int = 0
    """Number of the last letter."""


def current_letters(records: Iterable[LetterRecord], *, whole: bool = False) -> CurrentLetters:
    """Return the current letters in order.

    Unless `whole`, their keys, values and headers are omitted to save memory.
    """
    found, strange = dict[bytes | int, NumberedLetter](), 0
    for record in records:
        place = record.number if record.key is None else record.key
        before = found.pop(place, None)
        if record.value is None:
            continue
        try:
            letter = decode_letter(record.value)
        except FrameError:
            strange += 1
            # An invalid record does not replace a letter.
            if before is not None:
                found[place] = before
            continue
        has_value = letter.value is not None
        if not whole:
            letter = replace(letter, key=None, value=None, headers=[])
        found[place] = NumberedLetter(
            record.number, replace(letter, at=letter.at or record.at), record.key, has_value
        )
    return CurrentLetters(list(found.values()), strange)


def kind_of(letter: DeadLetter) -> str:
    """Return the letter's kind. For early builds it is inferred from the reason."""
    if letter.kind:
        return letter.kind
    for said, kind in _SAID.items():
        if said in letter.reason:
            return kind
    return ""


def component_of(letter: DeadLetter) -> str:
    """Return the component where the error occurred, or the one that gave up on the message."""
    return letter.error.component if letter.error and letter.error.component else letter.component


def message_of(letter: DeadLetter) -> str:
    """Return the error message, or the letter's reason if it has no error."""
    return (letter.error and letter.error.message) or letter.reason


def masked(message: str) -> str:
    """Mask quoted text, ids and numbers."""
    for expression, word in _MASKS:
        message = expression.sub(word, message)
    return message


def fingerprint(letter: DeadLetter) -> str:
    """Return a hash in hex that is the same for similar letters."""
    return hashlib.sha256("\0".join(_parts(letter)).encode(errors="backslashreplace")).hexdigest()[
        :FINGERPRINT_DIGITS
    ]


def group_letters(letters: Iterable[NumberedLetter]) -> list[LetterGroup]:
    """Return groups of similar letters, largest first."""
    found: dict[str, LetterGroup] = {}
    for one in letters:
        letter = one.letter
        name = fingerprint(letter)
        group = found.get(name)
        if group is None:
            group = found[name] = LetterGroup(name, *_parts(letter), first=letter.at)
        group.count += 1
        group.first, group.last = min(group.first, letter.at), max(group.last, letter.at)
        group.example = one.number
    return sorted(found.values(), key=lambda group: -group.count)


def _parts(letter: DeadLetter) -> tuple[str, str, str, str, str]:
    type, where = ("", "") if letter.error is None else (letter.error.type, letter.error.where)
    return kind_of(letter), component_of(letter), type, where, masked(message_of(letter))


def _describe(letter: DeadLetter) -> str:
    error = letter.error
    return (
        letter.reason
        if error is None
        else f"{letter.reason}\n{error.type}: {error.message}\n{error.where}"
    )


_SAID: Final = {
    "cannot be deserialized": UNDECODABLE,
    "cannot be emitted": REFUSED,
    "failed": FAILED,
}
_MASKS: Final = (
    (re.compile(r"""(?<!\w)b?(?:'[^'\n]*'|"[^"\n]*"|`[^`\n]*`)(?!\w)"""), "<text>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (
        re.compile(r"\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]*[a-fA-F][0-9a-fA-F]*\b(?<=[0-9a-fA-F]{8})"),
        "<id>",
    ),
    (re.compile(r"0x[0-9a-fA-F]+|[0-9][0-9,._]*(?<![,._])"), "<n>"),
)
