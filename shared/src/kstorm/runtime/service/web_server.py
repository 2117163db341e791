"""A service's web server: Faust's, without its default pages, and with limits on the resources that
a client can occupy.

A connection serves one request. Probes and Prometheus use a new connection each time.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import faust
from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError
from faust.web.drivers.aiohttp import Web

from kstorm.runtime.base import open_port
from kstorm.runtime.faust_private import runner_of

_HEADERS = 64
"""Most headers of a request, each of at most 8 kB. This halves what aiohttp would store for an
endless request."""
_BACKLOG = 128


@dataclass(frozen=True)
class WebLimits:
    """Limits for clients that do not send their request or do not read the response."""

    seconds: float = 10.0
    """Lifetime of a connection. After that time the connection is aborted in any state."""

    connections: int = 64
    """Most open connections. One more connection aborts the oldest one. If the new one were
    rejected instead, a client could lock out the probes."""


class Connections:
    """The open connections, oldest first."""

    def __init__(self, limits: WebLimits) -> None:
        self._limits = limits
        self._open: dict[asyncio.Transport, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, transport: asyncio.Transport) -> None:
        """Start a connection's timer, and abort the oldest connection if there are too many."""
        self._open[transport] = asyncio.get_running_loop().call_later(
            self._limits.seconds, self._cut, transport
        )
        if len(self._open) > self._limits.connections:
            self._cut(next(iter(self._open)))

    def remove(self, transport: asyncio.Transport) -> None:
        """Forget a connection that has ended."""
        if timer := self._open.pop(transport, None):
            timer.cancel()

    def _cut(self, transport: asyncio.Transport) -> None:
        self.remove(transport)
        # `close` would wait forever for a client that does not read.
        transport.abort()


class _HttpConnection(web.RequestHandler):
    """Registers itself, does not wait for a request body, and logs no stack trace for malformed
    requests."""

    __slots__ = ("_connections", "_own")

    def __init__(self, server: web.Server, connections: Connections) -> None:
        no_log: Any = None
        loop = asyncio.get_running_loop()
        super().__init__(
            server, loop=loop, access_log=no_log, lingering_time=0, max_headers=_HEADERS
        )
        self._connections = connections
        self._own: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._own = cast(asyncio.Transport, transport)
        self._connections.add(self._own)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self._own)
        super().connection_lost(exc)

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        if not isinstance(kwargs.get("exc_info"), HttpProcessingError | web.RequestPayloadError):
            super().log_exception(*args, **kwargs)


async def listen(
    runner: web.AppRunner, connections: Connections, host: str, port: int
) -> list[asyncio.Server]:
    """Serve a runner within the limits of `connections`. Raises `OSError` if the port is in use.

    A process that was re-executed serves the port that it has kept open.
    """
    await runner.setup()
    server = runner.server
    assert server is not None
    loop = asyncio.get_running_loop()

    def serve() -> _HttpConnection:
        return _HttpConnection(server, connections)

    if kept := open_port.take():
        return [await loop.create_server(serve, sock=each, backlog=_BACKLOG) for each in kept]
    listening = await loop.create_server(serve, host, port, backlog=_BACKLOG)
    open_port.keep(each.fileno() for each in listening.sockets)
    return [listening]


async def end_with_it(_request: web.Request, response: web.StreamResponse) -> None:
    """Close the connection after its first response, as a handler for aiohttp's
    `on_response_prepare`."""
    response.force_close()
    response.headers[hdrs.CONNECTION] = "close"


class PageServer(Web):  # type: ignore[misc]
    """Serves only the pages that were added to the app."""

    # replaces Faust's pages: tables, routes, statistics
    default_blueprints: ClassVar[tuple[()]] = ()
    production_blueprints: ClassVar[tuple[()]] = ()
    debug_blueprints: ClassVar[tuple[()]] = ()
    optional_blueprints: ClassVar[tuple[()]] = ()

    def __init__(self, app: faust.App, limits: WebLimits) -> None:
        super().__init__(app)
        self.connections = Connections(limits)
        self._listening: list[asyncio.Server] = []
        self.web_app.on_response_prepare.append(end_with_it)

    async def start_server(self) -> None:
        conf = self.app.conf
        self._listening = await listen(
            runner_of(self), self.connections, conf.web_bind, conf.web_port
        )

    async def stop_server(self) -> None:
        # Requests that are being served can finish.
        open_port.close()
        for each in self._listening:
            each.close()
        await super().stop_server()
