"""The settings of each topic, and their description in docs/reference/topics.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka import FieldNameBasedTupleToKafkaMapper, KafkaBolt
from kstorm.runtime.kafka.topic_settings import TopicPlan, topic_plans
from kstorm.testing import FeederSpout
from kstorm.topology import BasicBolt, Config, StatefulBasicBolt, Topology, TopologyBuilder

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "topics.md"


class Split(BasicBolt):
    """Emits nothing."""

    def execute(self, tuple: Any, collector: Any) -> None: ...


class Count(StatefulBasicBolt):
    """Has state."""

    def execute(self, tuple: Any, collector: Any) -> None: ...


def make(config: Config | None = None, **split: Any) -> Topology:
    builder = TopologyBuilder("t", config or Config())
    builder.set_spout("lines", FeederSpout("line"), 3)
    builder.set_bolt("split", Split(), 2).shuffle_grouping("lines").add_configurations(**split)
    builder.set_bolt("count", Count(), 5).shuffle_grouping("lines")
    mapper = FieldNameBasedTupleToKafkaMapper("key", "line")
    sink = KafkaBolt().with_tuple_to_kafka_mapper(mapper).with_topic_selector("words")
    builder.set_bolt("sink", sink).shuffle_grouping("lines")
    return builder.build()


def settings(topology: Topology, topic: str, replication: int = 1) -> Mapping[str, str]:
    return topic_plans(topology, replication)[topic].settings


def test_every_topic_has_a_plan() -> None:
    """Each topic has the topology's number of partitions."""
    topology = make()
    assert {name: plan.partitions for name, plan in topic_plans(topology, 1).items()} == {
        **topology.topics(),
        **topology.changelogs(),
    }


def test_dead_letters_are_kept_forever_by_default() -> None:
    """Their size never causes a deletion."""
    assert settings(make(), "t.__dead_letters")["retention.ms"] == "-1"
    month = make(Config(topology_dead_letters_retention_secs=30 * 86400))
    assert settings(month, "t.__dead_letters")["retention.ms"] == "2592000000"
    policies = [settings(one, "t.__dead_letters")["cleanup.policy"] for one in (make(), month)]
    assert policies == ["compact", "compact,delete"], "one that is discarded goes"
    assert settings(month, "t.split")["retention.ms"] == "86400000"


def test_finished_ranges_are_kept_for_a_year_by_default() -> None:
    """Their size never causes a deletion."""
    found = settings(make(), "t.__finished")
    assert (found["retention.ms"], found["retention.bytes"]) == ("31536000000", "-1")
    assert (
        settings(make(Config(topology_finished_retention_secs=None)), "t.__finished")[
            "retention.ms"
        ]
        == "-1"
    )


def test_frames_are_kept_for_a_day_by_default() -> None:
    """Unread frames must not be deleted, least of all without replays."""
    week = make(Config(topology_trace_retention_hours=168))
    for topic in ("t.split", "t.__acker", "t.lines.__completions"):
        assert settings(make(), topic)["retention.ms"] == "86400000"
        assert settings(week, topic)["retention.ms"] == "604800000"
    Config(topology_trace_retention_hours=1)
    with pytest.raises(ConfigError, match=r"is 0\.5: it must be at least 1, so that no tuple"):
        Config(topology_trace_retention_hours=0.5)
    with pytest.raises(ConfigError, match="is 23: it must be at least 24, so that no tuple"):
        Config(topology_trace_retention_hours=23, topology_processing_guarantee="exactly_once")


def test_the_longest_frame_of_any_component_fits() -> None:
    """Each component may have its own limit, and sends to others' topics."""
    for topic in ("t.count", "t.__acker"):
        assert (
            int(settings(make(topology_frame_max_bytes=3_000_000), topic)["max.message.bytes"])
            > 3_000_000
        )


@pytest.mark.parametrize(("replication", "insync"), [(1, None), (2, None), (3, "2"), (5, "2")])
def test_acknowledged_records_are_on_two_brokers(replication: int, insync: str | None) -> None:
    """This needs three or more brokers. With fewer, no broker could be away."""
    assert {
        plan.settings.get("min.insync.replicas")
        for plan in topic_plans(make(), replication).values()
    } == {insync}


@pytest.mark.parametrize(
    ("topic", "shown"),
    [
        ("t.split", "<topology>.<bolt>"),
        ("t.__acker", "<topology>.__acker"),
        ("t.lines.__completions", "<topology>.<spout>.__completions"),
        ("t.__dead_letters", "<topology>.__dead_letters"),
        ("t.__events", "<topology>.__events"),
        ("t.count.__state", "<topology>.<bolt>.__state"),
        ("t.__acker.__ledger", "<topology>.__acker.__ledger"),
    ],
)
def test_page_lists_the_settings_of_the_code(topic: str, shown: str) -> None:
    """Each kind of topic has a row with every setting."""
    plan: TopicPlan = topic_plans(make(), 1)[topic]
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{shown}` |"))
    assert (
        row.split(" | ")[3]
        == " ".join(f"`{name}={value}`" for name, value in plan.settings.items()) + " |"
    )
