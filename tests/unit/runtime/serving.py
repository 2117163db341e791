"""The app of an idle service on the services' event loop, and clients of its web port."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvloop

from examples import diamond
from kstorm.dev.free_ports import reserve_port
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import make_app
from kstorm.runtime.service.pages import add_pages
from kstorm.runtime.service.web_server import PageServer, WebLimits

LONG, SHORT = WebLimits(seconds=3600, connections=16), WebLimits(seconds=0.3)

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Idle:
    """A service without work."""

    async def start(self, feed: Callable[[Any], None]) -> None:
        pass

    async def handle(self, item: Any) -> None:
        pass

    async def stop(self) -> None:
        pass


def alive(metrics: bytes = b"") -> Any:
    """Returns a driver that reports only that it is alive."""
    return SimpleNamespace(
        topology=diamond.build(),
        alive=True,
        not_ready="",
        remark="",
        status=lambda: {"component": "sink"},
        exposition=SimpleNamespace(text=lambda: metrics),
    )


class Serving:
    """The app of a service, with its clients."""

    def __init__(self, web: PageServer, port: int) -> None:
        self.web, self.port = web, port
        self.accepted = 0
        add = web.connections.add

        def counted(transport: asyncio.Transport) -> None:
            self.accepted += 1
            add(transport)

        web.connections.add = counted  # type: ignore[method-assign]

    async def connect(self, sent: bytes) -> Connection:
        """Opens a connection, and sends the bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
        writer.write(sent)
        return reader, writer

    async def ask(self, sent: bytes) -> tuple[int, str, str]:
        """Sends a request, and returns the status, headers and body once the connection has ended."""
        reader, writer = await self.connect(sent)
        head, _, body = (await asyncio.wait_for(reader.read(), 30)).decode().partition("\r\n\r\n")
        writer.close()
        return int(head.split()[1]), head, body

    async def get(self, path: str) -> tuple[int, str]:
        status, _, body = await self.ask(f"GET {path} HTTP/1.1\r\nHost: kstorm\r\n\r\n".encode())
        return status, body

    async def until(self, open_connections: int, *, of: int) -> None:
        """Waits until `open_connections` of `of` connections are left, also in aiohttp's own set."""
        async with asyncio.timeout(30):
            while (self.accepted, len(self.web.connections), len(self._of_aiohttp)) != (
                of,
                *[open_connections] * 2,
            ):
                await asyncio.sleep(0.01)

    @property
    def _of_aiohttp(self) -> list[Any]:
        return list(self.web._runner.server.connections)


@asynccontextmanager
async def serving(folder: Path, driver: Any, limits: WebLimits = LONG) -> AsyncIterator[Serving]:
    """Runs the whole app, with an idle agent."""
    port = reserve_port()
    settings = Settings(topology="a:b", data_dir=folder, web_host="127.0.0.1", web_port=port)
    app = make_app("t-sink", settings, Idle())
    app.web_limits = limits
    add_pages(app, driver)
    await app.start()
    try:
        yield Serving(app.web, port)
    finally:
        await app.stop()


def run(main: Awaitable[None]) -> None:
    """Runs on the services' event loop."""

    async def all_of_it() -> None:
        await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_of_it())


async def ended(connection: Connection) -> bytes:
    """Returns the bytes received until the other side ended the connection."""
    reader, _ = connection
    with suppress(ConnectionResetError):
        return await asyncio.wait_for(reader.read(), 30)
    return b""
