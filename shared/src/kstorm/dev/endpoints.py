"""Kafka and ZooKeeper for one run: the user's own servers, or embedded ones that live as long as
the run."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from kstorm.dev.embedded_server import EmbeddedServer
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.errors import BrokerError

_CONNECT_SECS = 15.0


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of the servers of a run."""

    bootstrap: str
    """Kafka's bootstrap servers."""
    zookeeper: str
    """ZooKeeper's connect string."""
    servers: tuple[EmbeddedServer, ...] = ()
    """The embedded servers."""

    @property
    def embedded(self) -> tuple[ManagedProcess, ...]:
        """Processes of the embedded servers."""
        return tuple(server.process for server in self.servers)

    def look_after(self, say: Callable[[str], None]) -> None:
        """Start embedded servers again that have ended. `say` receives the reason.

        Raises `ServerEndedError` if a server cannot be started again.
        """
        for server in self.servers:
            server.look_after(say)


@contextmanager
def open_endpoints(
    workdir: Path,
    bootstrap: str | None = None,
    zookeeper: str | None = None,
    kafka_settings: dict[str, str] | None = None,
) -> Iterator[Endpoints]:
    """Start each server that is not given, in parallel, and stop it at the end.

    `kafka_settings` are broker settings of an embedded Kafka. Raises `LocalError` if a server does
    not start.
    """
    kafka = None if bootstrap else EmbeddedKafka(workdir, settings=kafka_settings)
    keeper = None if zookeeper else EmbeddedZooKeeper(workdir)
    with ThreadPoolExecutor(1) as pool:
        try:
            started = pool.submit(keeper.start) if keeper is not None else None
            if kafka is not None:
                kafka.start()
            if started is not None:
                started.result()
            yield Endpoints(
                bootstrap or (kafka.bootstrap if kafka is not None else ""),
                zookeeper or (keeper.connect if keeper is not None else ""),
                tuple(server for server in (kafka, keeper) if server is not None),
            )
        finally:
            for server in (kafka, keeper):
                if server is not None:
                    server.stop()


@contextmanager
def zookeeper_client(connect: str) -> Iterator[KazooClient]:
    """Yield a connected client. Raises `BrokerError` if ZooKeeper does not respond."""
    try:
        client = KazooClient(connect, timeout=10.0)
        client.start(timeout=_CONNECT_SECS)
    except (KazooTimeoutError, KazooException, ValueError) as error:
        raise BrokerError(
            f"ZooKeeper does not answer at {connect!r} ({error}): is it running, and is the address right?"
        ) from None
    try:
        yield client
    finally:
        client.stop()
        client.close()
