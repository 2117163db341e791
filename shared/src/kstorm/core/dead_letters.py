"""Dead letters: envelopes of messages that could not be processed, with coordinates and reason.

A dead letter is JSON, so that any tool can read it. The bytes of the message are base64. A message
is never dropped: it becomes a dead letter, or it fails and is replayed.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from kstorm.core.failure_notes import Note, note_of
from kstorm.errors import TupleTooLargeError, UnsendableError
from kstorm.texts import decode_json, encodable, readable

UNDECODABLE: Final = "undecodable"
"""Letter kind: the message could not be decoded."""
FAILED: Final = "failed"
"""Letter kind: a bolt failed the message on its last allowed attempt."""
TIMED_OUT: Final = "timed_out"
"""Letter kind: the tuple tree was not complete within the message timeout."""
REFUSED: Final = "refused"
"""Letter kind: the tuples do not fit the topology, or Kafka rejected a record permanently."""
TOO_LARGE: Final = "too_large"
"""Letter kind: a tuple does not fit into a record."""
STRANGER: Final = "stranger"
"""Letter kind: a record in one of kstorm's own topics that kstorm did not write."""


class LetterError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Details of the failure behind a dead letter."""

    type: str = ""
    """Type name of the exception. Empty if a bolt failed its tuple without raising."""
    message: str = ""
    component: str = ""
    """The component that raised it, which may differ from the one that writes the letter."""
    task: int = 0
    where: str = ""
    """File and line: `join.py:41`."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the topic `<topology>.__dead_letters`."""

    topology: str
    component: str
    task: int
    """Topology-wide id of the task that gave up on the message. It is 0 for an acker."""
    reason: str
    """A readable reason: `does not decode: …`, `failed 10 times`."""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    """Coordinates of the message, or -1 if it did not come from Kafka."""
    key: bytes | None = None
    value: bytes | None = None
    attempts: int = 0
    """Number of attempts, if known."""
    headers: list[tuple[str, str | None]] = []
    """Headers of the message, or of a sink's record: names and values as text."""
    # Letters of kstorm 0.1 do not have the fields below.
    at: int = 0
    """Time of writing, in ms since 1970."""
    kind: str = ""
    """One of `undecodable`, `failed`, `timed_out`, `refused`, `too_large`, `stranger`."""
    error: LetterError | None = None
    timestamp: int = 0
    """Timestamp of the message, in ms since 1970. 0 if it has none."""
    replays: int = 0
    """Number of times it was replayed from the dead letters and failed again."""
    row: int = -1
    """For a tuple, its position in the record at these coordinates."""
    roots: list[str] = []
    """Ids of the spout tuples that it descends from, if known: 16 hex digits each."""
    waiting_on: str = ""
    """For a timed-out message, the task that it waited for and the position of the tuple. The spout
    does not know it, so `kstorm dlq show --why` finds it in the topics on request."""
    version: str = ""
    """The code that gave up on the message: the deployment, and the kstorm release."""


class LetterStamp(msgspec.Struct, frozen=True):
    """Fields that the process adds to each dead letter that it sends."""

    at: int = 0
    version: str = ""
    unique: str = ""
    """A string that no other letter has."""


class LetterToStore(msgspec.Struct):
    """A dead letter to send, with a callback for the broker's acknowledgement."""

    letter: DeadLetter
    on_stored: Callable[[], Any] | None = None


def kind_of(error: BaseException) -> str:
    """Return the kind of a letter whose message cannot be emitted because of `error`."""
    return TOO_LARGE if isinstance(error, TupleTooLargeError) else REFUSED


def kind_of_note(note: Note) -> str:
    """Return the kind of a letter whose message failed permanently."""
    return (
        TOO_LARGE
        if note.type == TupleTooLargeError.__name__
        else REFUSED
        if note.type == UnsendableError.__name__
        else FAILED
    )


def error_of(error: BaseException) -> LetterError:
    """Describe an exception raised by the component that gives up on the message."""
    return error_in(note_of(0, error))


def error_in(note: Note) -> LetterError:
    """Describe an exception reported by another task.

    `Engine` adds the component later, because that needs the topology.
    """
    return LetterError(type=note.type, message=note.message, task=note.task, where=note.where)


def roots_of(roots: Iterable[int]) -> list[str]:
    """Format ids for a letter, as strings: many JSON readers lose precision in 64-bit numbers."""
    return [f"{root:016x}" for root in roots if root]


def text_of(
    headers: Iterable[tuple[str, str | bytes | None]] | None,
) -> list[tuple[str, str | None]]:
    """Format headers for a letter."""
    return [
        (name, value.decode(errors="backslashreplace") if isinstance(value, bytes) else value)
        for name, value in headers or ()
    ]


def key_of(letter: DeadLetter, unique: str) -> bytes:
    """Return the record key of a letter.

    The key is the coordinates of the message and the component. If that component gives up the same
    message again, the new letter replaces the old one. A letter without coordinates has `unique` in
    its key instead.
    """
    if letter.offset < 0:
        return f"{letter.component}/{letter.task}/{unique}".encode(errors="backslashreplace")
    row = f"/{letter.row}" if letter.row >= 0 else ""
    place = f"{letter.topic}/{letter.partition}/{letter.offset}"
    return f"{place}/{letter.component}{row}".encode(errors="backslashreplace")


def encode_letter(letter: DeadLetter) -> bytes:
    """Return the record value of a dead letter, at most about 700 kB, because the envelope must
    itself fit into a record.

    A message may have any length and content, and a reason may quote it. So the reason is cut to
    2000 characters. If key and value together are too long, they are cut too, and the reason states
    that.
    """
    headers = [(encodable(name), value and encodable(value)) for name, value in letter.headers]
    letter = msgspec.structs.replace(
        letter, reason=readable(letter.reason), headers=headers, roots=letter.roots[:_MAX_ROOTS]
    )
    # Longer content cannot fit anyway. This check saves the memory for its base64 form.
    if len(letter.key or b"") + len(letter.value or b"") <= _MAX_BYTES:
        data = msgspec.json.encode(letter)
        if len(data) <= _MAX_BYTES:
            return data
    key, value = letter.key and letter.key[:_MAX_KEY], letter.value and letter.value[:_MAX_VALUE]
    kept = f"(the first {len(value or b'')} of its {len(letter.value or b'')} bytes{_CUT}"
    short = msgspec.structs.replace(letter, key=key, value=value, reason=f"{letter.reason} {kept}")
    headers = letter.headers if len(msgspec.json.encode(letter.headers)) <= _MAX_KEY else []
    return msgspec.json.encode(msgspec.structs.replace(short, headers=headers))


def decode_letter(data: bytes) -> DeadLetter:
    """Decode a dead letter. Raises `FrameError` if the record is not one."""
    return decode_json(data, DeadLetter, "a dead letter")


def is_cut(letter: DeadLetter) -> bool:
    """Return True if the letter contains only the start of its message."""
    return letter.reason.endswith(_CUT)


_CUT: Final = " are kept here)"
_MAX_ROOTS: Final = 100
_MAX_BYTES: Final = 700_000
_MAX_KEY: Final = 100_000  # base64 adds a third
_MAX_VALUE: Final = 350_000
