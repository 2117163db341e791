"""The settings of a spout, and the stored data of a partition."""

import json
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka import (
    EARLIEST_TIME,
    JsonScheme,
    KafkaHosts,
    RawMultiScheme,
    SpoutConfig,
    StoredOffset,
    StringScheme,
)
from kstorm.kafka.offsets import TopologyRef
from kstorm.kafka.ports import Broker, Partition
from kstorm.registry import AvroScheme, SchemaRegistry


def config(**settings: Any) -> SpoutConfig:
    return SpoutConfig(KafkaHosts(), "topic-storm", "/kafkaspout-demo", "reader", **settings)


def test_the_defaults_are_storms() -> None:
    """The defaults are those of *Storm Kafka Integration*, except `fetch_max_wait`."""
    made = config()
    assert (made.fetch_size_bytes, made.socket_timeout_ms, made.buffer_size_bytes) == (
        1024 * 1024,
        10_000,
        1024 * 1024,
    )
    assert isinstance(made.scheme, RawMultiScheme)
    assert (made.ignore_zk_offsets, made.start_offset_time, made.max_offset_behind) == (
        False,
        EARLIEST_TIME,
        None,
    )
    assert made.use_start_offset_time_if_offset_out_of_range is True
    assert (made.state_update_interval_ms, made.metrics_time_bucket_size_in_secs) == (2000, 60)
    assert made.zk_path == "/kafkaspout-demo/reader"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"fetch_size_bytes": 0}, "fetch_size_bytes is 0: it must be at least 1"),
        ({"socket_timeout_ms": 0}, "socket_timeout_ms is 0"),
        ({"fetch_max_wait": 0}, "fetch_max_wait is 0"),
        ({"zk_port": 0}, "zk_port is 0"),
        (
            {"zk_servers": "localhost"},
            "zk_servers is 'localhost': it must be a list of at least one host",
        ),
        ({"retry_initial_delay_ms": -1}, "retry_initial_delay_ms is -1"),
        ({"retry_delay_max_ms": -1}, "retry_delay_max_ms is -1"),
        (
            {"start_offset_time": "earliest"},
            "start_offset_time is 'earliest': it must be EARLIEST_TIME, LATEST_TIME or a",
        ),
        ({"start_offset_time": 1.7e12}, "start_offset_time is 1700000000000.0: .* a whole number"),
        ({"fetch_size_bytes": None}, "fetch_size_bytes is None: it must be a whole number"),
        ({"retry_delay_multiplier": "2"}, "retry_delay_multiplier is '2': it must be a number"),
        ({"ignore_zk_offsets": "false"}, "ignore_zk_offsets is 'false': it must be True or False"),
        ({"use_start_offset_time_if_offset_out_of_range": 0}, "out_of_range is 0: it must be True"),
        ({"kafka_topic_wildcard_match": "no"}, "kafka_topic_wildcard_match is 'no'"),
        ({"retry_limit": True}, "retry_limit is True: it must be a whole number"),
        ({"start_offset_time": True}, "start_offset_time is True: it must be EARLIEST_TIME"),
        ({"max_offset_behind": "9"}, "max_offset_behind is '9': it must be a whole number or None"),
        ({"retry_delay_multiplier": True}, "retry_delay_multiplier is True: it must be a number"),
        ({"client_id": 5}, "client_id is 5: it must be text"),
        ({"output_stream_id": None}, "output_stream_id is None: it must be text"),
        ({"zk_servers": ["a", 1]}, r"zk_servers is \['a', 1\]: it must be a list"),
        ({"kafka_properties": ["a"]}, "kafka_properties is of type list: it must be a mapping"),
        ({"kafka_properties": {"sasl.password": None}}, "kafka_properties is of type dict: it"),
        ({"failed_message_retry_manager": 5}, "failed_message_retry_manager is 5: it must be"),
        ({"retry_delay_multiplier": float("nan")}, "retry_delay_multiplier is nan"),
        ({"retry_delay_multiplier": float("inf")}, "multiplier is inf: it must be a finite number"),
        (
            {"scheme": StringScheme()},
            r"scheme is a StringScheme.*: wrap it, as SchemeAsMultiScheme\(StringScheme",
        ),
        ({"scheme": JsonScheme("word")}, "scheme is a JsonScheme"),
        (
            {"scheme": AvroScheme(SchemaRegistry("http://registry"), "word")},
            "scheme is a AvroScheme",
        ),
        ({"buffer_size_bytes": -1}, "buffer_size_bytes is -1"),
        ({"metrics_time_bucket_size_in_secs": -1}, "metrics_time_bucket_size_in_secs is -1"),
        ({"start_offset_time": -3}, "start_offset_time is -3"),
        ({"max_offset_behind": -1}, "max_offset_behind is -1"),
        ({"state_update_interval_ms": 0}, "state_update_interval_ms is 0"),
        ({"max_uncommitted_offsets": 0}, "max_uncommitted_offsets is 0"),
        ({"retry_delay_multiplier": 0.5}, "retry_delay_multiplier is 0.5"),
        ({"retry_limit": -2}, "retry_limit is -2"),
    ],
)
def test_a_value_out_of_range_is_refused(settings: dict[str, Any], complaint: str) -> None:
    """The error names the field and its value."""
    with pytest.raises(ConfigError, match=complaint):
        config(**settings)


@pytest.mark.parametrize(
    ("topic", "root", "id", "complaint"),
    [
        ("", "/r", "i", "has no topic"),
        ("t", "r", "i", "zk_root is 'r'"),
        ("t", "/r/", "i", "zk_root is '/r/'"),
        ("t", "/r", "", "id is ''"),
        ("t", "/r", "a/b", "id is 'a/b'"),
    ],
)
def test_a_place_that_cannot_be_is_refused(topic: str, root: str, id: str, complaint: str) -> None:
    """The node's path consists of zk_root and id, so both must be valid."""
    with pytest.raises(ConfigError, match=complaint):
        SpoutConfig(KafkaHosts(), topic, root, id)


def test_hosts_as_text_are_refused() -> None:
    """A text is a likely mistake, and the error would otherwise come late."""
    with pytest.raises(ConfigError, match=r"hosts is 'kafka:9092': it must be KafkaHosts\("):
        SpoutConfig("kafka:9092", "t", "/r", "i")  # type: ignore[arg-type]


def test_the_root_may_be_left_out() -> None:
    """This is as in Storm's second constructor. The id is required."""
    assert SpoutConfig(KafkaHosts(), "t", id="words").zk_path == "/words"
    with pytest.raises(ConfigError, match="id is ''"):
        SpoutConfig(KafkaHosts(), "t")


def test_zookeeper_hosts_may_be_the_spouts_own() -> None:
    """`zk_port` applies to hosts without a port."""
    assert config().zk_connect is None
    assert config(zk_servers=["a", "b:2222"], zk_port=2182).zk_connect == "a:2182,b:2222"


SEED = """{"topology": {"id": "kafka-spout-demo-1-1489642910", "name": "kafka-spout-demo"}, "offset": 2, "partition": 0,
 "broker": {"host": "ZB-PC0DD5WG.360buyAD.local", "port": 9092}, "topic": "topic-storm"}"""
PARTITION = Partition("topic-storm", 0)


def test_stored_offset_is_storms_json() -> None:
    """Names, nesting and order of the fields are those of the example in *Storm Kafka Integration*."""
    stored = StoredOffset.of(
        TopologyRef("kafka-spout-demo-1-1489642910", "kafka-spout-demo"),
        PARTITION,
        2,
        Broker("ZB-PC0DD5WG.360buyAD.local", 9092),
    )
    assert json.loads(stored.to_json()) == json.loads(SEED)
    assert list(json.loads(stored.to_json())) == list(json.loads(SEED))
    assert StoredOffset.from_json(SEED.encode(), PARTITION, "/x") == stored


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not a stored offset"),
        (b'{"offset": 3}', "not a stored offset"),
        (SEED.replace('"offset": 2', '"offset": "2"').encode(), "not a stored offset"),
        (
            SEED.replace('"offset": 2', '"offset": 2, "done": [[1, 4]]').encode(),
            "the finished runs must be in order and above the offset",
        ),
        (
            SEED.replace('"offset": 2', '"offset": 2, "done": [[5, 7], [6, 9]]').encode(),
            "the finished runs must be in order",
        ),
        (
            SEED.replace('"offset": 2', '"offset": 2, "done": [[5, 5]]').encode(),
            "the finished runs must be in order",
        ),
        (SEED.replace("topic-storm", "other").encode(), "two spouts share one zk_root and id"),
        (
            SEED.replace('"partition": 0', '"partition": 1').encode(),
            "two spouts share one zk_root and id",
        ),
    ],
)
def test_invalid_stored_offset_is_refused(data: bytes, complaint: str) -> None:
    """The error names the node. A wrong offset is never read from it."""
    with pytest.raises(ConfigError, match=f"/r/i/partition_0.*{complaint}"):
        StoredOffset.from_json(data, PARTITION, "/r/i/partition_0")
