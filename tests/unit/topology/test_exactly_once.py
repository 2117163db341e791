"""The requirements of an exactly-once topology, and the ranges of its settings."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from kstorm.errors import ConfigError, TopologyError
from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    ProcessingGuarantee,
    ProducerCallback,
    SpoutConfig,
)
from kstorm.queues import KestrelSpout, RabbitMQConfig, RabbitMQSpout
from kstorm.testing import TestWordSpout
from kstorm.topology import Bolt, Config, Spout, Topology, TopologyBuilder, Tuple
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE

GUARANTEE = "topology_processing_guarantee"


def spout(**settings: Any) -> KafkaSpout:
    return KafkaSpout(SpoutConfig(KafkaHosts(), "lines", "/spouts", "words", **settings))


class FirstValue:
    def get_key_from_tuple(self, tuple: Tuple) -> None:
        return None

    def get_message_from_tuple(self, tuple: Tuple) -> Any:
        return tuple[0]


def sink() -> KafkaBolt:
    return KafkaBolt().with_topic_selector("counts").with_tuple_to_kafka_mapper(FirstValue())


def built(source: Spout, bolt: Bolt, guarantee: str = EXACTLY_ONCE) -> Topology:
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=guarantee))
    builder.set_spout("source", source)
    builder.set_bolt("sink", bolt).shuffle_grouping("source")
    return builder.build()


def test_kafka_in_and_kafka_out_is_taken() -> None:
    """The spout and the sink have default settings. The components see the effective ones."""
    topology = built(spout(), sink())
    assert [spec.config.exactly_once for spec in topology.components.values()] == [True, True]


def test_each_bolt_has_a_changelog() -> None:
    """A bolt without state needs one for its unfinished tuples."""
    assert built(spout(), sink()).changelogs()["t.sink.__state"] == 1
    assert "t.sink.__state" not in built(spout(), sink(), AT_LEAST_ONCE).changelogs()


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (lambda: RabbitMQSpout(RabbitMQConfig("words")), "the spout 'source' is a RabbitMQSpout"),
        (lambda: KestrelSpout("kestrel", 22133, "words"), "the spout 'source' is a KestrelSpout"),
        (TestWordSpout, "the spout 'source' is a TestWordSpout"),
        (
            lambda: spout(processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE),
            "its SpoutConfig has processing_guarantee=",
        ),
        (
            lambda: spout(processing_guarantee=ProcessingGuarantee.NO_GUARANTEE),
            "its SpoutConfig has processing_guarantee=",
        ),
        (lambda: spout(ignore_zk_offsets=True), "ignore_zk_offsets is set"),
    ],
)
def test_spout_without_a_position_is_refused(source: Callable[[], Spout], why: str) -> None:
    """Its position could not be committed with its emits. An at-least-once topology accepts it."""
    with pytest.raises(TopologyError, match=why):
        built(source(), sink())
    built(source(), sink(), AT_LEAST_ONCE)


@pytest.mark.parametrize(
    ("bolt", "why"),
    [
        (lambda: sink().with_fire_and_forget(), "with_fire_and_forget"),
        (lambda: sink().with_producer_properties({}), "its own producer"),
        (lambda: sink().with_producer_callback(ProducerCallback()), "a producer callback"),
    ],
)
def test_a_sink_outside_of_the_transaction_is_refused(
    bolt: Callable[[], KafkaBolt], why: str
) -> None:
    """Its records could not be in its process's transaction. With at least once it is accepted."""
    with pytest.raises(TopologyError, match=f"'sink' cannot be processed exactly once: .*{why}"):
        built(spout(), bolt())
    built(spout(), bolt(), AT_LEAST_ONCE)


@pytest.mark.parametrize(
    ("whole", "own"), [(EXACTLY_ONCE, AT_LEAST_ONCE), (AT_LEAST_ONCE, EXACTLY_ONCE)]
)
@pytest.mark.parametrize("name", ["source", "sink"])
def test_guarantee_of_a_component_is_refused(whole: str, own: str, name: str) -> None:
    """A process cannot work in epochs for some of its tasks only."""
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=whole))
    declared: dict[str, Any] = {"source": builder.set_spout("source", spout())}
    declared["sink"] = builder.set_bolt("sink", sink()).shuffle_grouping("source")
    declared[name].add_configurations(topology_processing_guarantee=own)
    with pytest.raises(
        TopologyError, match=rf"of '{name}': {GUARANTEE} is '{own}', but the topology has '{whole}'"
    ):
        builder.build()
    declared[name].add_configurations(topology_processing_guarantee=whole)
    builder.build()


def test_unknown_guarantee_is_refused() -> None:
    """The error lists the valid ones. Best effort is another setting."""
    said = re.escape(
        "must be one of 'at_least_once', 'exactly_once'; for best effort, set topology_acker_executors=0"
    )
    with pytest.raises(ConfigError, match=f"{GUARANTEE} is 'at_most_once': it {said}"):
        Config(topology_processing_guarantee="at_most_once")
    assert not Config().exactly_once


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("topology_epoch_interval_ms", 0, "it must be above 0"),
        ("topology_bolt_retry_limit", -1, "it must be 0 or more"),
        ("topology_bolt_retry_limit", 0.5, "it must be int"),
        ("topology_bolt_retry_initial_delay_ms", -1, "it must be 0 or more"),
        ("topology_bolt_retry_delay_multiplier", 0.9, "it must be at least 1"),
        ("topology_bolt_retry_delay_max_ms", 0, "it must be above 0"),
    ],
)
def test_settings_out_of_their_range(setting: str, value: float, why: str) -> None:
    """The error names the setting and its range."""
    with pytest.raises(ConfigError, match=f"{setting} is {value}: {why}"):
        Config().override(**{setting: value})


def test_retries_can_be_off_and_at_once() -> None:
    """Valid settings disable retries or the pause, or make the pause constant."""
    config = Config(
        topology_bolt_retry_limit=0,
        topology_bolt_retry_initial_delay_ms=0,
        topology_bolt_retry_delay_multiplier=1,
    )
    assert config.topology_bolt_retry_limit == config.topology_bolt_retry_initial_delay_ms == 0
