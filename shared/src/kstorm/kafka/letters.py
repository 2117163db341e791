"""What a spout tells of a message that it gives up, beside the message itself."""

from collections.abc import Callable
from typing import Any

from kstorm.core.dead_letters import FAILED, TIMED_OUT, LetterError, Particulars, error_in, text_of
from kstorm.kafka.message import SourceMessage
from kstorm.topology import SpoutOutputCollector

Cause = tuple[str, LetterError | None]
"""The kind of a dead letter, and what went wrong, if that is known."""


def particulars(kind: str, error: LetterError | None, message: SourceMessage, then: Callable[[], Any]) -> Particulars:
    """`then` is called once the broker has the letter."""
    stamped, stamp = message.timestamp()
    return Particulars(
        kind=kind,
        error=error,
        headers=text_of(message.headers()),
        timestamp=stamp if stamped else 0,
        then=then,
    )


def why_failed(collector: SpoutOutputCollector) -> Cause:
    """Of the failure that a spout is being told of: what the task that failed the tuple has said, if that is known."""
    note = collector.why_failed
    kind = TIMED_OUT if collector.timed_out else FAILED
    return kind, None if note is None else error_in(note)
