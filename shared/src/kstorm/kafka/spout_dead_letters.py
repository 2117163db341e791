"""Builds the dead letters of a spout: the cause, and the message with its coordinates."""

from typing import Any

from kstorm.core.dead_letters import FAILED, TIMED_OUT, text_of
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.topology import Note, SpoutOutputCollector

Cause = tuple[str, Note | None]
"""The kind of a dead letter, and the error, if known."""


def why_failed(collector: SpoutOutputCollector) -> Cause:
    """Return the cause of the current failure, with the failing task's note if known."""
    return TIMED_OUT if collector.timed_out else FAILED, collector.why_failed


def write_letter(
    collector: SpoutOutputCollector,
    place: Partition,
    offset: int,
    reason: str,
    message: SourceMessage,
    cause: Cause,
    **more: Any,
) -> None:
    """Write a message's dead letter, with its coordinates, timestamp and headers.

    `more` are further arguments of `dead_letter`.
    """
    stamped, stamp = message.timestamp()
    kind, error = cause
    collector.dead_letter(
        reason,
        topic=place.topic,
        partition=place.partition,
        offset=offset,
        kind=kind,
        error=error,
        headers=text_of(message.headers()),
        timestamp=stamp if stamped else 0,
        **more,
    )
