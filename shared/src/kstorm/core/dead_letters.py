"""The envelope of a message that could not be processed: what it was, where it stood, why it is here.

A dead letter is JSON, so that any tool can read it; the bytes of the message are base64. Nothing is ever dropped
without one of these, or a fail and a replay.
"""

from collections.abc import Callable
from typing import Any

import msgspec


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


class LetterToStore(msgspec.Struct):
    """A dead letter on its way, with whom to tell when the broker has it."""

    letter: DeadLetter
    on_stored: Callable[[], Any] | None = None


def encode_letter(letter: DeadLetter) -> bytes:
    """The record value of a dead letter."""
    return msgspec.json.encode(letter)


def decode_letter(data: bytes) -> DeadLetter:
    """Reads a dead letter back; raises `msgspec.DecodeError` if it is none."""
    return msgspec.json.decode(data, type=DeadLetter)
