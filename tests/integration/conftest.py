"""What the integration tests share: names and topics that no other test has."""

import re
import uuid
from collections.abc import Iterator

import pytest

from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.chaos.proxy import Proxy
from tests.integration.kafka_topic import Topic


@pytest.fixture
def way(zookeeper: EmbeddedZooKeeper) -> Iterator[Proxy]:
    """A proxy to the session's ZooKeeper, whose connection can be cut; the test itself connects directly."""
    with Proxy() as proxy:
        proxy.target = int(zookeeper.connect.rpartition(":")[2])
        yield proxy
        proxy.heal()


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """Return a name no other test has, for its topics, its topology and its nodes in ZooKeeper."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
    return f"{name[:40].strip('-')}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_prefix: str) -> Iterator[Topic]:
    """Name a topic that no other test has; the test creates it."""
    made = Topic(topic_prefix, kafka)
    yield made
    made.close()
