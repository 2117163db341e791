"""No fenced process writes a checkpoint.

The broker rejects all writes of a process that lost its place in the group.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kstorm.core.engine.effects import Transact
from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import FencedError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.checkpoint_writer import CheckpointWriter
from tests.integration.engine import make_topics


class Member:
    """A group member like `TaskConsumer`."""

    def __init__(self, bootstrap: str, topic: str, instance: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "group.instance.id": instance,
                "session.timeout.ms": 6000,
                "log_level": 0,
            }
        )
        self.consumer.subscribe([topic])

    async def joined(self) -> None:
        async with asyncio.timeout(30):
            while not self.consumer.assignment():
                await asyncio.to_thread(self.consumer.poll, 0.1)

    async def group_metadata(self, *, anew: bool = False) -> Any:
        return self.consumer.consumer_group_metadata()


@asynccontextmanager
async def process(
    kafka: EmbeddedKafka, topic: str, instance: str, name: str, **settings: Any
) -> AsyncIterator[CheckpointWriter]:
    """A process with tasks. `instance` is its place in the group, `name` the name of its producer.

    `settings` are those of the producer.
    """
    member: Any = Member(kafka.bootstrap, topic, instance)
    await member.joined()
    known: dict[str, Any] = {
        "topology": "a:b",
        "bootstrap_servers": kafka.bootstrap,
        "instance": name,
        **settings,
    }
    writer = CheckpointWriter(Settings(**known), topic, topic, member)
    await writer.open()
    try:
        yield writer
    finally:
        writer.close()
        member.consumer.close()


@pytest.fixture
def topics(kafka: EmbeddedKafka, topic_prefix: str) -> tuple[str, str]:
    """Create an input topic and a changelog."""
    names = f"{topic_prefix}-in", f"{topic_prefix}-changelog"
    make_topics(kafka.bootstrap, dict.fromkeys(names, 1))
    return names


def committed(kafka: EmbeddedKafka, changelog: str, group: str) -> tuple[list[bytes | None], int]:
    """Return the values that a recovery would read, and the group's offset."""
    reader = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    reader.assign([TopicPartition(changelog, 0, 0)])
    values = []
    while True:
        message = reader.poll(10)
        assert message is not None
        if message.error() is not None:
            break
        values.append(message.value())
    offset = reader.committed([TopicPartition(group, 0)], 30)[0].offset
    reader.close()
    return values, offset


def counted(writer: CheckpointWriter) -> dict[str, float]:
    """Return the samples of `/metrics`."""
    return {name: value for name, _, value, _ in writer.samples()}


@pytest.mark.parametrize(
    ("zombie", "heir"),
    [
        pytest.param("first", "second", id="its place in the group is another's"),
        pytest.param("first", "first", id="its name is another's"),
    ],
)
async def test_replaced_process_writes_nothing(
    kafka: EmbeddedKafka, topics: tuple[str, str], zombie: str, heir: str
) -> None:
    """It writes neither to the changelog nor an offset.

    Its earlier writes stay, and only they are counted.
    """
    topic, changelog = topics
    async with process(kafka, topic, "place", zombie) as old:
        assert await old.write(changelog, Transact({0: [(b"k", b"1")]}, {0: 1})) == {0: 0}
        async with process(kafka, topic, "place", heir) as new:
            await new.write(changelog, Transact({0: [(b"k", b"2")]}, {0: 2}))
            with pytest.raises(FencedError, match="another process has its tasks now"):
                await old.write(changelog, Transact({0: [(b"k", b"stale")]}, {0: 1}))
            await new.write(changelog, Transact({0: [(b"k", b"3"), (b"l", None)]}, {0: 3}))
            of_old, of_new = counted(old), counted(new)
            assert (of_old["changelog_records_total"], of_old["changelog_bytes_total"]) == (1, 2)
            assert (of_new["changelog_records_total"], of_new["changelog_bytes_total"]) == (3, 5)
            assert (of_old["transactions_total"], of_new["transactions_total"]) == (1, 2)
        assert committed(kafka, changelog, topic) == ([b"1", b"2", b"3", None], 3)
