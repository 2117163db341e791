"""The web server of a run, with bounds to what a stranger can hold of it: each open connection is a thread."""

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
class WebLimits:
    """What one who does not send his request, or does not take the answer, can hold."""

    seconds: float = 10.0
    """From the moment that a connection is made to its end: then it is cut, whatever state it is in."""

    connections: int = 64
    """Open at a time. One more, and the oldest is cut: to turn the new one away would let a stranger shut the probes out."""


class WebServer(ThreadingMixIn, WSGIServer):
    """A client that is slow holds up no other, and not for long."""

    daemon_threads = True
    request_queue_size = (
        128  # of 5, as is usual, a few connections at once leave a probe waiting for seconds
    )

    def __init__(self, port: int, application: WSGIApplication, limits: WebLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}
        super().__init__(("", port), _Handler)
        self.set_app(application)

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    def serve(self) -> None:
        """Serve until `shutdown`."""
        self.serve_forever(min(0.5, self._limits.seconds / 4))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin the time of a connection, and cut the oldest if there is one too many."""
        with self._lock:
            self._open[request] = time.monotonic()
            if len(self._open) > self._limits.connections:
                self._cut(next(iter(self._open)))
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Cut what is too old; called between requests, at least at each turn of `serve`."""
        with self._lock:
            since = time.monotonic() - self._limits.seconds
            for request in [each for each, begun in self._open.items() if begun < since]:
                self._cut(request)

    def close_request(self, request: Any) -> None:
        """Close a connection that has ended."""
        with self._lock:
            self._open.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that was cut, or of what is no HTTP."""
        error = sys.exception()
        if not isinstance(error, OSError | HTTPException):
            logger.error("a page failed", exc_info=error)

    def _cut(self, request: socket.socket) -> None:
        del self._open[request]
        with suppress(OSError):  # it has ended by itself
            request.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it


class _Handler(WSGIRequestHandler):
    """A probe every few seconds is nothing for the log, and neither is what is no HTTP."""

    def setup(self) -> None:
        """Read no more than the head of a request may have."""
        super().setup()
        self.rfile = io.BufferedReader(_Head(self.rfile))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Head(io.RawIOBase):
    """What a connection sends, refused from where it is too much for the head of a request: http.client would keep 6 MB."""

    def __init__(self, sent: io.BufferedIOBase) -> None:
        self._sent, self._left = sent, _HEAD_BYTES

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some; raises LineTooLong, which http.server answers with 431."""
        if not self._left:
            raise LineTooLong("the head of a request")
        data = self._sent.read1(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)

    def close(self) -> None:
        """Close the connection's file as well."""
        self._sent.close()
        super().close()
