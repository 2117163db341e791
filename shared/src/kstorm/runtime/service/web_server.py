"""A service's web server: Faust's, without the pages that Faust brings, and with bounds to what a stranger can hold.

A connection is for one request. Probes and Prometheus ask, are answered at once, and come again on another.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import faust
from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError
from faust.web.drivers.aiohttp import Web

_HEADERS = 64
"""Of a request, each of at most 8 kB: half of what aiohttp would keep for one who sends them without end."""


@dataclass(frozen=True)
class WebLimits:
    """What one who does not send his request, or does not take the answer, can hold."""

    seconds: float = 10.0
    """From the moment that a connection is made to its end: then it is cut, whatever state it is in."""

    connections: int = 64
    """Open at a time. One more, and the oldest is cut: to turn the new one away would let a stranger shut the probes out."""


class Connections:
    """Those that are open, the oldest first."""

    def __init__(self, limits: WebLimits) -> None:
        self._limits = limits
        self._open: dict[asyncio.Transport, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, transport: asyncio.Transport) -> None:
        """Begins the time of a connection, and cuts the oldest if there is one too many."""
        self._open[transport] = asyncio.get_running_loop().call_later(
            self._limits.seconds, self._cut, transport
        )
        if len(self._open) > self._limits.connections:
            self._cut(next(iter(self._open)))

    def remove(self, transport: asyncio.Transport) -> None:
        """A connection has ended."""
        if timer := self._open.pop(transport, None):
            timer.cancel()

    def _cut(self, transport: asyncio.Transport) -> None:
        self.remove(transport)
        transport.abort()  # a mere close would wait for ever for one who does not read


class _Connection(web.RequestHandler):
    """Counts itself, waits for no body, and makes no stack trace of what is no HTTP."""

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
) -> asyncio.Server:
    """Serves what a runner has, within the limits of `connections`; raises `OSError` if the port is taken."""
    await runner.setup()
    server = runner.server
    assert server is not None
    loop = asyncio.get_running_loop()
    return await loop.create_server(
        lambda: _Connection(server, connections), host, port, backlog=128
    )


async def end_with_it(_request: web.Request, response: web.StreamResponse) -> None:
    """The connection ends with its first answer: for aiohttp's `on_response_prepare`."""
    response.force_close()
    response.headers[hdrs.CONNECTION] = "close"


class PageServer(Web):  # type: ignore[misc]
    """Serves the pages that were added to the app, and no other."""

    default_blueprints: ClassVar[tuple[()]] = ()  # Faust's: tables, routes, statistics
    production_blueprints: ClassVar[tuple[()]] = ()
    debug_blueprints: ClassVar[tuple[()]] = ()
    optional_blueprints: ClassVar[tuple[()]] = ()

    def __init__(self, app: faust.App, limits: WebLimits) -> None:
        super().__init__(app)
        self.connections = Connections(limits)
        self._listening: asyncio.Server | None = None
        self.web_app.on_response_prepare.append(end_with_it)

    async def start_server(self) -> None:
        """Listens; raises `OSError` if the port is taken."""
        conf = self.app.conf
        self._listening = await listen(self._runner, self.connections, conf.web_bind, conf.web_port)

    async def stop_server(self) -> None:
        """Listens no more, and lets what is being answered finish."""
        if self._listening is not None:
            self._listening.close()
        await super().stop_server()
