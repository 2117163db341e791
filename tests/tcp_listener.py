"""A TCP server for tests and the chaos run, with asyncio on its own event loop and thread."""

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Self

from kstorm.dev.free_ports import reserve_port


class Listener(ABC):
    """Listens on a port of 127.0.0.1 from `start` to `stop`, and can be restarted.

    Subclasses serve the clients. `port` is reserved by default.
    """

    def __init__(self, port: int | None = None) -> None:
        self.port = port or reserve_port()
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None
        self._stopping: asyncio.Event
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def address(self) -> str:
        """`host:port`, the address for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        name = f"{type(self).__name__}-{self.port}"
        self._thread = threading.Thread(target=self._run, args=(listening,), name=name, daemon=True)
        self._thread.start()
        listening.wait()
        return self

    def stop(self) -> None:
        """Close every connection and stop listening."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client to its end and close the connection. Cancelled when the server stops."""

    def _run(self, listening: threading.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen(listening))

    async def _listen(self, listening: threading.Event) -> None:
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        listening.set()
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
        client = self._loop.create_task(self._serve(reader, writer))
        self._clients[client] = writer
        client.add_done_callback(self._clients.pop)
