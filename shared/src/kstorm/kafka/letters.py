"""Why a spout gives a message up, as it tells the dead letters."""

from typing import Any

from kstorm.core.dead_letters import FAILED, TIMED_OUT, text_of
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.topology import Note, SpoutOutputCollector

Cause = tuple[str, Note | None]
"""The kind of a dead letter, and what went wrong, if that is known."""


def why_failed(collector: SpoutOutputCollector) -> Cause:
    """Of the failure that a spout is being told of: what the task that failed the tuple has said, if that is known."""
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
    """The dead letter of a message: where it is, since when, with its headers; `more` is what `dead_letter` takes besides."""
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
