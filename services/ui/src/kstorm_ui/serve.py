"""Runs the web UI: opens its source, binds its port, prints its URL, and serves until it is
stopped."""

import socket
from collections.abc import Callable, Set
from math import inf
from time import monotonic
from typing import Final

import uvicorn

from kstorm.errors import ConfigError, KstormError
from kstorm.operations.kubernetes.cluster import open_cluster
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.broker_reachability import check_reachable
from kstorm.runtime.kafka.lag import LagReader, Lags
from kstorm_ui.app import make_app
from kstorm_ui.collector import Collector
from kstorm_ui.site import Site
from kstorm_ui.sources.kubernetes import KubernetesSource
from kstorm_ui.sources.local import LocalSource
from kstorm_ui.sources.report import ReportSource, TopologyReport
from kstorm_ui.ui_settings import UiSettings, settings_of

_STOP_SECS: Final = 3
_SILENT_SECS: Final = 30.0
_VIEWERS: Final = 256
"""Maximum number of connections. Further ones get a 503."""


def serve(settings: UiSettings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises `KstormError` if it cannot start."""
    collector = Collector(_source(settings), LagOfAll())
    server = UiServer(
        collector,
        settings.token(),
        settings.user_header,
        settings.shows_values,
        settings.actions,
        show_logs=settings.shows_logs,
    )
    listener = _listen(settings)
    host, port = listener.getsockname()[:2]
    say(f"the web UI is at http://{'localhost' if host == '127.0.0.1' else host}:{port}/")
    server.run(sockets=[listener])


class UiServer(uvicorn.Server):
    """Serves the web UI. At its end it disconnects all viewers, because uvicorn would wait for
    them."""

    def __init__(
        self,
        collector: Collector,
        token: str,
        user_header: str,
        show_values: bool = False,
        actions: Set[str] = frozenset(),
        *,
        show_logs: bool = False,
    ) -> None:
        self._site = Site(collector, show_values, actions, show_logs=show_logs)
        super().__init__(
            uvicorn.Config(
                make_app(self._site, token, user_header),
                log_level="warning",
                access_log=False,
                server_header=False,
                limit_concurrency=_VIEWERS,
                timeout_graceful_shutdown=_STOP_SECS,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._site.close()
        await self._site.collector.stop()
        await super().shutdown(sockets)


def _source(settings: UiSettings) -> ReportSource:
    if settings.runs is not None:
        if not settings.runs.is_dir():
            raise ConfigError(
                f"--runs {settings.runs}: the folder does not exist; "
                "start a topology with kstorm dev"
            )
        return LocalSource(settings.runs)
    cluster = open_cluster(settings.namespace, settings.context)
    return KubernetesSource(cluster, inside=not cluster.context)


def _listen(settings: UiSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        # the URL is printed now, so connections must be able to wait until the server is up
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen at {settings.host}:{settings.port} ({error.strerror}): "
            "give another --port, or 0 for any free one"
        ) from None
    return listener


class LagOfAll:
    """Queries each topology's Kafka for lag.

    Raises `NoBrokerError` if no broker can be connected to. A Kafka that does not respond otherwise
    leaves its lags unknown. It is not queried again for half a minute, because each poll would wait
    for it.
    """

    def __init__(self) -> None:
        self._clients: dict[str, LagReader] = {}
        self._silent: dict[str, float] = {}
        self._tasks: dict[str, dict[str, int]] = {}

    def __call__(self, report: TopologyReport) -> Lags:
        settings = settings_of(report.bootstrap, report.zookeeper)
        if settings is None:
            return {}
        check_reachable(settings)
        if monotonic() - self._silent.get(settings.bootstrap_servers, -inf) < _SILENT_SECS:
            return {}
        told = {
            process.component: int(process.status["num_tasks"])
            for process in report.processes
            if process.status is not None
            and "num_tasks" in process.status
            and process.status.get("kind") != "spout"
        }
        if not told:  # the processes are waiting for Kafka themselves
            return {}
        # This includes records that wait for a component without processes.
        tasks = self._tasks[report.name] = {**self._tasks.get(report.name, {}), **told}
        try:
            found = self._client(settings).of(report.name, tasks)
        except KstormError:
            found = {}
        if not found:
            self._silent[settings.bootstrap_servers] = monotonic()
        return found

    def _client(self, settings: Settings) -> LagReader:
        if settings.bootstrap_servers not in self._clients:
            self._clients[settings.bootstrap_servers] = LagReader(settings)
        return self._clients[settings.bootstrap_servers]
