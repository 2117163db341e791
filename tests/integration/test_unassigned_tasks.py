"""Tasks move in two rounds. A process that is killed between them and restarted under its name
starts no second round.

Kafka sends it the result of the first round, in which its revoked tasks have no owner.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kstorm.dev.servers import EmbeddedKafka
from kstorm.runtime.kafka.consumer import TaskConsumer
from tests.integration.engine import make_topics
from tests.integration.test_consumer import Owner, member
from tests.integration.test_scaled_away import until

TASKS = {0, 1, 2, 3}
SESSION_SECS = 30


@asynccontextmanager
async def hanging_member(
    kafka: EmbeddedKafka, topic: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a member with all tasks."""
    arguments = "-m", "tests.integration.hanging_member", kafka.bootstrap, topic, "count-0"
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
    )
    try:
        await says(process, f"has {len(TASKS)}")
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()


async def says(process: asyncio.subprocess.Process, text: str) -> None:
    """Wait until the process has printed this text."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while text not in (line := (await process.stdout.readline()).decode()):
            assert line, f"it has ended, and not said {text!r}"


@pytest.mark.slow
async def test_revoked_tasks_of_a_killed_process_get_an_owner(
    kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """Nothing else would make the group distribute its tasks again."""
    make_topics(kafka.bootstrap, {topic_prefix: len(TASKS)})
    members: list[TaskConsumer] = []
    try:
        async with hanging_member(kafka, topic_prefix) as dying:
            members.append(
                member(
                    kafka.bootstrap,
                    topic_prefix,
                    Owner(),
                    instance="count-1",
                    session_secs=SESSION_SECS,
                )
            )
            await says(dying, "revoking")
        members.append(
            member(
                kafka.bootstrap,
                topic_prefix,
                Owner(),
                instance="count-0",
                session_secs=SESSION_SECS,
            )
        )
        await until(lambda: members[0].joined and members[1].joined, 60)
        await until(
            lambda: members[0].assignment | members[1].assignment == TASKS, 3 * SESSION_SECS
        )
    finally:
        for each in members:
            await asyncio.to_thread(each.stop)
