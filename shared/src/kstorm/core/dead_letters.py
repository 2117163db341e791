"""The envelope of a message that could not be processed: what it was, where it stood, why it is here.

A dead letter is JSON, so that any tool can read it; the bytes of the message are base64. Nothing is ever dropped
without one of these, or a fail and a replay.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kstorm.errors import FrameError


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
    """Of a sink's record: names and values as text."""


class LetterToStore(msgspec.Struct):
    """A dead letter on its way, with whom to tell when the broker has it."""

    letter: DeadLetter
    on_stored: Callable[[], Any] | None = None


def encode_letter(letter: DeadLetter) -> bytes:
    """The record value of a dead letter, at most some 700 kB: an envelope must itself fit into a record.

    What the message holds may be as long and as odd as its writer liked, and so may a reason that quotes it: the reason
    is cut to 2000 characters, and key and value are cut, which the reason then says, if they are too long together.
    """
    headers = [(_encodable(name), value and _encodable(value)) for name, value in letter.headers]
    letter = msgspec.structs.replace(letter, reason=readable(letter.reason), headers=headers)
    if (
        len(letter.key or b"") + len(letter.value or b"") <= _MAX_BYTES
    ):  # else it does not fit, and base64 of it takes memory
        data = msgspec.json.encode(letter)
        if len(data) <= _MAX_BYTES:
            return data
    key, value = letter.key and letter.key[:_MAX_KEY], letter.value and letter.value[:_MAX_VALUE]
    kept = f"(of its {len(letter.value or b'')} bytes the first {len(value or b'')} are kept here)"
    short = msgspec.structs.replace(letter, key=key, value=value, reason=f"{letter.reason} {kept}")
    headers = letter.headers if len(msgspec.json.encode(letter.headers)) <= _MAX_KEY else []
    return msgspec.json.encode(msgspec.structs.replace(short, headers=headers))


def decode_letter(data: bytes) -> DeadLetter:
    """Reads a dead letter back; raises `FrameError` if it is none."""
    try:
        return msgspec.json.decode(data, type=DeadLetter)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"{len(data)} bytes that are no dead letter: {error}") from None


def readable(reason: str) -> str:
    """A reason as it can be written: of bounded length, and without halves of characters, which UTF-8 does not have."""
    if len(reason) > _MAX_REASON:
        reason = f"{reason[:_MAX_REASON]}…"
    return _encodable(reason)


def _encodable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


_MAX_REASON: Final = 2000
_MAX_BYTES: Final = 700_000
_MAX_KEY: Final = 100_000  # base64 adds a third
_MAX_VALUE: Final = 350_000
