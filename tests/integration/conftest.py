"""Real servers for the integration tests: one Kafka and one ZooKeeper a session, on free ports, with logs kept by pytest."""

import re
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstorm.local.chaos.proxy import Proxy
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.integration.kafka_topic import Topic

Eventually = Callable[[Callable[[], object], float], None]


@pytest.fixture(autouse=True)
def interruptible() -> None:
    """What a script starts in the background ignores Ctrl-C, and its children inherit that; commands here must not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def servers_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the session's servers a directory for their data and logs."""
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def kafka(servers_directory: Path) -> Iterator[EmbeddedKafka]:
    """Run a Kafka for all tests of the session; a test that stops or kills it starts its own instead."""
    with EmbeddedKafka(servers_directory) as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper(servers_directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """Run a ZooKeeper for all tests of the session; a test that stops or kills it starts its own instead."""
    with EmbeddedZooKeeper(servers_directory) as server:
        yield server


@pytest.fixture
def way(zookeeper: EmbeddedZooKeeper) -> Iterator[Proxy]:
    """Give a way to the session's ZooKeeper that can be cut, while the test itself goes the straight one."""
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
def eventually() -> Eventually:
    """Return a function that waits until a condition is true, and fails after so many seconds."""

    def wait_until(condition: Callable[[], object], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"the condition did not come true within {timeout:g} s"
            time.sleep(0.05)

    return wait_until
