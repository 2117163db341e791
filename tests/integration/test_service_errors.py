"""A service that cannot start reports the reason in one line and has exit code 2."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kstorm.dev.servers import EmbeddedKafka
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import ensure_topics
from tests.integration import topologies
from tests.integration.engine import make_topics
from tests.integration.service import assert_refused, start_service


def test_wrong_partition_count_is_refused_with_both_numbers(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """Otherwise tuples of one key would go to two tasks."""
    make_topics(kafka.bootstrap, {f"{topic_prefix}.split": 3})
    ended = start_service(
        "bolt",
        tmp_path,
        KSTORM_TEST_PREFIX=topic_prefix,
        KSTORM_COMPONENT="split",
        KSTORM_BOOTSTRAP_SERVERS=kafka.bootstrap,
    )
    assert_refused(ended, f"{topic_prefix}.split", "has 3 partitions", "has 4 tasks")


def test_unknown_component_is_an_error_with_the_known_ones(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """To the bolt service, a spout's name is unknown."""
    ended = start_service(
        "bolt",
        tmp_path,
        KSTORM_TEST_PREFIX=topic_prefix,
        KSTORM_COMPONENT="sentences",
        KSTORM_BOOTSTRAP_SERVERS=kafka.bootstrap,
    )
    assert_refused(ended, "'sentences'", "'split', 'count', 'sink'")


def test_topics_are_created_once(
    kafka: EmbeddedKafka, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call finds all topics. Changelogs are compacted."""
    monkeypatch.setenv("KSTORM_TEST_PREFIX", topic_prefix)
    topology = topologies.wordcount()
    settings = Settings(topology="unused", bootstrap_servers=kafka.bootstrap)
    created = ensure_topics(topology, settings).created
    assert set(created) == set(topology.topics()) | set(topology.changelogs())
    assert ensure_topics(topology, settings).created == []
    found = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=20).topics
    assert {name: len(found[name].partitions) for name in topology.topics()} == topology.topics()
