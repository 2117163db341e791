"""A consumer that Kafka has fenced ends its process.

Otherwise the process would be ready and read nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import Message, Producer

from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import FencedError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.undecodable import UndecodableRange
from tests.integration.engine import make_topics


class Owner:
    """An owner of tasks without work."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.fault: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        """Called by the consumer's thread."""
        self.fault.get_loop().call_soon_threadsafe(self.fault.set_result, error)

    async def assigned(self, committed: Mapping[int, int]) -> None:
        self.ready.set()

    async def revoked(self, partitions: Sequence[int]) -> None:
        """Do nothing."""

    async def lost(self, partitions: Sequence[int]) -> None:
        """Do nothing."""

    def deliver(self, records: list[Message]) -> None:
        """Drop the records."""

    def pass_over(self, partition: int, batch: UndecodableRange) -> None:
        """Do nothing: there are no such batches."""


def member(
    bootstrap: str,
    topic: str,
    owner: Owner,
    *,
    instance: str = "count-0",
    session_secs: int = 6,
    **settings: Any,
) -> TaskConsumer:
    """Return a process of a component. All of them have one name, and possibly other settings."""
    consumer = TaskConsumer(
        Settings(topology="a:b", bootstrap_servers=bootstrap, instance=instance, **settings),
        topic=topic,
        group=topic,
        session_timeout_ms=session_secs * 1000,
        revoke_secs=1,
        owner=owner,
        loop=asyncio.get_running_loop(),
        fatal=owner.fail,
        log=structlog.get_logger(),
    )
    consumer.start()
    return consumer


async def test_second_process_with_the_same_name_ends_the_first(
    kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """Kafka fences it, and librdkafka reports this as an error among the records."""
    make_topics(kafka.bootstrap, {topic_prefix: 1})
    first, second = Owner(), Owner()
    consumers = []
    try:
        async with asyncio.timeout(60):
            for owner in (first, second):
                consumers.append(member(kafka.bootstrap, topic_prefix, owner))
                await owner.ready.wait()
            fault = await first.fault
        assert isinstance(fault, FencedError)
        assert "another process runs as 'count-0'" in str(fault)
        assert "KSTORM_INSTANCE" in str(fault)
        assert not second.fault.done()
        assert consumers[1].assignment == {0}
    finally:
        for consumer in consumers:
            await asyncio.to_thread(consumer.stop)


async def test_open_transaction_is_reported_until_it_ends(
    kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """The waiting process reports it."""
    make_topics(kafka.bootstrap, {topic_prefix: 1})
    dead = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic_prefix})
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(topic_prefix, b"x", partition=0)
    assert dead.flush(30) == 0
    owner = Owner()
    consumer = member(kafka.bootstrap, topic_prefix, owner)
    try:
        async with asyncio.timeout(60):
            await owner.ready.wait()
            consumer.ready(0)
            while not consumer.transactions.problem():
                await asyncio.sleep(0.05)
            assert (
                f"topic {topic_prefix} partition 0: a transaction has been open"
                in consumer.transactions.problem()
            )
            dead.abort_transaction(30)
            while consumer.transactions.problem():
                await asyncio.sleep(0.05)
    finally:
        await asyncio.to_thread(consumer.stop)
