"""Schemes, which convert a message's bytes into tuples."""

import json
from typing import Any, cast

import pytest
from confluent_kafka import Message

from kstorm.kafka import (
    JsonScheme,
    KeyValueSchemeAsMultiScheme,
    MessageMetadataSchemeAsMultiScheme,
    MultiScheme,
    RawMultiScheme,
    SchemeAsMultiScheme,
    StringKeyValueScheme,
    StringMultiSchemeWithTopic,
    StringScheme,
)
from kstorm.kafka.ports import SourceMessage
from kstorm.kafka.scheme import deserializer
from kstorm.topology import Fields


def message(value: bytes | None, key: bytes | None = None) -> SourceMessage:
    """Builds a message at offset 7 of partition 3."""
    return cast("SourceMessage", Message("t", 3, 7, key, value))


@pytest.mark.parametrize(
    ("scheme", "fields", "values"),
    [
        (RawMultiScheme(), Fields("bytes"), [b"v\xc3\xa4"]),
        (SchemeAsMultiScheme(StringScheme()), Fields("str"), ["vä"]),
        (
            MessageMetadataSchemeAsMultiScheme(StringScheme()),
            Fields("str", "partition", "offset"),
            ["vä", 3, 7],
        ),
        (
            KeyValueSchemeAsMultiScheme(StringKeyValueScheme()),
            Fields("key", "message"),
            ["k", "vä"],
        ),
        (StringMultiSchemeWithTopic(), Fields("str", "topic"), ["vä", "t"]),
    ],
)
def test_each_scheme_gives_the_values_of_its_fields(
    scheme: MultiScheme, fields: Fields, values: list[Any]
) -> None:
    """The order of the fields is that of the values."""
    tuples = deserializer(scheme)(message("vä".encode(), b"k"))
    assert scheme.output_fields == fields
    assert [list(each) for each in tuples or ()] == [values]


def test_message_without_a_key_gives_its_value() -> None:
    """A key-value scheme reads only the value."""
    tuples = deserializer(KeyValueSchemeAsMultiScheme(StringKeyValueScheme()))(message(b"v"))
    assert [list(each) for each in tuples or ()] == [[None, "v"]]


@pytest.mark.parametrize(
    "scheme",
    [
        RawMultiScheme(),
        SchemeAsMultiScheme(StringScheme()),
        MessageMetadataSchemeAsMultiScheme(StringScheme()),
        KeyValueSchemeAsMultiScheme(StringKeyValueScheme()),
        StringMultiSchemeWithTopic(),
    ],
)
def test_tombstones_are_not_passed_to_schemes(scheme: MultiScheme) -> None:
    """A message without a value has no content to process."""
    assert deserializer(scheme)(message(None, b"k")) is None


def test_a_scheme_may_find_nothing() -> None:
    """A scheme that returns None gives no tuple, which differs from a tuple of None."""

    class Picky:
        output_fields = Fields("x")

        def deserialize(self, value: bytes) -> None:
            return None

    assert deserializer(SchemeAsMultiScheme(Picky()))(message(b"v")) is None
    assert deserializer(MessageMetadataSchemeAsMultiScheme(Picky()))(message(b"v")) is None


def test_invalid_utf_8_is_refused() -> None:
    """Messages that are not UTF-8 become dead letters."""
    with pytest.raises(UnicodeDecodeError):
        deserializer(SchemeAsMultiScheme(StringScheme()))(message(b"\xff"))
    with pytest.raises(UnicodeDecodeError):
        deserializer(StringMultiSchemeWithTopic())(message(b"\xff"))


def test_the_topic_is_known_to_a_kafka_spout_alone() -> None:
    """With another spout, the error names the missing part."""
    with pytest.raises(NotImplementedError, match="which only a KafkaSpout knows"):
        StringMultiSchemeWithTopic().deserialize(b"v")


def test_json_gives_the_named_members() -> None:
    """The values are in the named order. Other members are ignored, and null is a value."""
    scheme = SchemeAsMultiScheme(JsonScheme("count", "word"))
    assert scheme.output_fields == Fields("count", "word")
    tuples = deserializer(scheme)(message(b'{"word": null, "more": [1], "count": {"a": 1.5}}'))
    assert [list(each) for each in tuples or ()] == [[{"a": 1.5}, None]]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b'{"word": "a"}', "no member 'count', only 'word'"),
        (b"{}", "no member 'word', only none at all"),
        (b'["a", 1]', "JSON, but not an object"),
        (b"null", "JSON, but not an object"),
        (b'{"word": "a", "count": 1', "truncated"),
        (b'{"word": "\xff", "count": 1}', "utf-8"),
        (b"", "truncated"),
    ],
)
def test_json_without_the_named_members_cannot_be_read(value: bytes, says: str) -> None:
    """The error is the reason in the dead letter."""
    with pytest.raises(ValueError, match=f"(?i){says}"):
        deserializer(SchemeAsMultiScheme(JsonScheme("word", "count")))(message(value))


def test_an_error_shows_a_few_short_members() -> None:
    """It is part of the dead letter, the log and the web UI."""
    members = {f"{number}" + "x" * 1000: 1 for number in range(1000)}
    with pytest.raises(ValueError, match=r"no member 'word', only '0x.*and 990 others$") as caught:
        JsonScheme("word").deserialize(json.dumps(members).encode())
    assert len(str(caught.value)) < 1000
