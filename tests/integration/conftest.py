"""Shared fixtures of the integration tests: unique names and topics."""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.zookeeper.topology_nodes import spouts_path
from tests.chaos.proxy import Proxy
from tests.integration.dead_letters import Letters
from tests.integration.engine import Engine, running
from tests.integration.kafka_topic import Topic

RunTopology = Callable[..., AbstractContextManager[Engine]]


@pytest.fixture
def way(zookeeper: EmbeddedZooKeeper) -> Iterator[Proxy]:
    """A proxy to the session's ZooKeeper, which can be cut. The test itself connects directly."""
    with Proxy() as proxy:
        proxy.target = int(zookeeper.connect.rpartition(":")[2])
        yield proxy
        proxy.heal()


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """Return a unique name for the topics, the topology and the ZooKeeper nodes of a test."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
    return f"{name[:40].strip('-')}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_prefix: str) -> Iterator[Topic]:
    """Return a unique topic name. The test creates the topic."""
    made = Topic(topic_prefix, kafka)
    yield made
    made.close()


@pytest.fixture
def letters(kafka: EmbeddedKafka, topic_prefix: str) -> Letters:
    return Letters(kafka, topic_prefix)


@pytest.fixture
def client(zookeeper: EmbeddedZooKeeper, topic_prefix: str) -> Iterator[KazooClient]:
    """A ZooKeeper client. It has created the topology's node, as spouts do."""
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
    """Return a function that runs a topology of `topologies` under a unique name, like `running`."""

    def run(reference: str, **how: Any) -> AbstractContextManager[Engine]:
        return running(reference, topic_prefix, kafka, zookeeper, tmp_path, monkeypatch, **how)

    return run
