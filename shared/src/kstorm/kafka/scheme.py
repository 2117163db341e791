"""Schemes convert messages to tuples: Storm's `Scheme` and `MultiScheme`.

If a scheme raises, the message cannot be read and becomes a dead letter with its bytes and
coordinates. The exception is `NotYetError`: the message is then passed to the scheme again until
the result differs. If a scheme returns None or nothing, there is nothing to process, and the
message is finished. A message without a value (a tombstone) is finished without calling a scheme.

A scheme that needs resources, such as a schema registry client, may have methods `open` and `close`
without arguments, which the task calls.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from reprlib import Repr
from typing import Any, Final, Protocol

import msgspec

from kstorm.errors import ConfigError
from kstorm.fitting import Positive, Text, checked
from kstorm.kafka.message import SourceMessage
from kstorm.kafka.message_limits import MOST_MESSAGE_BYTES, MOST_VALUES, check_json, check_size
from kstorm.topology import Fields

_MOST_SHOWN: Final = 10
_shown = Repr()
_shown.maxstring = 60

Values = Sequence[Any]
"""The values of one tuple."""


class OneTuple:
    """Marks a `Scheme`, because nothing else distinguishes it from a `MultiScheme`. Used as one, it
    would make a tuple per character."""


class Scheme(Protocol):
    """Converts a message's value to at most one tuple."""

    def deserialize(self, value: bytes) -> Values | None:
        """Return the tuple's values, or None for no tuple. Raises if the value is unreadable."""

    @property
    def output_fields(self) -> Fields:
        """Names of the values."""


class KeyValueScheme(Scheme, Protocol):
    """A scheme that also reads the key."""

    def deserialize_key_and_value(self, key: bytes, value: bytes) -> Values | None:
        """Like `deserialize`, for a message that has a key."""


class MultiScheme(Protocol):
    """Converts a message's value to any number of tuples."""

    def deserialize(self, value: bytes) -> Iterable[Values] | None:
        """Return each tuple's values, or None or empty if there are none.

        Raises if the value is unreadable.
        """

    @property
    def output_fields(self) -> Fields:
        """Names of the values."""


class RawMultiScheme:
    """Returns the raw value in the field `bytes`."""

    output_fields = Fields("bytes")

    def deserialize(self, value: bytes) -> Iterable[Values]:
        return ((value,),)


class StringScheme(OneTuple):
    """Returns the value as text in the field `str`. A value that is not UTF-8 becomes a dead
    letter. (Storm replaces the invalid bytes.)"""

    output_fields = Fields("str")

    def deserialize(self, value: bytes) -> Values:
        return (value.decode(),)


class StringKeyValueScheme(OneTuple):
    """Returns key and value as text in `key` and `message`, the default fields of a `KafkaBolt`."""

    output_fields = Fields("key", "message")

    def deserialize(self, value: bytes) -> Values:
        """Return a key of None and the text."""
        return (None, value.decode())

    def deserialize_key_and_value(self, key: bytes, value: bytes) -> Values:
        """Return both texts."""
        return (key.decode(), value.decode())


class JsonScheme(OneTuple):
    """Returns members of a JSON object in the fields of the same names:
    `JsonScheme("word", "count")`.

    Other members are ignored. A value becomes a dead letter if it is not a JSON object or lacks one
    of the members. `null` members are allowed. A message with more than `most_values` values,
    including nested ones, becomes a dead letter too, because decoded JSON takes about 25 times its
    bytes.
    """

    @checked()
    def __init__(self, *fields: Text, most_values: Positive = MOST_VALUES) -> None:
        self.output_fields = Fields(*fields)
        self.most_values = most_values

    def deserialize(self, value: bytes) -> Values:
        """Return the members' values. Raises `ValueError` unless the value is an object with these
        members."""
        check_json(value, self.most_values)
        found = msgspec.json.decode(value)
        if type(found) is not dict:
            raise ValueError("the value is JSON, but not an object")
        return values_of(found, self.output_fields)


def values_of(found: Mapping[str, Any], fields: Fields) -> Values:
    """Return the named members of an object. Raises `ValueError` if one is missing."""
    try:
        return [found[name] for name in fields.names]
    except KeyError as error:
        raise ValueError(f"the object has no member {error}, only {_members_of(found)}") from None


def _members_of(found: Mapping[str, Any]) -> str:
    shown = ", ".join(map(_shown.repr, islice(found, _MOST_SHOWN)))
    more = len(found) - _MOST_SHOWN
    return f"{shown} and {more:,} others" if more > 0 else shown or "none at all"


class SchemeAsMultiScheme:
    """Wraps a scheme as a multi-scheme."""

    @checked()
    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme

    def deserialize(self, value: bytes) -> Iterable[Values] | None:
        values = self.scheme.deserialize(value)
        return None if values is None else (values,)

    @property
    def output_fields(self) -> Fields:
        return self.scheme.output_fields


class KeyValueSchemeAsMultiScheme(SchemeAsMultiScheme):
    """Wraps a scheme that also reads the key as a multi-scheme."""

    scheme: KeyValueScheme

    @checked()
    def __init__(self, scheme: KeyValueScheme) -> None:
        super().__init__(scheme)

    def deserialize_key_and_value(self, key: bytes, value: bytes) -> Iterable[Values] | None:
        values = self.scheme.deserialize_key_and_value(key, value)
        return None if values is None else (values,)


class MessageMetadataSchemeAsMultiScheme(SchemeAsMultiScheme):
    """Appends the fields `partition` and `offset`, which identify the message."""

    def deserialize_message_with_metadata(
        self, value: bytes, partition: int, offset: int
    ) -> Iterable[Values] | None:
        """Return the scheme's tuple with its source partition and offset."""
        values = self.scheme.deserialize(value)
        return None if values is None else ((*values, partition, offset),)

    @property
    def output_fields(self) -> Fields:
        return Fields(self.scheme.output_fields, "partition", "offset")


class StringMultiSchemeWithTopic:
    """Returns the value as text in the field `str`, and its topic in the field `topic`.

    Use it for a spout that reads all topics of a regular expression. A value that is not UTF-8
    becomes a dead letter.
    """

    output_fields = Fields("str", "topic")

    def deserialize(self, value: bytes) -> Iterable[Values]:
        """Raise `NotImplementedError`, because only a `KafkaSpout` knows the topic."""
        raise NotImplementedError(
            "StringMultiSchemeWithTopic needs the topic of the message, which only a KafkaSpout "
            "knows"
        )

    def deserialize_with_topic(self, topic: str, value: bytes) -> Iterable[Values]:
        """Return one tuple with the text and the topic."""
        return ((value.decode(), topic),)


def check_multi_scheme(scheme: MultiScheme) -> None:
    """Raise `ConfigError` for a `Scheme` that is not wrapped as a multi-scheme."""
    if isinstance(scheme, OneTuple):
        name = type(scheme).__name__
        raise ConfigError(
            f"scheme is a {name}, which makes one tuple: wrap it, as SchemeAsMultiScheme({name}(…))"
        )


def open_scheme(scheme: MultiScheme) -> None:
    """Open the scheme, and a scheme that it wraps, if they have `open`. Raises `ConfigError` on
    failure."""
    for each in (scheme, getattr(scheme, "scheme", None)):
        getattr(each, "open", _nothing)()


def close_scheme(scheme: MultiScheme) -> None:
    """Close what `open_scheme` opened. Waits at most a few seconds."""
    for each in (scheme, getattr(scheme, "scheme", None)):
        getattr(each, "close", _nothing)()


def _nothing() -> None:
    pass


def deserializer(
    scheme: MultiScheme, most_bytes: int = MOST_MESSAGE_BYTES
) -> Callable[[SourceMessage], Iterable[Values] | None]:
    """Return a function from messages to tuples for this kind of scheme.

    It raises on messages of more than `most_bytes`.
    """
    if isinstance(scheme, MessageMetadataSchemeAsMultiScheme):

        def with_metadata(message: SourceMessage) -> Iterable[Values] | None:
            value = message.value()
            if value is None:
                return None
            check_size(len(value), most_bytes)
            return scheme.deserialize_message_with_metadata(
                value, message.partition(), message.offset()
            )

        return with_metadata
    if isinstance(scheme, KeyValueSchemeAsMultiScheme):

        def with_key(message: SourceMessage) -> Iterable[Values] | None:
            value, key = message.value(), message.key()
            if value is None:
                return None
            check_size(len(value) + len(key or b""), most_bytes)
            return (
                scheme.deserialize(value)
                if key is None
                else scheme.deserialize_key_and_value(key, value)
            )

        return with_key
    if isinstance(scheme, StringMultiSchemeWithTopic):

        def with_topic(message: SourceMessage) -> Iterable[Values] | None:
            value = message.value()
            if value is None:
                return None
            check_size(len(value), most_bytes)
            return scheme.deserialize_with_topic(message.topic(), value)

        return with_topic
    if type(scheme) is SchemeAsMultiScheme:
        # Bind the method once, which saves a call per message.
        tuple_of = scheme.scheme.deserialize

        def of_one(message: SourceMessage) -> Iterable[Values] | None:
            value = message.value()
            if value is None:
                return None
            # Checking the size here saves another call per message.
            if len(value) > most_bytes:
                check_size(len(value), most_bytes)
            values = tuple_of(value)
            return None if values is None else (values,)

        return of_one
    deserialize = scheme.deserialize

    def of_value(message: SourceMessage) -> Iterable[Values] | None:
        value = message.value()
        if value is None:
            return None
        check_size(len(value), most_bytes)
        return deserialize(value)

    return of_value
