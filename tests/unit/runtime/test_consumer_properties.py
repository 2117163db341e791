"""What librdkafka is told for each field of a `KafkaConfig` that stands for a property of its consumer."""

from typing import Any

import pytest

from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.runtime.kafka_source import consumer_properties

PROCESS = {"bootstrap.servers": "kafka:9092", "security.protocol": "SSL", "fetch.wait.max.ms": 7}


def properties(hosts: KafkaHosts | None = None, **settings: Any) -> dict[str, Any]:
    """The properties for these settings, in a process with some of its own."""
    return consumer_properties(SpoutConfig(hosts or KafkaHosts(), "t", "/r", "words", **settings), PROCESS)


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
        ({"kafka_properties": {"security.protocol": "PLAINTEXT"}}, "security.protocol", "PLAINTEXT"),
        ({"client_id": "mine", "kafka_properties": {"client.id": "ours"}}, "client.id", "ours"),
        ({}, "bootstrap.servers", "kafka:9092"),
        ({"hosts": KafkaHosts("other:9092")}, "bootstrap.servers", "other:9092"),
    ],
)
def test_each_field_is_its_property(settings: dict[str, Any], name: str, value: object) -> None:
    """The process's properties, over them the spout's fields, over them its `kafka_properties`."""
    assert properties(**settings)[name] == value


def test_the_offsets_are_the_spouts_business() -> None:
    """Nobody may have librdkafka commit, or replace an offset that the broker does not have."""
    asked = {"enable.auto.commit": True, "auto.offset.reset": "latest", "enable.auto.offset.store": True}
    found = properties(kafka_properties=asked)
    assert {name: found[name] for name in asked} == {
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.auto.offset.store": False,
    }


def test_properties_may_hold_passwords() -> None:
    """So they are not in what a config shows of itself."""
    config = SpoutConfig(KafkaHosts(), "t", "", "s", kafka_properties={"sasl.password": "Pa55"})
    assert "Pa55" not in repr(config)
