"""Kafka and ZooKeeper of a demo: the user's own, or embedded ones that start in parallel and live
as long as the run."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self

from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper

_LOOK_SECS: Final = 0.05


class DemoServers:
    """A context manager. The embedded servers begin to start when the block is entered, and are
    killed at its end.

    Their data is useless after the run, so they do not need an orderly shutdown.
    """

    def __init__(
        self, workdir: Path, bootstrap: str | None = None, zookeeper: str | None = None
    ) -> None:
        self._kafka = None if bootstrap else EmbeddedKafka(workdir, quick_start=True)
        self._keeper = None if zookeeper else EmbeddedZooKeeper(workdir)
        self.bootstrap = bootstrap or (self._kafka.bootstrap if self._kafka else "")
        """Kafka's bootstrap servers, which may not be ready yet."""
        self.zookeeper = zookeeper or (self._keeper.connect if self._keeper else "")
        """ZooKeeper's connect string. The server may not be ready yet."""
        self._embedded = [server for server in (self._kafka, self._keeper) if server]
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._starts: list[Future[Any]] = []

    @property
    def processes(self) -> list[ManagedProcess]:
        """The processes of the embedded servers, once they are ready."""
        return [server.process for server in self._embedded]

    def wait(self, on_look: Callable[[float], None]) -> None:
        """Wait until the servers are ready. Raises `LocalError` if one does not start. `on_look`
        receives the share that is ready."""
        while not all(start.done() for start in self._starts):
            for start in self._starts:
                if start.done():
                    start.result()
            on_look(sum(start.done() for start in self._starts) / len(self._starts))
            time.sleep(_LOOK_SECS)
        for start in self._starts:
            start.result()

    def check(self) -> None:
        """Raise `LocalError` if an embedded server has ended unexpectedly."""
        for server in self._embedded:
            server.check()

    def __enter__(self) -> Self:
        self._starts = [self._pool.submit(server.start) for server in self._embedded]
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._embedded:
            server.abandon()
        self._pool.shutdown()
