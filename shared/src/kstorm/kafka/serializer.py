"""Serializers convert keys and messages of a `KafkaBolt` to bytes: Kafka's `Serializer`s.

The default is `to_bytes`: text and bytes as they are, no bytes for None, anything else as JSON. The
other serializers accept one type each and reject other values, which fails the tuple.

A serializer that needs resources, such as a schema registry client, may have methods `open(is_key)`
and `close()`, which the task calls.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from kstorm.kafka.ports import RecordColumn


class Serializer(Protocol):
    """Converts values of one type to bytes (Kafka's `Serializer`)."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return a key's or message's bytes, or None for None. Raises if the type is wrong."""
        ...


class StringSerializer:
    """Text as UTF-8. Raises `TypeError` for anything else."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None or isinstance(value, str):
            return None if value is None else value.encode()
        raise _refusal(self, value, "text")


class BytesSerializer:
    """Bytes as they are. Raises `TypeError` for anything else."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None or isinstance(value, bytes | bytearray | memoryview):
            return None if value is None else bytes(value)
        raise _refusal(self, value, "bytes")


class JsonSerializer:
    """Anything as JSON, including text: `a` as `"a"`. None is written as None, not as `null`.

    Raises `TypeError` for values that JSON does not support.
    """

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return None if value is None else msgspec.json.encode(value)


class IntegerSerializer:
    """Integers as 4 bytes, big-endian, like Kafka's `IntegerSerializer`.

    Raises `TypeError` for anything else and `OverflowError` beyond 32 bits.
    """

    size = 4

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None or type(value) is int:
            return None if value is None else value.to_bytes(self.size, "big", signed=True)
        raise _refusal(self, value, "whole numbers")


class LongSerializer(IntegerSerializer):
    """Integers as 8 bytes, big-endian, like Kafka's `LongSerializer`."""

    size = 8


class AnySerializer:
    """The default of a `KafkaBolt`, see `to_bytes`."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return to_bytes(value)


def column(serializer: Serializer, topic: str, values: Sequence[Any]) -> RecordColumn:
    """Serialize many values at once. Raises if one is rejected.

    With the default serializer, text is not encoded here, because librdkafka writes it as UTF-8.
    """
    if type(serializer) is AnySerializer:
        return values if _AS_THEY_ARE.issuperset(map(type, values)) else list(map(to_bytes, values))
    serialize = serializer.serialize
    return [serialize(topic, value) for value in values]


def open_serializer(serializer: Serializer, *, is_key: bool) -> None:
    """Open a serializer that has `open`. Raises `ConfigError` on failure."""
    opened = getattr(serializer, "open", None)
    if opened is not None:
        opened(is_key)


def close_serializer(serializer: Serializer) -> None:
    """Close what `open_serializer` opened. Waits at most a few seconds."""
    closed = getattr(serializer, "close", None)
    if closed is not None:
        closed()


_AS_THEY_ARE = frozenset({str, bytes, type(None)})


def to_bytes(value: Any) -> bytes | None:
    """Serialize by type: bytes as they are, text as UTF-8, None as None, else JSON (5 as `5`).

    Raises `TypeError` for values that JSON does not support.
    """
    if type(value) is str:
        return value.encode()
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return msgspec.json.encode(value)


def _refusal(serializer: Serializer, value: Any, takes: str) -> TypeError:
    return TypeError(
        f"{type(serializer).__name__} writes {takes}, but was given {type(value).__name__}: "
        f"{value!r:.100}"
    )
