"""One Kafka and one ZooKeeper per test run, whatever the number of workers.

The servers belong to the process that the user started. It starts each one when a test first asks for it. The workers of
pytest-xdist ask over a local socket and get the address.
"""

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import NoReturn, cast

import pytest

from kstorm.dev.jars import KAFKA_VERSION, kafka_jars
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from tools.kafka_releases import NEW_KAFKA_VERSION, new_kafka_jars

Address = tuple[str, int]

_SETTINGS: Mapping[str, str] = {
    # Hundreds of tests make topics and leave them. Each partition reserves this much for its two indexes.
    "log.index.size.max.bytes": "65536"
}

_START_SECS = 280.0
"""On a very busy machine, Kafka has taken over two minutes. A test's own timeout is 300 s."""


_RELEASES: Mapping[str, Callable[[], Sequence[Path]]] = {
    KAFKA_VERSION: kafka_jars,
    NEW_KAFKA_VERSION: new_kafka_jars,
}


class ServerPool:
    """The servers of a test run. All methods may be called from any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running = ExitStack()
        self._addresses: dict[str, str] = {}
        self._lock = threading.Lock()

    def kafka(self) -> str:
        """Return Kafka's bootstrap address. The first call starts the broker."""
        with self._lock:
            if "kafka" not in self._addresses:
                server = EmbeddedKafka(
                    self._directory,
                    heap="768m",
                    settings=_SETTINGS,
                    start_timeout=_START_SECS,
                    jars=_RELEASES[os.environ.get("KSTORM_TEST_KAFKA") or KAFKA_VERSION],
                ).start()
                self._running.callback(server.kill)  # a clean stop takes up to 20 s
                self._addresses["kafka"] = server.bootstrap
            return self._addresses["kafka"]

    def zookeeper(self) -> str:
        """Return ZooKeeper's connect string. The first call starts the server."""
        with self._lock:
            if "zookeeper" not in self._addresses:
                server = EmbeddedZooKeeper(self._directory, start_timeout=_START_SECS).start()
                self._running.callback(server.kill)
                self._addresses["zookeeper"] = server.connect
            return self._addresses["zookeeper"]

    def close(self) -> None:
        """Stop the servers that run."""
        with self._lock:
            self._running.close()


class _Remote(BaseManager):
    """Hands out the addresses of a `ServerPool` in another process."""


_Remote.register("pool")


class PoolService:
    """Serves a `ServerPool` to the workers of this run.

    It listens on the loopback interface until `close`.
    """

    def __init__(self, directory: Path) -> None:
        self.pool = ServerPool(directory)
        self.key = secrets.token_hex()
        """The key that a worker needs to connect."""

        class Local(BaseManager):
            """Exposes this pool."""

        Local.register("pool", callable=lambda: self.pool, exposed=("kafka", "zookeeper"))
        self._server = Local(("127.0.0.1", 0), authkey=self.key.encode()).get_server()
        self.address = cast(Address, self._server.address)
        threading.Thread(target=self._serve, name="test servers", daemon=True).start()

    def close(self) -> None:
        """Stop the servers. The socket closes with this process."""
        self.pool.close()

    def _serve(self) -> None:
        with suppress(SystemExit):  # the way a manager's server ends
            self._server.serve_forever()


def connect(address: Address, key: str) -> ServerPool:
    """Return the pool of another process; only `kafka` and `zookeeper` can be called."""
    remote = _Remote(address, authkey=key.encode())
    remote.connect()
    return cast(ServerPool, remote.pool())  # type: ignore[attr-defined]


class SharedKafka(EmbeddedKafka):
    """The Kafka that all tests of a run share. A test that stops or kills a broker starts its own."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def process(self) -> ManagedProcess:
        _refuse("Kafka")

    def start(self) -> NoReturn:
        _refuse("Kafka")

    def stop(self, timeout: float = 20.0) -> NoReturn:
        _refuse("Kafka")


class SharedZooKeeper(EmbeddedZooKeeper):
    """The ZooKeeper that all tests of a run share. A test that stops or kills a server starts its own."""

    def __init__(self, connect: str) -> None:
        self._connect = connect

    @property
    def connect(self) -> str:
        return self._connect

    @property
    def process(self) -> ManagedProcess:
        _refuse("ZooKeeper")

    def start(self) -> NoReturn:
        _refuse("ZooKeeper")

    def stop(self, timeout: float = 20.0) -> NoReturn:
        _refuse("ZooKeeper")


def _refuse(name: str) -> NoReturn:
    pytest.fail(f"this {name} is shared by all tests: start one of your own to stop or pause it")
