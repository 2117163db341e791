"""What the integration tests share: names and topics that no other test has."""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.zookeeper.topologies import spouts_path
from tests.chaos.proxy import Proxy
from tests.integration.engine import Engine, running
from tests.integration.kafka_topic import Topic

RunTopology = Callable[..., AbstractContextManager[Engine]]


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


@pytest.fixture
def client(zookeeper: EmbeddedZooKeeper, topic_prefix: str) -> Iterator[KazooClient]:
    """Give a client of ZooKeeper that has made the topology's node, as its spouts do."""
    found = KazooClient(zookeeper.connect)
    found.start(30)
    found.ensure_path(spouts_path(topic_prefix))
    yield found
    found.stop()
    found.close()


@pytest.fixture
def run_topology(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> RunTopology:
    """Return a function that runs a topology of `topologies` as `running` does, under a name that no other test has."""

    def run(reference: str, **how: Any) -> AbstractContextManager[Engine]:
        return running(reference, topic_prefix, kafka, zookeeper, tmp_path, monkeypatch, **how)

    return run
