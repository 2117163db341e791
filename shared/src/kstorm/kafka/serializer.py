"""How a `KafkaBolt` turns keys and messages into bytes: Kafka's `Serializer`s.

Without one, `to_bytes` does it: text and bytes as they are, None as none, anything else as JSON. A serializer holds to one
type instead, and refuses any other value, which fails the tuple.

A serializer that has to open something (a client of a schema registry) may have methods `open(is_key)` and `close()`; the
task calls them.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from kstorm.kafka.ports import RecordColumn


class Serializer(Protocol):
    """Makes the bytes of one kind of values (Kafka's `Serializer`)."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """The bytes of a key or message for `topic`; None of None. Raises if it is none of its kind."""
        ...


class StringSerializer:
    """Text as UTF-8; raises `TypeError` for anything else."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """See `Serializer.serialize`."""
        if value is None or isinstance(value, str):
            return None if value is None else value.encode()
        raise _refusal(self, value, "text")


class BytesSerializer:
    """Bytes as they are; raises `TypeError` for anything else."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """See `Serializer.serialize`."""
        if value is None or isinstance(value, bytes | bytearray | memoryview):
            return None if value is None else bytes(value)
        raise _refusal(self, value, "bytes")


class JsonSerializer:
    """Anything as JSON, text too: `a` as `"a"`. None is none, not `null`. Raises `TypeError` for what JSON cannot hold."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """See `Serializer.serialize`."""
        return None if value is None else msgspec.json.encode(value)


class IntegerSerializer:
    """Whole numbers as 4 bytes, big-endian, as Kafka's; raises `TypeError` for anything else, `OverflowError` beyond 32 bits."""

    size = 4

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """See `Serializer.serialize`."""
        if value is None or type(value) is int:
            return None if value is None else value.to_bytes(self.size, "big", signed=True)
        raise _refusal(self, value, "whole numbers")


class LongSerializer(IntegerSerializer):
    """The same as 8 bytes."""

    size = 8


class AnySerializer:
    """What a `KafkaBolt` uses unless told otherwise: see `to_bytes`."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """See `Serializer.serialize`."""
        return to_bytes(value)


def column(serializer: Serializer, topic: str, values: Sequence[Any]) -> RecordColumn:
    """Many values at once; raises if one is refused. Text needs no call, since librdkafka writes it as UTF-8 by itself."""
    if type(serializer) is AnySerializer:
        return values if _AS_THEY_ARE.issuperset(map(type, values)) else list(map(to_bytes, values))
    serialize = serializer.serialize
    return [serialize(topic, value) for value in values]


def open_serializer(serializer: Serializer, *, is_key: bool) -> None:
    """Opens a serializer that has to be opened. Raises `ConfigError` if it cannot work."""
    opened = getattr(serializer, "open", None)
    if opened is not None:
        opened(is_key)


def close_serializer(serializer: Serializer) -> None:
    """Closes what `open_serializer` opened; waits at most a few seconds."""
    closed = getattr(serializer, "close", None)
    if closed is not None:
        closed()


_AS_THEY_ARE = frozenset({str, bytes, type(None)})


def to_bytes(value: Any) -> bytes | None:
    """How a value is written: bytes as they are, text as UTF-8, None as none, anything else as JSON (so 5 as `5`).

    Raises `TypeError` for what JSON cannot hold.
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
        f"{type(serializer).__name__} writes {takes}, and was given {type(value).__name__}: {value!r:.100}"
    )
