"""A `KafkaBolt` without the right to write, on a real broker with an authorizer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kstorm.runtime.kafka.sink import KafkaWriter
from tests.integration.kafka_topic import Topic
from tests.integration.secured import STRANGER, Secured


@pytest.fixture(scope="module")
def secured(servers_directory: Path) -> Iterator[Secured]:
    """A broker with an authorizer."""
    made = Secured(servers_directory / "refusing")
    with made.kafka:
        yield made


def client(secured: Secured) -> dict[str, str]:
    return {
        "bootstrap.servers": secured.kafka.secure("valid"),
        **secured.properties(sasl_username=STRANGER),
    }


@pytest.mark.slow
async def test_idempotent_producer_without_rights_ends_the_process(
    secured: Secured, topic_prefix: str
) -> None:
    """The rejection is final, so no record of it would ever be written."""
    Topic(topic_prefix, secured.kafka).create()
    fatal: list[Exception] = []
    writer = KafkaWriter(client(secured), None, fatal.append)
    failed: list[Any] = []
    async with asyncio.timeout(60):
        while not fatal:  # a tuple that fails is replayed
            count = len(failed)
            writer.write_batch(topic_prefix, ["k"], ["v"], failed.extend)
            while len(failed) == count and not fatal:
                await asyncio.sleep(0.01)
    told = str(fatal[0])
    address = secured.kafka.secure("valid")
    for part in (
        f"topic '{topic_prefix}' of Kafka at {address}",
        "uthorization failed",
        "allow its user WRITE",
    ):
        assert part in told
    assert "scram" not in told
    await writer.close()
    assert not len(writer._producer)
    # A service would have exited. Here confluent-kafka keeps the fatal error and so the client,
    # which would search for the broker and log until the last test.
    writer._producer.close()


@pytest.mark.slow
async def test_topic_without_rights_fails_its_tuples(secured: Secured, topic_prefix: str) -> None:
    """The bolt may write its other topics, so the process continues."""
    allowed, refused = f"{topic_prefix}-allowed", f"{topic_prefix}-refused"
    for name in (allowed, refused):
        Topic(name, secured.kafka).create()
    secured.let_write(STRANGER, allowed)
    fatal: list[Exception] = []
    writer = KafkaWriter(client(secured), {"linger.ms": 0}, fatal.append)
    ends: dict[str, list[Any]] = {}
    for name in (allowed, refused):
        writer.write(
            name,
            b"k",
            b"v",
            lambda error, _, name=name: ends.setdefault(name, []).append(error),  # type: ignore[misc]
        )
    async with asyncio.timeout(60):
        while len(ends) < 2:
            await asyncio.sleep(0.01)
    assert ends[allowed] == [None]
    (error,) = ends[refused]
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert fatal == []
    await writer.close()
