"""Serializers convert keys and messages of a `KafkaBolt` to bytes: Kafka's `Serializer`s.

The default is `to_bytes`: text and bytes unchanged, null for None, anything else as JSON. The other
serializers accept one type each and reject other values, which fails the tuple.

A serializer that needs resources, such as a schema registry client, may have methods `open(is_key)`
and `close()`, which the task calls.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Protocol
from uuid import UUID

import msgspec

from kstorm.errors import ConfigError
from kstorm.kafka.ports import RecordColumn


class Serializer(Protocol):
    """Converts values of one type to bytes (Kafka's `Serializer`)."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return a key's or message's bytes, or None for None. Raises if the type is wrong."""


class StringSerializer:
    """Writes text as UTF-8. Raises `TypeError` for anything else."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None or isinstance(value, str):
            return None if value is None else value.encode()
        raise _refusal(self, value, "text")


class BytesSerializer:
    """Writes bytes unchanged. Raises `TypeError` for anything else."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None or isinstance(value, bytes | bytearray | memoryview):
            return None if value is None else bytes(value)
        raise _refusal(self, value, "bytes")


class JsonSerializer:
    """Writes anything as JSON, including text: `a` as `"a"`. None is written as None, not as
    `null`.

    Raises `TypeError` for values that JSON does not support, and `ValueError` for NaN and
    infinities. With `nan_as_null`, these become `null`.
    """

    def __init__(self, *, nan_as_null: bool = False) -> None:
        """Raises `ConfigError` unless `nan_as_null` is a bool."""
        if not isinstance(nan_as_null, bool):
            raise ConfigError(f"JsonSerializer(nan_as_null={nan_as_null!r}): give True or False")
        self.nan_as_null = nan_as_null

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None:
            return None
        text = _encode(value)
        if _NULL in text and not self.nan_as_null:
            _check_null(value)
        return text


class IntegerSerializer:
    """Writes integers as 4 bytes, big-endian, like Kafka's `IntegerSerializer`.

    Raises `TypeError` for anything else and `OverflowError` beyond 32 bits.
    """

    size = 4

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None or type(value) is int:
            return None if value is None else value.to_bytes(self.size, "big", signed=True)
        raise _refusal(self, value, "whole numbers")


class LongSerializer(IntegerSerializer):
    """Writes integers as 8 bytes, big-endian, like Kafka's `LongSerializer`."""

    size = 8


class AnySerializer:
    """The default of a `KafkaBolt`, see `to_bytes`."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return to_bytes(value)


def column(serializer: Serializer, topic: str, values: Sequence[Any]) -> RecordColumn:
    """Serialize many values at once. Raises if one is rejected.

    With the default serializer this does not encode text, because librdkafka writes it as UTF-8.
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
_encode = msgspec.json.Encoder().encode
_encode_msgpack = msgspec.msgpack.Encoder().encode
_NULL = b"null"
# A float of 64 bits whose exponent has only ones.
_FLOAT_OF_ALL_ONES = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]").search
# `to_builtins` does not need to convert these types, because they contain no numbers.
_BUILTIN = (bytes, bytearray, memoryview, datetime, date, time, timedelta, Decimal, UUID)


def to_bytes(value: Any) -> bytes | None:
    """Serialize by type: bytes unchanged, text as UTF-8, None as None, anything else as JSON (5 as
    `5`).

    Raises `TypeError` for values that JSON does not support, and `ValueError` for NaN and
    infinities.
    """
    if type(value) is str:
        return value.encode()
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return to_json(value)


def to_json(value: Any) -> bytes:
    """Encode as JSON. Raises `ValueError` for NaN and infinities, which JSON does not have.

    Raises `TypeError` for other values that JSON does not support.
    """
    text = _encode(value)
    if _NULL in text:
        _check_null(value)
    return text


def _check_null(value: Any) -> None:
    """Raise `ValueError` if the JSON of a value has a null that does not come from None."""
    try:
        # This takes a tenth of the time of a walk through the value.
        if _FLOAT_OF_ALL_ONES(_encode_msgpack(value)) is None:
            return
    except (TypeError, OverflowError):
        pass
    refuse_not_finite(value)


def refuse_not_finite(value: Any) -> None:
    """Raise `ValueError` if a value is or contains NaN or an infinity."""
    found = _not_finite(msgspec.to_builtins(value, builtin_types=_BUILTIN), "")
    if found is not None:
        where, number = found
        raise ValueError(
            f"{f'the value at {where}' if where else 'the value'} is {number}, which JSON does not "
            "have: replace it before, or write it with JsonSerializer(nan_as_null=True)"
        )


def _not_finite(value: Any, path: str) -> tuple[str, float] | None:
    """Return the first number that is not finite, and its path."""
    if isinstance(value, float):
        return None if isfinite(value) else (path, value)
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    for key, each in inner:
        found = _not_finite(each, f"{path}[{key!r:.100}]")
        if found is not None:
            return found
    return None


def _refusal(serializer: Serializer, value: Any, takes: str) -> TypeError:
    return TypeError(
        f"{type(serializer).__name__} writes {takes}, but was given {type(value).__name__}: "
        f"{value!r:.100}"
    )
