"""The topics of a topology: how it creates them, and which existing topics it rejects."""

import asyncio
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.core.task_state import MAX_PAIR_BYTES, TaskState
from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import TopicError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.topic_settings import CHANGELOG, topic_plans
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.topology import Topology
from tests.integration import topologies
from tests.integration.engine import make_topics
from tests.integration.recovering import checkpoint, make_table
from tests.integration.test_fencing import process


@pytest.fixture
def topology(topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """A topology with a stateful bolt."""
    monkeypatch.setenv("KSTORM_TEST_PREFIX", topic_prefix)
    return topologies.wordcount()


def make(kafka: EmbeddedKafka, topic: str, partitions: int, **settings: str) -> None:
    """Create a topic in place of an operator."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    config = {**CHANGELOG, **{name.replace("_", "."): value for name, value in settings.items()}}
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)


def test_topics_have_the_planned_settings(kafka: EmbeddedKafka, topology: Topology) -> None:
    """This covers every setting. Dead letters are kept forever."""
    settings = Settings(topology="a:b", bootstrap_servers=kafka.bootstrap)
    ensure_topics(topology, settings)
    planned = topic_plans(topology, 1)
    found = Admin(settings).topic_settings(list(planned))
    assert {
        topic: {name: found[topic][name] for name in plan.settings}
        for topic, plan in planned.items()
    } == {topic: dict(plan.settings) for topic, plan in planned.items()}
    assert found[topology.dead_letters_topic]["retention.ms"] == "-1"
    assert ensure_topics(topology, settings).created == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cleanup_policy": "delete"}, "cleanup.policy=delete.*set cleanup.policy=compact"),
        (
            {"cleanup_policy": "compact,delete"},
            "cleanup.policy=compact,delete.*set cleanup.policy=compact",
        ),
        (
            {"max_message_bytes": "1048588"},
            "max.message.bytes=1048588.*set max.message.bytes=16777216",
        ),
    ],
)
def test_changelog_that_would_lose_state_is_refused(
    kafka: EmbeddedKafka, topology: Topology, changed: dict[str, str], message: str
) -> None:
    """An operator created it. The error has the remedy."""
    (name, count), *_ = topology.changelogs().items()
    make(kafka, name, count, **changed)
    with pytest.raises(TopicError, match=f"{name}.*{message}"):
        ensure_topics(topology, Settings(topology="a:b", bootstrap_servers=kafka.bootstrap))


def test_correct_existing_changelog_is_used(kafka: EmbeddedKafka, topology: Topology) -> None:
    for name, count in topology.changelogs().items():
        make(kafka, name, count)
    created = ensure_topics(
        topology, Settings(topology="a:b", bootstrap_servers=kafka.bootstrap)
    ).created
    assert set(created) == set(topology.topics())


async def test_largest_value_of_put_can_be_stored(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """The client, the broker and the disk store it, and it can be read."""
    topic, changelog = f"{topic_prefix}-in", f"{topic_prefix}-changelog"
    make_topics(kafka.bootstrap, {topic: 1})
    await asyncio.to_thread(make, kafka, changelog, 1)
    state = TaskState(lambda key: None, lambda start: ())
    value = b"x" * (MAX_PAIR_BYTES - 4 * 3 - 5)  # minus the key, and MessagePack's header
    with pytest.raises(ValueError, match="'key'"):
        state.put("key", value + b"x")
    state.put("key", value)
    async with process(kafka, topic, "place", "writer") as writer:
        written = state.take_changes()
        table = make_table(kafka, tmp_path, changelog)
        await table.open(0)
        await checkpoint(table, writer, changelog, {0: written}, {0: 1}, time.time)
        table.close(0)
    heir = make_table(kafka, tmp_path / "other", changelog)
    assert (await heir.open(0)).records == 1
    assert list(heir.items(0)) == written
    heir.close(0)
