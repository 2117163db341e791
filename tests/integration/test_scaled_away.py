"""A stopped pod of a StatefulSet: if it was scaled away, its tasks move at once. Otherwise it keeps
them.

The session is so long that a test which waits for its end fails.
"""

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kstorm.dev.servers import EmbeddedKafka
from kstorm.runtime.kafka.consumer import TaskConsumer
from tests.integration.engine import make_topics
from tests.integration.test_consumer import Owner, member
from tests.scale_stub import ScaleStub

SESSION_SECS, SOON_SECS = 120, 30
SET, TASKS = "wc-count", {0, 1, 2, 3}


class Pods:
    """The pods of one StatefulSet, by number."""

    def __init__(self, kafka: EmbeddedKafka, group: str) -> None:
        self._bootstrap, self._group = kafka.bootstrap, group
        self.running: dict[int, TaskConsumer] = {}

    def start(self, number: int) -> TaskConsumer:
        instance = f"{SET}-{number}"
        self.running[number] = member(
            self._bootstrap,
            self._group,
            Owner(),
            instance=instance,
            session_secs=SESSION_SECS,
            stateful_set=SET,
        )
        return self.running[number]

    async def stop(self, number: int) -> None:
        """Stop it like SIGTERM, and wait for its end."""
        await asyncio.to_thread(self.running.pop(number).stop)


@asynccontextmanager
async def two_pods(kafka: EmbeddedKafka, api_server: ScaleStub, group: str) -> AsyncIterator[Pods]:
    """Start two pods that share the tasks."""
    make_topics(kafka.bootstrap, {group: len(TASKS)})
    pods, api_server.replicas = Pods(kafka, group), {SET: 2}
    try:
        first, second = pods.start(0), pods.start(1)
        await until(lambda: len(first.assignment) == len(second.assignment) == 2, 60)
        yield pods
    finally:
        for number in list(pods.running):
            await pods.stop(number)


async def until(condition: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def place(consumer: TaskConsumer) -> bytes:
    """Return a member's id and generation in the group."""
    return pickle.dumps(await consumer.group_metadata(anew=True))


async def test_tasks_of_a_pod_scaled_away_move_at_once(
    kafka: EmbeddedKafka, topic_prefix: str, api_server: ScaleStub
) -> None:
    """This is long before the end of its session."""
    async with two_pods(kafka, api_server, topic_prefix) as pods:
        api_server.replicas[SET] = 1
        await pods.stop(1)
        await until(lambda: pods.running[0].assignment == TASKS, SOON_SECS)


@pytest.mark.slow
async def test_restarted_pod_keeps_its_tasks_without_a_rebalance(
    kafka: EmbeddedKafka, topic_prefix: str, api_server: ScaleStub
) -> None:
    """The generation of the group stays the same."""
    async with two_pods(kafka, api_server, topic_prefix) as pods:
        its_tasks, generation = set(pods.running[1].assignment), await place(pods.running[0])
        await pods.stop(1)
        back = pods.start(1)
        await until(lambda: back.assignment == its_tasks, SOON_SECS)
        assert await place(pods.running[0]) == generation
        assert pods.running[0].assignment == TASKS - its_tasks


@pytest.mark.slow
async def test_pod_scaled_away_and_back_takes_its_share(
    kafka: EmbeddedKafka, topic_prefix: str, api_server: ScaleStub
) -> None:
    """It left the group, so it joins like a new one."""
    async with two_pods(kafka, api_server, topic_prefix) as pods:
        api_server.replicas[SET] = 1
        await pods.stop(1)
        api_server.replicas[SET] = 2
        back = pods.start(1)
        await until(lambda: len(back.assignment) == len(pods.running[0].assignment) == 2, SOON_SECS)
