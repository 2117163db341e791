"""A TCP proxy that can be cut and made slow: what lies between one service and the broker.

It understands nothing of what passes. A cut is a silent one, as when a cable is drawn: connections stay, new ones are
accepted, and nothing comes through; when it heals, what was sent meanwhile arrives. A delay is added in each direction.
"""

import asyncio
import threading
from types import TracebackType
from typing import Final, Self

from kstorm.local.ports import reserve_port

_CHUNK: Final = 64 * 1024
_CHUNKS_AHEAD: Final = 64
_Chunks = asyncio.Queue[tuple[float, bytes]]


class Proxy:
    """Listens on a port of 127.0.0.1 from `start` to `stop`, and connects to `target`, another one, for each client.

    `cut`, `heal` and `slow` may be called from any thread.
    """

    def __init__(self, port: int | None = None) -> None:
        self.port = port or reserve_port()
        self.target = 0
        """The port to connect to; set it before the first client comes."""
        self._delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._thread = threading.Thread(target=self._run, name=f"proxy-{self.port}", daemon=True)
        self._listening = threading.Event()
        self._stopping = asyncio.Event()
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def address(self) -> str:
        """`host:port`, what clients are to be told."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        self._listening.wait()
        return self

    def cut(self) -> None:
        """Let nothing through until `heal`."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def slow(self, seconds: float) -> None:
        """Hold every byte back for so long, in each direction, until `heal`."""
        self._delay = seconds

    def heal(self) -> None:
        """Be a good network again."""
        self._delay = 0.0
        self._loop.call_soon_threadsafe(self._open.set)

    def stop(self) -> None:
        """Close every connection, and listen no more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self._listening.set()
        await self._stopping.wait()
        server.close()
        for client, writer in list(self._clients.items()):
            client.cancel()
            writer.close()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stopping.is_set():
            writer.close()
            return
        client = self._loop.create_task(self._connect(reader, writer))
        self._clients[client] = writer
        client.add_done_callback(self._clients.pop)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        back: asyncio.StreamWriter | None = None
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, back))
                both.create_task(self._pass_on(there, writer))
        except* (OSError, EOFError):  # one side has gone, and the other goes with it
            pass
        finally:
            for each in (writer, back):
                if each is not None:
                    each.close()

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
