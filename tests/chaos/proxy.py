"""A TCP proxy between one service and the broker, which can be cut and slowed down.

It does not inspect the data. A cut is silent, like a pulled cable: connections stay open, new ones
are accepted, and nothing passes. After `heal`, the data sent meanwhile arrives. A delay applies to
each direction.
"""

import asyncio
from typing import Final

from tests.tcp_listener import Listener

_CHUNK: Final = 64 * 1024
_CHUNKS_AHEAD: Final = 64
_Chunks = asyncio.Queue[tuple[float, bytes]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""The data from one side, and the data to it."""


class Proxy(Listener):
    """Connects each client to `target`, another port of 127.0.0.1.

    `cut`, `heal` and `slow` are thread-safe between `start` and `stop`.
    """

    def __init__(self, port: int | None = None) -> None:
        super().__init__(port)
        self.target = 0
        """The port to connect to. Set it before the first client connects."""
        self._delay = 0.0
        self._open = asyncio.Event()
        self._open.set()

    def cut(self) -> None:
        """Let nothing through until `heal`."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def slow(self, seconds: float) -> None:
        """Delay every byte by this time in each direction until `heal`."""
        self._delay = seconds

    def heal(self) -> None:
        self._delay = 0.0
        self._loop.call_soon_threadsafe(self._open.set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        back: asyncio.StreamWriter | None = None
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            await self._connect((reader, writer), (there, back))
        except* (OSError, EOFError):  # one side has closed, so close the other
            pass
        finally:
            for each in (writer, back):
                if each is not None:
                    each.close()

    async def _connect(self, client: Streams, broker: Streams) -> None:
        """Forward the data in each direction. Raises `EOFError` at the end of either."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pass_on(client[0], broker[1]))
            both.create_task(self._pass_on(broker[0], client[1]))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one direction. Raises `EOFError` at its end."""
        chunks: _Chunks = asyncio.Queue(_CHUNKS_AHEAD)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._take(reader, chunks))
            both.create_task(self._give(chunks, writer))

    async def _take(self, reader: asyncio.StreamReader, chunks: _Chunks) -> None:
        while chunk := await reader.read(_CHUNK):
            await chunks.put((self._loop.time(), chunk))
        await chunks.put((self._loop.time(), b""))

    async def _give(self, chunks: _Chunks, writer: asyncio.StreamWriter) -> None:
        while True:
            came, chunk = await chunks.get()
            await asyncio.sleep(came + self._delay - self._loop.time())
            await self._open.wait()
            if not chunk:
                raise EOFError
            writer.write(chunk)
            await writer.drain()
