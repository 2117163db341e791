"""Read a queue of Kestrel servers with the memcache text protocol and reliable reads.

    get words/open/t=1000         opens a message: `VALUE words 0 <bytes>`, the message, `END`
                                  (only `END` if the queue is empty)
    get words/close/open/t=1000   removes the open message, and opens the next
    get words/close               removes the open message
    get words/abort               puts it back, at the head of the queue

A connection has at most one open read. So a reader needs one connection for each message that it
may have open. Each connection runs its own loop: open a message, wait for its ack or fail, and
report it to the server. Kestrel puts an open message back when its connection ends. So after that,
the reader neither emits nor acks the message.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from kstorm.errors import BrokerError, KstormError
from kstorm.queues.kestrel_config import HostInfo, KestrelConfig
from kstorm.queues.ports import QueueMessage, QueueMessageId

log = logging.getLogger(__name__)


class KestrelReader:
    def __init__(
        self, config: KestrelConfig, queue: str, hosts: Sequence[HostInfo], open_reads: int
    ) -> None:
        self.config, self.queue = config, queue
        self.numbers = count(1)
        self.wanted = asyncio.Event()
        """Set while the connections should open messages, or when they should stop."""
        self.closing = False
        self._hosts = [_Host(address, config) for address in hosts]
        self._loops = [
            _KestrelConnection(self, host) for host in self._hosts for _ in range(open_reads)
        ]
        self._running: set[asyncio.Task[None]] = set()
        self._messages: deque[QueueMessage] = deque()
        self._verdicts: dict[QueueMessageId, asyncio.Future[bool]] = {}

    def start(self) -> None:
        self.wanted.set()
        if not self._running:
            self._running = {asyncio.ensure_future(connection.run()) for connection in self._loops}

    def pause(self) -> None:
        self.wanted.clear()
        while (message := self.take()) is not None:
            self.put_back(message.id)

    def take(self) -> QueueMessage | None:
        while self._messages:
            message = self._messages.popleft()
            if message.id in self._verdicts:
                return message
        return None

    def ack(self, id: QueueMessageId) -> None:
        self._say(id, True)

    def put_back(self, id: QueueMessageId) -> None:
        self._say(id, False)

    def problem(self) -> KstormError | None:
        # Name every host that has failed and not responded since.
        failures = [f"{host} ({host.failure})" for host in self._hosts if host.failure]
        if not failures:
            return None
        return BrokerError(
            f"the queue {self.queue!r} cannot be read from Kestrel at {', '.join(failures)}: "
            "check that it is running; the next attempt follows after "
            f"{self.config.blacklist_time_secs:g} s"
        )

    @property
    def connections(self) -> int:
        return sum(connection.connected for connection in self._loops)

    async def close(self) -> None:
        self.closing = True
        self.wanted.set()
        for verdict in self._verdicts.values():
            verdict.cancel()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=_CLOSE_SECS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def hand_out(self, id: QueueMessageId, value: bytes) -> bool:
        """Make a message available. Return True once it is acked, and False if it is to be put
        back.

        The call is cancelled when the reader is closed.
        """
        if not self.wanted.is_set():
            return False
        verdict = self._verdicts[id] = asyncio.get_running_loop().create_future()
        self._messages.append(QueueMessage(id, value))
        try:
            done: bool = await verdict
            return done
        finally:
            self._verdicts.pop(id, None)

    def _say(self, id: QueueMessageId, done: bool) -> None:
        verdict = self._verdicts.pop(id, None)
        if verdict is not None and not verdict.done():
            verdict.set_result(done)


class _Host:
    """A server, and the time until which it is blacklisted."""

    def __init__(self, address: HostInfo, config: KestrelConfig) -> None:
        self.address = address
        self.failure = ""
        """Reason why it is blacklisted, or ""."""
        self._config = config
        self._until = 0.0

    def __str__(self) -> str:
        return f"{self.address.host}:{self.address.port}"

    def blacklist(self, reason: str) -> None:
        """Avoid the server for some time. Its working connections are kept."""
        self.failure = reason
        self._until = asyncio.get_running_loop().time() + self._config.blacklist_time_secs

    @property
    def pause(self) -> float:
        """Seconds for which the server is still blacklisted."""
        return max(0.0, self._until - asyncio.get_running_loop().time())

    def answered(self) -> None:
        if self.failure:
            log.warning("Kestrel at %s responds again", self)
        self.failure = ""
        self._until = 0.0


class _Refused(Exception):  # noqa: N818
    """The server gave an unexpected answer."""


class _KestrelConnection:
    """Connects to a host, again and again, and opens messages one by one."""

    def __init__(self, reader: KestrelReader, host: _Host) -> None:
        self._reader, self._host = reader, host
        self._config = reader.config
        self.connected = False

    async def run(self) -> None:
        """Run until the reader is closed."""
        while True:
            await self._reader.wanted.wait()
            if self._reader.closing:
                return
            if pause := self._host.pause:
                await self._sleep(pause)
                continue
            try:
                await self._connect_and_read()
            except (OSError, EOFError, ValueError, _Refused) as error:  # TimeoutError is an OSError
                self._host.blacklist(_text(error))
            finally:
                self.connected = False

    async def _sleep(self, seconds: float) -> None:
        """Sleep in short steps, so that closing does not wait for a blacklisted host."""
        await asyncio.sleep(min(seconds, _LOOK_SECS))

    async def _connect_and_read(self) -> None:
        async with asyncio.timeout(self._config.timeout_secs):
            reading, writing = await asyncio.open_connection(*self._host.address)
        self.connected = True
        try:
            await self._read(_Wire(self._reader.queue, reading, writing, self._config.timeout_secs))
        finally:
            writing.close()
            with suppress(OSError):
                await writing.wait_closed()

    async def _read(self, wire: "_Wire") -> None:
        number = next(self._reader.numbers)
        wait = self._config.poll_ms / 1000
        opening = f"open/t={self._config.poll_ms}"
        closing = ""
        for tag in count(1):
            value = await wire.get(closing + opening, wait)
            self._host.answered()
            closing = ""
            if value is not None and await self._process(wire, QueueMessageId(number, tag), value):
                closing = "close/"
            if not self._reader.wanted.is_set() or self._reader.closing:
                if closing:
                    await wire.get("close")
                closing = ""
                await self._reader.wanted.wait()
            if self._reader.closing:
                return

    async def _process(self, wire: "_Wire", id: QueueMessageId, value: bytes) -> bool:
        """Return True if the message is acked and must be closed. Raises `EOFError` if the
        connection ends meanwhile."""
        verdict = asyncio.ensure_future(self._reader.hand_out(id, value))
        ended = asyncio.ensure_future(wire.ended())
        try:
            await asyncio.wait({verdict, ended}, return_when=asyncio.FIRST_COMPLETED)
            if verdict.cancelled():  # the reader is being closed
                return False
            if not verdict.done():
                raise EOFError
            if verdict.result():
                return True
        finally:
            for future in (verdict, ended):
                future.cancel()
            await asyncio.wait({verdict, ended})
        await wire.get("abort")
        return False


class _Wire:
    """The protocol on one connection."""

    def __init__(
        self,
        queue: str,
        reading: asyncio.StreamReader,
        writing: asyncio.StreamWriter,
        timeout_secs: float,
    ) -> None:
        self._queue, self._reading, self._writing, self._timeout = (
            queue,
            reading,
            writing,
            timeout_secs,
        )

    async def get(self, options: str, wait: float = 0.0) -> bytes | None:
        """Return the message, or None. The server may take `wait` seconds longer than the
        timeout."""
        async with asyncio.timeout(self._timeout + wait):
            self._writing.write(f"get {self._queue}/{options}\r\n".encode())
            await self._writing.drain()
            line = await self._line()
            if line == b"END":
                return None
            match line.split():
                case [b"VALUE", _, _, length] if length.isdigit():
                    value = await self._reading.readexactly(int(length) + 2)
                    if value.endswith(b"\r\n") and await self._line() == b"END":
                        return value[:-2]
            raise _Refused(f"it answered {line[:80]!r}")

    async def ended(self) -> None:
        """Return when the server ends the connection or sends unexpected data."""
        with suppress(OSError):
            await self._reading.read(1)

    async def _line(self) -> bytes:
        line = await self._reading.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return line.rstrip(b"\r\n")


_CLOSE_SECS = 5.0
_LOOK_SECS = 0.5


def _text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not respond"
    if isinstance(error, EOFError):
        return "it closed the connection"
    return str(error) or type(error).__name__
