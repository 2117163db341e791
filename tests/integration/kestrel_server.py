"""A replacement for a Kestrel server, sufficient for queue readers. Kestrel has no package.

It speaks the memcache text protocol of Kestrel's guide and its `MemcacheHandler`: `set`, `quit`,
and `get` with `/open`, `/close`, `/abort`, `/peek` and `/t=`. A connection can open one item per
queue. Another open is an `ERROR` and ends the connection. Open items return to the head of their
queue at an abort or at the end of the connection. Items do not expire. They survive `stop` and
`start`, as in Kestrel's journal.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import TypeVar

from tests.tcp_listener import Listener

_T = TypeVar("_T")
_LOOK_SECS = 0.01


class KestrelServer(Listener):
    """Its methods may be called from any thread except its own."""

    def __init__(self) -> None:
        super().__init__()
        self.connections = 0
        """The number of connections."""
        self.accepted = 0
        """The number of connections since the start."""
        self.refusing = False
        """If true, it fails every request like a server that is shutting down: SERVER_ERROR, then
        the end of the connection."""
        self.silent = False
        """If true, it does not respond."""
        self._queues: defaultdict[str, deque[bytes]] = defaultdict(deque)
        self._open: defaultdict[str, list[bytes]] = defaultdict(list)

    def put(self, queue: str, *items: bytes) -> None:
        """Append items to the queue."""
        self._call(lambda: self._queues[queue].extend(items))

    def waiting(self, queue: str) -> list[bytes]:
        """Return the items that no connection has open, from the head."""
        return self._call(lambda: list(self._queues[queue]))

    def open(self, queue: str) -> list[bytes]:
        return self._call(lambda: list(self._open[queue]))

    def drop(self) -> None:
        def close_all() -> None:
            for client in self._clients.values():
                client.close()

        self._call(close_all)

    def _call(self, what: Callable[[], _T]) -> _T:
        if self._thread is None:
            return what()

        async def on_loop() -> _T:
            return what()

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.accepted += 1
        session = _Session(self, self._queues, self._open, reader, writer)
        try:
            while await session.serve_one():
                await writer.drain()
        except (OSError, EOFError, asyncio.IncompleteReadError):
            pass
        finally:
            session.abort_all()
            writer.close()
            self.connections -= 1


class _Session:
    """A connection and its open items."""

    def __init__(
        self,
        server: KestrelServer,
        queues: defaultdict[str, deque[bytes]],
        opened: defaultdict[str, list[bytes]],
        reading: asyncio.StreamReader,
        writing: asyncio.StreamWriter,
    ) -> None:
        self._server, self._queues, self._all_open = server, queues, opened
        self._reading, self._writing = reading, writing
        self._open: dict[str, bytes] = {}

    async def serve_one(self) -> bool:
        """Handle a request. Returns False if the connection must end."""
        line = await self._reading.readline()
        if not line.endswith(b"\r\n"):
            return False
        while self._server.silent:
            await self._look()
        if self._server.refusing:
            return self._end(b"SERVER_ERROR")
        match line.decode("latin-1").split():
            case ["get" | "gets", key]:
                return await self._get(key)
            case ["set", queue, _flags, _expiry, length]:
                data = await self._reading.readexactly(int(length) + 2)
                self._queues[queue].append(data[:-2])
                self._writing.write(b"STORED\r\n")
                return True
            case ["quit"]:
                return False
            case _:
                return self._end(b"CLIENT_ERROR")

    def abort_all(self) -> None:
        """Abort all open items at the end of the connection."""
        for queue in list(self._open):
            self._abort(queue)

    async def _get(self, key: str) -> bool:
        queue, *options = key.split("/")
        opening, closing, aborting, peeking = (
            name in options for name in ("open", "close", "abort", "peek")
        )
        wait = next((int(option[2:]) for option in options if option.startswith("t=")), 0) / 1000
        if not queue or ((peeking or aborting) and (opening or closing)) or (peeking and aborting):
            return self._end(b"CLIENT_ERROR")
        if aborting:
            self._abort(queue)
            return self._answer(None, queue)
        if closing:
            self._close(queue)
            if not opening:
                return self._answer(None, queue)
        if (
            queue in self._open and not peeking
        ):  # a second open read, or an unreliable read during an open one
            return self._end(b"ERROR")
        return self._answer(await self._next(queue, wait, opening=opening, peeking=peeking), queue)

    async def _next(self, queue: str, wait: float, *, opening: bool, peeking: bool) -> bytes | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        while not self._queues[queue]:
            if loop.time() >= until:
                return None
            await self._look()
        if peeking:
            return self._queues[queue][0]
        item = self._queues[queue].popleft()
        if opening:
            self._open[queue] = item
            self._all_open[queue].append(item)
        return item

    async def _look(self) -> None:
        """Wait a moment.

        Raises `EOFError` if the client has gone, so that no item is given to it.
        """
        await asyncio.sleep(_LOOK_SECS)
        if self._reading.at_eof() or self._writing.is_closing():
            raise EOFError

    def _close(self, queue: str) -> None:
        item = self._open.pop(queue, None)
        if item is not None:
            self._all_open[queue].remove(item)

    def _abort(self, queue: str) -> None:
        item = self._open.pop(queue, None)
        if item is not None:
            self._all_open[queue].remove(item)
            self._queues[queue].appendleft(item)

    def _answer(self, item: bytes | None, queue: str) -> bool:
        if item is not None:
            self._writing.write(b"VALUE %s 0 %d\r\n%s\r\n" % (queue.encode(), len(item), item))
        self._writing.write(b"END\r\n")
        return True

    def _end(self, error: bytes) -> bool:
        self._writing.write(error + b"\r\n")
        return False
