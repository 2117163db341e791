"""The envelope of a message that could not be processed: what it was, where it stood, why it is here.

A dead letter is JSON, so that any tool can read it; the bytes of the message are base64. Nothing is ever dropped
without one of these, or a fail and a replay.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from kstorm.core.notes import Note, note_of
from kstorm.texts import decode_json, encodable, readable

UNDECODABLE: Final = "undecodable"
"""The kind of a letter: nothing could read it."""
FAILED: Final = "failed"
"""A bolt failed it, as often as it may be tried."""
TIMED_OUT: Final = "timed_out"
"""Its tree was not complete within the message timeout."""
REFUSED: Final = "refused"
"""Its tuples do not fit the topology, or Kafka takes a record for good not."""
TOO_LARGE: Final = "too_large"
"""No record can hold its tuple."""
STRANGER: Final = "stranger"
"""A record in a topic of kstorm's own that nothing of kstorm's has written."""


class LetterError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, where an error says it."""

    type: str = ""
    """The name of what was raised; empty if a bolt failed its tuple without raising."""
    message: str = ""
    component: str = ""
    """Where it was raised; it need not be the one that writes the letter."""
    task: int = 0
    where: str = ""
    """File and line: `join.py:41`."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the topic `<topology>.__dead_letters`."""

    topology: str
    component: str
    task: int
    """Topology-wide id of the task that gave the message up; 0 for an acker."""
    reason: str
    """Why, in words: `does not decode: …`, `failed 10 times`."""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    """Coordinates of the message, where it came from Kafka."""
    key: bytes | None = None
    value: bytes | None = None
    attempts: int = 0
    """How often it was tried, where that is known."""
    headers: list[tuple[str, str | None]] = []
    """Of the message, or of a sink's record: names and values as text."""
    # What follows is not in the letters of kstorm 0.1.
    at: int = 0
    """When it was written, in ms since 1970."""
    kind: str = ""
    """One of `undecodable`, `failed`, `timed_out`, `refused`, `too_large`, `stranger`."""
    error: LetterError | None = None
    timestamp: int = 0
    """The message's own, in ms since 1970; 0 if it has none."""
    replays: int = 0
    """How often it was replayed, and failed again."""
    row: int = -1
    """Of a tuple: which one of the record at these coordinates."""
    roots: list[str] = []
    """Ids of the spout tuples that it descends from, 16 hex digits each, where they are known."""
    waiting_on: str = ""
    """Of one that timed out: the task that it waited for, and the place of the tuple. Its spout does not know that, so it is found
    in the topics when somebody asks: `kstorm dlq show --why`."""
    version: str = ""
    """The code that gave it up: the deployment, and kstorm's release."""


class Postmark(msgspec.Struct, frozen=True):
    """What a process knows of a letter that leaves it."""

    at: int = 0
    version: str = ""
    unique: str = ""
    """A word that no other letter has."""


class LetterToStore(msgspec.Struct):
    """A dead letter on its way, with whom to tell when the broker has it."""

    letter: DeadLetter
    on_stored: Callable[[], Any] | None = None


def error_of(error: BaseException) -> LetterError:
    """An error that was raised by the code of the component that gives the message up."""
    return error_in(note_of(0, error))


def error_in(note: Note) -> LetterError:
    """An error that another task has told of; its component is put in by who knows the topology."""
    return LetterError(type=note.type, message=note.message, task=note.task, where=note.where)


def roots_of(roots: Iterable[int]) -> list[str]:
    """Ids as a letter has them: JSON's numbers are not exact for many a reader."""
    return [f"{root:016x}" for root in roots if root]


def text_of(
    headers: Iterable[tuple[str, str | bytes | None]] | None,
) -> list[tuple[str, str | None]]:
    """Headers as a letter has them."""
    return [
        (name, value.decode(errors="backslashreplace") if isinstance(value, bytes) else value)
        for name, value in headers or ()
    ]


def key_of(letter: DeadLetter, unique: str) -> bytes:
    """The record key of a letter: the same for the same message given up again by the same component, so that the letter is
    replaced; one without coordinates has `unique` in place of them."""
    if letter.offset < 0:
        return f"{letter.component}/{letter.task}/{unique}".encode(errors="backslashreplace")
    row = f"/{letter.row}" if letter.row >= 0 else ""
    place = f"{letter.topic}/{letter.partition}/{letter.offset}"
    return f"{place}/{letter.component}{row}".encode(errors="backslashreplace")


def encode_letter(letter: DeadLetter) -> bytes:
    """The record value of a dead letter, at most some 700 kB: an envelope must itself fit into a record.

    What the message holds may be as long and as odd as its writer liked, and so may a reason that quotes it: the reason
    is cut to 2000 characters, and key and value are cut, which the reason then says, if they are too long together.
    """
    headers = [(encodable(name), value and encodable(value)) for name, value in letter.headers]
    letter = msgspec.structs.replace(
        letter, reason=readable(letter.reason), headers=headers, roots=letter.roots[:_MAX_ROOTS]
    )
    if (
        len(letter.key or b"") + len(letter.value or b"") <= _MAX_BYTES
    ):  # else it does not fit, and base64 of it takes memory
        data = msgspec.json.encode(letter)
        if len(data) <= _MAX_BYTES:
            return data
    key, value = letter.key and letter.key[:_MAX_KEY], letter.value and letter.value[:_MAX_VALUE]
    kept = f"(of its {len(letter.value or b'')} bytes the first {len(value or b'')}{_CUT}"
    short = msgspec.structs.replace(letter, key=key, value=value, reason=f"{letter.reason} {kept}")
    headers = letter.headers if len(msgspec.json.encode(letter.headers)) <= _MAX_KEY else []
    return msgspec.json.encode(msgspec.structs.replace(short, headers=headers))


def decode_letter(data: bytes) -> DeadLetter:
    """Reads a dead letter back; raises `FrameError` if it is none."""
    return decode_json(data, DeadLetter, "no dead letter")


def is_cut(letter: DeadLetter) -> bool:
    """Whether it has only the beginning of its message."""
    return letter.reason.endswith(_CUT)


_CUT: Final = " are kept here)"
_MAX_ROOTS: Final = 100
_MAX_BYTES: Final = 700_000
_MAX_KEY: Final = 100_000  # base64 adds a third
_MAX_VALUE: Final = 350_000
