"""A TCP proxy that can be cut and made slow. It stands between one service and the broker.

It does not look at what passes. A cut is silent, as when a cable is pulled: connections stay, new ones are accepted,
and nothing comes through; when it heals, what was sent meanwhile arrives. A delay is added in each direction.
"""

import asyncio
from typing import Final

from kstorm.local.listener import Listener

_CHUNK: Final = 64 * 1024
_CHUNKS_AHEAD: Final = 64
_Chunks = asyncio.Queue[tuple[float, bytes]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""What one side says, and what is said to it."""


class Proxy(Listener):
    """Connects to `target`, another port of 127.0.0.1, for each client.

    `cut`, `heal` and `slow` may be called from any thread, from `start` to `stop`.
    """

    def __init__(self, port: int | None = None) -> None:
        super().__init__(port)
        self.target = 0
        """The port to connect to; set it before the first client comes."""
        self._delay = 0.0
        self._open = asyncio.Event()
        self._open.set()

    def cut(self) -> None:
        """Let nothing through until `heal`."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def slow(self, seconds: float) -> None:
        """Hold every byte back for so long, in each direction, until `heal`."""
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
        except* (OSError, EOFError):  # one side has gone, and the other goes with it
            pass
        finally:
            for each in (writer, back):
                if each is not None:
                    each.close()

    async def _connect(self, client: Streams, broker: Streams) -> None:
        """Pass on what each says to the other; raises `EOFError` at the end of one."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pass_on(client[0], broker[1]))
            both.create_task(self._pass_on(broker[0], client[1]))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction; raises `EOFError` at its end."""
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
