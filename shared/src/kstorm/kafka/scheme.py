"""How messages become tuples: Storm's `Scheme` and `MultiScheme`.

A scheme that raises says that the message cannot be read: it goes to the dead letters with its bytes and coordinates.
Unless it raises `NotYetError`: then the message is shown to it again, until it says something else.
One that returns None, or nothing, says that there is nothing to process: the message is done at once. A message without
a value (a tombstone) is never shown to a scheme, and is done at once.

A scheme that has to open something (a client of a schema registry) may have methods `open` and `close`, without arguments;
the task calls them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kstorm.errors import ConfigError
from kstorm.kafka.extent import MOST_MESSAGE_BYTES, MOST_VALUES, check_json, check_size
from kstorm.kafka.message import SourceMessage
from kstorm.topology import Fields

Values = Sequence[Any]
"""The values of one tuple."""


class OneTuple:
    """Marks a `Scheme`, which in place of a `MultiScheme` would make a tuple of each letter: nobody else could tell them
    apart."""


class Scheme(Protocol):
    """Makes at most one tuple of a message's value."""

    def deserialize(self, value: bytes) -> Values | None:
        """The tuple's values; None if there is nothing to process. Raises if the value cannot be read."""
        ...

    @property
    def output_fields(self) -> Fields:
        """Names of the values."""
        ...


class KeyValueScheme(Scheme, Protocol):
    """A scheme that reads the key as well."""

    def deserialize_key_and_value(self, key: bytes, value: bytes) -> Values | None:
        """As `deserialize`, for a message that has a key."""
        ...


class MultiScheme(Protocol):
    """Makes any number of tuples of a message's value."""

    def deserialize(self, value: bytes) -> Iterable[Values] | None:
        """Each tuple's values; None or empty if there is nothing to process. Raises if the value cannot be read."""
        ...

    @property
    def output_fields(self) -> Fields:
        """Names of the values."""
        ...


class RawMultiScheme:
    """The value as it is, in the field `bytes`."""

    output_fields = Fields("bytes")

    def deserialize(self, value: bytes) -> Iterable[Values]:
        """One tuple with the bytes."""
        return ((value,),)


class StringScheme(OneTuple):
    """The value as text, in the field `str`. A value that is not UTF-8 is a dead letter (Storm would mangle it)."""

    output_fields = Fields("str")

    def deserialize(self, value: bytes) -> Values:
        """The text."""
        return (value.decode(),)


class StringKeyValueScheme(OneTuple):
    """Key and value as text, in the fields `key` and `message`, which a `KafkaBolt` reads by default."""

    output_fields = Fields("key", "message")

    def deserialize(self, value: bytes) -> Values:
        """The text of a message without a key."""
        return (None, value.decode())

    def deserialize_key_and_value(self, key: bytes, value: bytes) -> Values:
        """Both texts."""
        return (key.decode(), value.decode())


class JsonScheme(OneTuple):
    """A JSON object's members, each in the field of its name: `JsonScheme("word", "count")`.

    Members that are not named are left out. A value that is no JSON object, or lacks a named member, is a dead letter; a
    member that is `null` is there. A value with more than `most_values` values, those within others counted, is a dead
    letter as well: it takes some 25 times its bytes once it is decoded.
    """

    def __init__(self, *fields: str, most_values: int = MOST_VALUES) -> None:
        self.output_fields = Fields(*fields)
        self.most_values = most_values

    def deserialize(self, value: bytes) -> Values:
        """The members' values. Raises `ValueError` if the value is no JSON object with these members."""
        check_json(value, self.most_values)
        found = msgspec.json.decode(value)
        if type(found) is not dict:
            raise ValueError("the value is JSON, but no object")
        return values_of(found, self.output_fields)


def values_of(found: Mapping[str, Any], fields: Fields) -> Values:
    """The named members of an object; raises `ValueError` if one is missing."""
    try:
        return [found[name] for name in fields.names]
    except KeyError as error:
        raise ValueError(
            f"the object has no member {error}, only {', '.join(map(repr, found)) or 'none at all'}"
        ) from None


class SchemeAsMultiScheme:
    """A scheme, as a multi-scheme."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme

    def deserialize(self, value: bytes) -> Iterable[Values] | None:
        """The scheme's one tuple."""
        values = self.scheme.deserialize(value)
        return None if values is None else (values,)

    @property
    def output_fields(self) -> Fields:
        """The scheme's."""
        return self.scheme.output_fields


class KeyValueSchemeAsMultiScheme(SchemeAsMultiScheme):
    """A scheme that reads the key as well, as a multi-scheme."""

    scheme: KeyValueScheme

    def __init__(self, scheme: KeyValueScheme) -> None:
        super().__init__(scheme)

    def deserialize_key_and_value(self, key: bytes, value: bytes) -> Iterable[Values] | None:
        """The scheme's one tuple."""
        values = self.scheme.deserialize_key_and_value(key, value)
        return None if values is None else (values,)


class MessageMetadataSchemeAsMultiScheme(SchemeAsMultiScheme):
    """A scheme's values, and after them `partition` and `offset`: enough to find the message again, for audit and replay."""

    def deserialize_message_with_metadata(
        self, value: bytes, partition: int, offset: int
    ) -> Iterable[Values] | None:
        """The scheme's one tuple, and where it came from."""
        values = self.scheme.deserialize(value)
        return None if values is None else ((*values, partition, offset),)

    @property
    def output_fields(self) -> Fields:
        """The scheme's, `partition` and `offset`."""
        return Fields(self.scheme.output_fields, "partition", "offset")


class StringMultiSchemeWithTopic:
    """The value as text, in the field `str`, and the topic that it was read from, in the field `topic`: for a spout that reads
    all topics of a regular expression. A value that is not UTF-8 is a dead letter."""

    output_fields = Fields("str", "topic")

    def deserialize(self, value: bytes) -> Iterable[Values]:
        """Raises `NotImplementedError`: only a `KafkaSpout` knows the topic."""
        raise NotImplementedError(
            "StringMultiSchemeWithTopic needs the topic of the message, which only a KafkaSpout knows"
        )

    def deserialize_with_topic(self, topic: str, value: bytes) -> Iterable[Values]:
        """One tuple with both."""
        return ((value.decode(), topic),)


def check_multi_scheme(scheme: MultiScheme) -> None:
    """Raises `ConfigError` if it is a `Scheme` that was not made a multi-scheme."""
    if isinstance(scheme, OneTuple):
        name = type(scheme).__name__
        raise ConfigError(
            f"scheme is a {name}, which makes one tuple: wrap it, as SchemeAsMultiScheme({name}(…))"
        )


def open_scheme(scheme: MultiScheme) -> None:
    """Opens a scheme that has to be opened, and one that it wraps. Raises `ConfigError` if it cannot work."""
    for each in (scheme, getattr(scheme, "scheme", None)):
        getattr(each, "open", _nothing)()


def close_scheme(scheme: MultiScheme) -> None:
    """Closes what `open_scheme` opened; waits at most a few seconds."""
    for each in (scheme, getattr(scheme, "scheme", None)):
        getattr(each, "close", _nothing)()


def _nothing() -> None:
    pass


def deserializer(
    scheme: MultiScheme, most_bytes: int = MOST_MESSAGE_BYTES
) -> Callable[[SourceMessage], Iterable[Values] | None]:
    """What makes tuples of a whole message, according to the kind of scheme. Raises on one of more bytes."""
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
        tuple_of = scheme.scheme.deserialize  # a call less for each message

        def of_one(message: SourceMessage) -> Iterable[Values] | None:
            value = message.value()
            if value is None:
                return None
            if len(value) > most_bytes:  # a call less for each message, once more
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
