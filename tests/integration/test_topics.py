"""The topics that a topology makes, and those that it refuses."""

import asyncio
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.core.state import MAX_PAIR_BYTES, TaskState
from kstorm.errors import TopicError
from kstorm.local.servers import EmbeddedKafka
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.topic_settings import CHANGELOG, plans
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.runtime.service.settings import Settings
from kstorm.topology import Topology
from tests.integration import topologies
from tests.integration.engine import make_topics
from tests.integration.recovering import checkpoint, make_table
from tests.integration.test_fencing import process


@pytest.fixture
def topology(topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """Build one with a stateful bolt."""
    monkeypatch.setenv("KSTORM_TEST_PREFIX", topic_prefix)
    return topologies.wordcount()


def make(kafka: EmbeddedKafka, topic: str, partitions: int, **settings: str) -> None:
    """A topic that somebody else made."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    config = {**CHANGELOG, **{name.replace("_", "."): value for name, value in settings.items()}}
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)


def test_the_broker_has_them_as_planned(kafka: EmbeddedKafka, topology: Topology) -> None:
    """Every setting of every topic; dead letters stay for ever."""
    settings = Settings(topology="a:b", bootstrap_servers=kafka.bootstrap)
    ensure_topics(topology, settings)
    planned = plans(topology, 1)
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
def test_a_changelog_that_would_lose_state_is_refused(
    kafka: EmbeddedKafka, topology: Topology, changed: dict[str, str], message: str
) -> None:
    """Somebody else made it; the message says what to do."""
    (name, count), *_ = topology.changelogs().items()
    make(kafka, name, count, **changed)
    with pytest.raises(TopicError, match=f"{name}.*{message}"):
        ensure_topics(topology, Settings(topology="a:b", bootstrap_servers=kafka.bootstrap))


def test_a_changelog_that_somebody_made_as_it_must_be_is_taken(
    kafka: EmbeddedKafka, topology: Topology
) -> None:
    """It is not made again."""
    for name, count in topology.changelogs().items():
        make(kafka, name, count)
    created = ensure_topics(
        topology, Settings(topology="a:b", bootstrap_servers=kafka.bootstrap)
    ).created
    assert set(created) == set(topology.topics())


async def test_the_largest_value_that_put_takes_can_be_stored(
    kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path
) -> None:
    """By the client, by the broker, on the disk, and it comes back."""
    topic, changelog = f"{topic_prefix}-in", f"{topic_prefix}-changelog"
    make_topics(kafka.bootstrap, {topic: 1})
    await asyncio.to_thread(make, kafka, changelog, 1)
    state = TaskState(lambda key: None, lambda start: ())
    value = b"x" * (
        MAX_PAIR_BYTES - 4 * 3 - 5
    )  # the key's share, and what MessagePack puts in front
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
