"""The HTTP pages of a run: `/metrics`, `/livez`, `/readyz`."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from kstorm_pipeline.errors import PipelineError
from kstorm_pipeline.monitor.web_server import ConnectionLimits, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

    from kstorm_pipeline.monitor.monitor import Monitor

logger = logging.getLogger(__name__)

_TEXT = "text/plain; charset=utf-8"
_LIMITS = ConnectionLimits()


@contextmanager
def serving(
    monitor: Monitor, port: int, limits: ConnectionLimits = _LIMITS
) -> Iterator[WebServer | None]:
    """Serve the pages on all addresses for the duration of the block. Port 0 serves nothing.

    Raises PipelineError if the port is taken.
    """
    if not port:
        yield None
        return
    try:
        server = WebServer(port, MonitorPages(monitor), limits)
    except OSError as error:
        raise PipelineError(
            f"--http-port {port} cannot be served: {error.strerror or error}; "
            "give another, or 0 for none"
        ) from None
    threading.Thread(target=server.serve, name="pages", daemon=True).start()
    logger.info("serving metrics on port %d", port)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class MonitorPages:
    """The WSGI application."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def __call__(self, environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        status, kind, body = self._answer(environment["PATH_INFO"])
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    def _answer(self, path: str) -> tuple[str, str, bytes]:
        if path == "/metrics":
            return "200 OK", CONTENT_TYPE_PLAIN_0_0_4, self._monitor.metrics.text()
        if path == "/livez":
            return _told(self._monitor.stalled)
        if path == "/readyz":
            return _told(self._monitor.not_ready)
        return "404 Not Found", _TEXT, b"there are /metrics, /livez and /readyz\n"


def _told(problem: str | None) -> tuple[str, str, bytes]:
    return (
        "503 Service Unavailable" if problem else "200 OK",
        _TEXT,
        f"{problem or 'ok'}\n".encode(),
    )
