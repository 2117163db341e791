"""What cannot be in a transaction of Kafka's is refused when an exactly-once topology is built, with what to do instead."""

import pytest

from kstorm.errors import TopologyError
from kstorm.kafka import KafkaBolt, KafkaHosts, KafkaSpout, ProcessingGuarantee, SpoutConfig
from kstorm.testing import TestWordSpout
from kstorm.topology import Config, Spout, Topology, TopologyBuilder
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE


def build(spout: Spout, bolt: KafkaBolt, guarantee: str = EXACTLY_ONCE) -> Topology:
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=guarantee))
    builder.set_spout("in", spout)
    builder.set_bolt("out", bolt).shuffle_grouping("in")
    return builder.build()


def source(**settings: object) -> KafkaSpout:
    return KafkaSpout(SpoutConfig(KafkaHosts(), "in", "/kstorm", "in", **settings))  # type: ignore[arg-type]


def sink() -> KafkaBolt:
    return KafkaBolt().with_topic_selector("out")


@pytest.mark.parametrize(
    ("spout", "bolt", "reason"),
    [
        (TestWordSpout(), sink(), "no position that could be committed.*a KafkaSpout"),
        (source(processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE), sink(), "its SpoutConfig asks for"),
        (source(ignore_zk_offsets=True), sink(), "ignore_zk_offsets is set"),
        (source(), sink().with_fire_and_forget(True), "with_fire_and_forget"),
        (source(), sink().with_producer_properties({"linger.ms": 5}), "a producer of its own"),
    ],
)
def test_it_is_refused_with_the_reason(spout: Spout, bolt: KafkaBolt, reason: str) -> None:
    """At least once it is built."""
    with pytest.raises(TopologyError, match=reason):
        build(spout, bolt)
    assert build(spout, bolt, AT_LEAST_ONCE)


def test_from_kafka_to_kafka_it_is_built() -> None:
    """Then each bolt has a changelog, also one without state."""
    assert build(source(), sink()).changelogs()["t.out.__state"] == 1
    assert "t.out.__state" not in build(source(), sink(), AT_LEAST_ONCE).changelogs()
