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
from tests.integration.certificates import Authority
from tests.scale_stub import ScaleStub

Eventually = Callable[[Callable[[], object], float], None]

# How long an example takes says how busy the machine is.
settings.register_profile(
    "calm", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("calm")
settings.register_profile(
    "long", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck)
)


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
            assert time.monotonic() < deadline, (
                f"the condition did not come true within {timeout:g} s"
            )
            time.sleep(0.05)

    return wait_until


@pytest.fixture(scope="session")
def cluster_certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Path]:
    """Give the authority of a Kubernetes cluster, and the API server's certificate."""
    authority = Authority(tmp_path_factory.mktemp("cluster"), "cluster")
    return authority, authority.sign("apiserver")


@pytest.fixture
def api_server(
    cluster_certificate: tuple[Authority, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScaleStub]:
    """Give the API server of the cluster that this process is a pod of."""
    with ScaleStub(*cluster_certificate, tmp_path / "serviceaccount") as stub:
        stub.make_this_a_pod(monkeypatch)
        yield stub
