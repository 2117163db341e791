"""Fixtures and hooks of all suites: the shared servers, the scheduling of tests, and profiles of
Hypothesis.

`./run test unit --hypothesis-profile=long` tries a hundred times as many examples.
"""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.integration.certificates import Authority
from tests.rare_collection import collect_rarely
from tests.scale_stub import ScaleStub
from tests.shared_servers import PoolService, ServerPool, SharedKafka, SharedZooKeeper, connect
from tests.spark_release import use_selected_spark

Eventually = Callable[[Callable[[], object], float], None]

_SERVICE = pytest.StashKey[PoolService]()
_SPARK_SUITES = ("tests/commands/", "tests/pipeline/")

# The duration of an example depends on the load of the machine.
settings.register_profile(
    "calm", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("calm")
settings.register_profile(
    "long", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck)
)


collect_rarely()
use_selected_spark()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", metavar="K/N", help="run every Nth of the selected tests, from number K on"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply `--share`."""
    if share := config.getoption("share"):
        first, step = map(int, share.split("/"))
        chosen = items[first % step :: step]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def pytest_configure_node(node: Any) -> None:
    """Pass the servers' addresses to a worker of pytest-xdist."""
    config: pytest.Config = node.config
    if _SERVICE not in config.stash:
        directory = config._tmp_path_factory.mktemp("servers")  # type: ignore[attr-defined]
        config.stash[_SERVICE] = PoolService(directory)
    service = config.stash[_SERVICE]
    node.workerinput["servers"] = (service.address, service.key)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers that the workers have shared."""
    if _SERVICE in config.stash:
        config.stash[_SERVICE].close()


class FilesInTurn(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker one file at a time. In the first tier a single worker gets all Spark tests."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        one_spark = "not slow" in self.config.getoption("markexpr")
        return "spark" if one_spark and file.startswith(_SPARK_SUITES) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesInTurn:
    return FilesInTurn(config, log)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Restore SIGINT.

    Background jobs of a script ignore it, and the commands under test must not.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerPool]:
    if workerinput := getattr(request.config, "workerinput", None):
        address, key = workerinput["servers"]
        yield connect(tuple(address), key)
    else:
        pool = ServerPool(tmp_path_factory.mktemp("servers"))
        yield pool
        pool.close()


@pytest.fixture(scope="session")
def servers_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for servers of a test's own."""
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def kafka(shared_servers: ServerPool) -> EmbeddedKafka:
    """Return the run's Kafka. A test that stops or kills a broker starts its own."""
    return SharedKafka(shared_servers.kafka())


@pytest.fixture(scope="session")
def zookeeper(shared_servers: ServerPool) -> EmbeddedZooKeeper:
    """Return the run's ZooKeeper. A test that stops or kills a server starts its own."""
    return SharedZooKeeper(shared_servers.zookeeper())


@pytest.fixture
def eventually() -> Eventually:
    """Return a function that waits for a condition and fails after `timeout` seconds."""

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
    """Return the authority of a Kubernetes cluster, and the API server's certificate."""
    authority = Authority(tmp_path_factory.mktemp("cluster"), "cluster")
    return authority, authority.sign("apiserver")


@pytest.fixture
def api_server(
    cluster_certificate: tuple[Authority, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScaleStub]:
    """Return the API server of the cluster that this process is a pod of."""
    with ScaleStub(*cluster_certificate, tmp_path / "serviceaccount") as stub:
        stub.make_this_a_pod(monkeypatch)
        yield stub
