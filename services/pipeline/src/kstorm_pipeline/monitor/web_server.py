"""The web server of a run. It limits the connections of its clients, because each open connection
occupies a thread."""

from __future__ import annotations

import io
import logging
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, LineTooLong
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

logger = logging.getLogger(__name__)

_HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits for a client that doesn't send its request or doesn't read the response."""

    seconds: float = 10.0
    """Maximum age of a connection. Then it is closed, whatever its state."""

    connections: int = 64
    """Maximum open connections. A further connection closes the oldest. If it were rejected
    instead, a client could lock out the probes."""


class WebServer(ThreadingMixIn, WSGIServer):
    """A web server on which a slow client delays no other, and is cut off after a while."""

    daemon_threads = True
    # With the default of 5, a few simultaneous connections make a probe wait for seconds.
    request_queue_size = 128

    def __init__(self, port: int, application: WSGIApplication, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}
        super().__init__(("", port), _Handler)
        self.set_app(application)

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._open)

    def serve(self) -> None:
        """Serve until `shutdown`."""
        self.serve_forever(min(0.5, self._limits.seconds / 4))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a connection's time limit, and close the oldest if there are too many."""
        with self._lock:
            self._open[request] = time.monotonic()
            if len(self._open) > self._limits.connections:
                self._cut(next(iter(self._open)))
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections that are too old. `serve_forever` calls this at least once per poll."""
        with self._lock:
            since = time.monotonic() - self._limits.seconds
            for request in [each for each, begun in self._open.items() if begun < since]:
                self._cut(request)

    def close_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log errors of pages, but not connections that were cut or malformed requests."""
        error = sys.exception()
        if not isinstance(error, OSError | HTTPException):
            logger.error("a page failed", exc_info=error)

    def _cut(self, request: socket.socket) -> None:
        del self._open[request]
        with suppress(OSError):  # the client has closed it already
            request.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it


class _Handler(WSGIRequestHandler):
    """Limits the size of a request's head. Health probes and malformed requests are not logged."""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Head(self.rfile))

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class _Head(io.RawIOBase):
    """A connection's input, limited to a request head's size. http.client would store 6 MB."""

    def __init__(self, sent: io.BufferedIOBase) -> None:
        self._sent, self._left = sent, _HEAD_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raise LineTooLong over the limit. http.server responds with status 431."""
        if not self._left:
            raise LineTooLong("the head of a request")
        data = self._sent.read1(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)

    def close(self) -> None:
        """Close the connection's file too."""
        self._sent.close()
        super().close()
