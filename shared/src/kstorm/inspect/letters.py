"""Dead letters as an operator looks at them: those that are left, those that are meant, and which of them are alike.

Letters are alike if their *fingerprint* is: the kind, the component and the place of the error, its type, and its message without
what differs from message to message, which are numbers, ids and quoted text.
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
"""Of a fingerprint, in hex; its beginning will do where it is given."""


class LetterRecord(Struct, frozen=True):
    """A record of the dead letters' topic."""

    number: int
    """Its offset, which is the letter's number."""
    key: bytes | None
    value: bytes | None
    """None: the letters with this key are discarded."""
    at: int = 0
    """Kafka's time of it, in ms since 1970."""


class Numbered(Struct, frozen=True):
    """A letter with its number."""

    number: int
    letter: DeadLetter
    key: bytes | None = None
    """Of the record; None for a letter of kstorm 0.1, which cannot be discarded."""
    has_value: bool = True
    """Whether it has its message's value, also where that is left out here."""


class Left(Struct):
    """The letters that count: of several with one key the last, unless it is discarded."""

    letters: list[Numbered]
    strange: int = 0
    """Records that are no letters."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which letters are meant: those that fit everything that is given."""

    numbers: frozenset[int] = frozenset()
    group: str = ""
    """The beginning of a fingerprint."""
    kind: str = ""
    component: str = ""
    """Where the error was, or which gave the message up."""
    since: int = 0
    """ms since 1970."""
    match: str = ""
    """A regular expression, looked for in what is said of the error, never in the message."""

    def has(self, found: Numbered) -> bool:
        """Whether a letter is meant. Raises `re.error`."""
        letter = found.letter
        return (
            (not self.numbers or found.number in self.numbers)
            and letter.at >= self.since
            and self.kind in ("", kind_of(letter))
            and self.component in ("", letter.component, component_of(letter))
            and (not self.match or re.search(self.match, _told(letter), re.MULTILINE) is not None)
            and fingerprint(letter).startswith(self.group)
        )


class Group(Struct):
    """Letters that are alike."""

    fingerprint: str
    kind: str
    component: str
    type: str
    where: str
    message: str
    """Without what differs."""
    count: int = 0
    first: int = 0
    """When the first of them was written, in ms since 1970; and the last."""
    last: int = 0
    example: int = 0
    """The number of the last."""


def left(records: Iterable[LetterRecord], *, whole: bool = False) -> Left:
    """What is left of the records, in their order. Without `whole` the letters have no keys, values and headers, which may be
    much."""
    found, strange = dict[bytes | int, Numbered](), 0
    for record in records:
        place = record.number if record.key is None else record.key
        before = found.pop(place, None)
        if record.value is None:
            continue
        try:
            letter = decode_letter(record.value)
        except FrameError:
            strange += 1
            if before is not None:  # it does not take a letter's place
                found[place] = before
            continue
        has_value = letter.value is not None
        if not whole:
            letter = replace(letter, key=None, value=None, headers=[])
        found[place] = Numbered(
            record.number, replace(letter, at=letter.at or record.at), record.key, has_value
        )
    return Left(list(found.values()), strange)


def kind_of(letter: DeadLetter) -> str:
    """Its kind; of a letter of kstorm 0.1 what its reason says."""
    if letter.kind:
        return letter.kind
    for said, kind in _SAID.items():
        if said in letter.reason:
            return kind
    return ""


def component_of(letter: DeadLetter) -> str:
    """Where the error was; else who gave the message up."""
    return letter.error.component if letter.error and letter.error.component else letter.component


def message_of(letter: DeadLetter) -> str:
    """What is said of the error; else the reason."""
    return (letter.error and letter.error.message) or letter.reason


def masked(message: str) -> str:
    """Without quoted text, ids and numbers."""
    for expression, word in _MASKS:
        message = expression.sub(word, message)
    return message


def fingerprint(letter: DeadLetter) -> str:
    """The same for letters that are alike, in hex."""
    return hashlib.sha256("\0".join(_parts(letter)).encode(errors="backslashreplace")).hexdigest()[
        :FINGERPRINT_DIGITS
    ]


def groups(letters: Iterable[Numbered]) -> list[Group]:
    """The largest first."""
    found: dict[str, Group] = {}
    for one in letters:
        letter = one.letter
        name = fingerprint(letter)
        group = found.get(name)
        if group is None:
            group = found[name] = Group(name, *_parts(letter), first=letter.at)
        group.count += 1
        group.first, group.last = min(group.first, letter.at), max(group.last, letter.at)
        group.example = one.number
    return sorted(found.values(), key=lambda group: -group.count)


def _parts(letter: DeadLetter) -> tuple[str, str, str, str, str]:
    type, where = ("", "") if letter.error is None else (letter.error.type, letter.error.where)
    return kind_of(letter), component_of(letter), type, where, masked(message_of(letter))


def _told(letter: DeadLetter) -> str:
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
