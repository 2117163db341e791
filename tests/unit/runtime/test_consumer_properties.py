"""The librdkafka properties for the fields of a `KafkaConfig`."""

import logging
import re
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.kafka.config import SPOUTS_OWN_PROPERTIES
from kstorm.runtime.kafka.source_properties import consumer_properties

PROCESS = {"bootstrap.servers": "kafka:9092", "security.protocol": "SSL", "fetch.wait.max.ms": 7}


def properties(hosts: KafkaHosts | None = None, **settings: Any) -> dict[str, Any]:
    """Returns the properties for these settings, in a process with its own properties."""
    return consumer_properties(
        SpoutConfig(hosts or KafkaHosts(), "t", "/r", "words", **settings), PROCESS
    )


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        ({}, "client.id", "words"),
        ({"client_id": "mine"}, "client.id", "mine"),
        ({}, "group.id", "words"),
        ({}, "fetch.message.max.bytes", 1024 * 1024),
        ({"fetch_size_bytes": 5000}, "fetch.message.max.bytes", 5000),
        ({}, "socket.timeout.ms", 10_000),
        ({"socket_timeout_ms": 3000}, "socket.timeout.ms", 3000),
        ({"socket_timeout_ms": 3000, "fetch_max_wait": 2500}, "socket.timeout.ms", 3500),
        ({}, "fetch.wait.max.ms", 500),
        ({"fetch_max_wait": 20}, "fetch.wait.max.ms", 20),
        ({}, "socket.receive.buffer.bytes", 1024 * 1024),
        ({"buffer_size_bytes": 0}, "socket.receive.buffer.bytes", 0),
        ({}, "security.protocol", "SSL"),
        (
            {"kafka_properties": {"security.protocol": "PLAINTEXT"}},
            "security.protocol",
            "PLAINTEXT",
        ),
        ({"client_id": "mine", "kafka_properties": {"client.id": "ours"}}, "client.id", "ours"),
        ({}, "bootstrap.servers", "kafka:9092"),
        ({"hosts": KafkaHosts("other:9092")}, "bootstrap.servers", "other:9092"),
    ],
)
def test_each_field_sets_its_property(settings: dict[str, Any], name: str, value: object) -> None:
    """The spout's fields override the process's properties, and `kafka_properties` overrides both."""
    assert properties(**settings)[name] == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.auto.commit", True),
        ("enable.auto.commit", "true"),
        ("auto.offset.reset", "latest"),
        ("enable.auto.offset.store", True),
        ("enable.partition.eof", False),
    ],
)
def test_the_offsets_are_the_spouts_business(
    name: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """The spout, not librdkafka, commits offsets and replaces the missing ones."""
    with pytest.raises(
        ConfigError,
        match=rf"kafka_properties has {re.escape(name)}={value!r}, but it must be (false|true|error): ",
    ):
        properties(kafka_properties={name: value})
    config = SpoutConfig(KafkaHosts(), "t", "/r", "words")
    with caplog.at_level(logging.WARNING):
        found = consumer_properties(config, {**PROCESS, name: value})
    assert found[name] == SPOUTS_OWN_PROPERTIES[name]
    assert f"the spout 'words' uses {name}=" in caplog.text


def test_properties_equal_to_the_spouts_are_accepted(caplog: pytest.LogCaptureFixture) -> None:
    """Properties that several consumers share often have these."""
    asked = {
        "enable.auto.commit": "False",
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }
    with caplog.at_level(logging.WARNING):
        found = properties(kafka_properties=asked)
    assert {name: found[name] for name in SPOUTS_OWN_PROPERTIES} == SPOUTS_OWN_PROPERTIES
    assert caplog.text == ""


def test_properties_may_hold_passwords() -> None:
    """They are not in a config's repr."""
    config = SpoutConfig(KafkaHosts(), "t", "", "s", kafka_properties={"sasl.password": "Pa55"})
    assert "Pa55" not in repr(config)
