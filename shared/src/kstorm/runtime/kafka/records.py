"""Converts librdkafka's messages to the engine's records."""

from typing import Any

from confluent_kafka import Message

from kstorm.core.engine import InputRecord


def record_of(message: Message) -> InputRecord:
    """Convert a message without an error."""
    sent = message.timestamp()[1] / 1000
    return InputRecord(
        message.offset() or 0, _as_bytes(message.value()), _as_bytes(message.key()), sent
    )


def _as_bytes(data: Any) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
