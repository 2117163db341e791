"""What all suites share: one Kafka and one ZooKeeper for each pytest process, and profiles of Hypothesis.

The servers are on free ports, with logs kept by pytest. `./run test unit --hypothesis-profile=long` tries a hundred
times as many examples.
"""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper

Eventually = Callable[[Callable[[], object], float], None]

# How long an example takes says how busy the machine is.
settings.register_profile("calm", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calm")
settings.register_profile("long", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="session", autouse=True)
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
    with EmbeddedKafka(servers_directory, quick_start=True) as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper(servers_directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """Run a ZooKeeper for all tests of the session; a test that stops or kills it starts its own instead."""
    with EmbeddedZooKeeper(servers_directory) as server:
        yield server


@pytest.fixture
def eventually() -> Eventually:
    """Return a function that waits until a condition is true, and fails after so many seconds."""

    def wait_until(condition: Callable[[], object], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"the condition did not come true within {timeout:g} s"
            time.sleep(0.05)

    return wait_until
