"""A proxy that parses the boundaries of Kafka's requests, and makes selected ones fail.

A request is four bytes of size, the API key, the API version, the correlation id and the client id.
Its other data does not matter here. A response is a size and the correlation id.
"""

import asyncio
from collections.abc import Callable, Collection
from enum import Enum, IntEnum, auto
from typing import Final, NamedTuple, NoReturn, Self

from tests.chaos.proxy import Proxy, Streams

_SIZE_BYTES: Final = 4
_CHUNK: Final = 64 * 1024


class Api(IntEnum):
    """The requests that tests use, by Kafka's API keys."""

    PRODUCE = 0
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    SYNC_GROUP = 14
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class RequestFate(Enum):
    """The fate of a request."""

    LOST = auto()
    """The broker does not get it, and the connection closes."""
    UNANSWERED = auto()
    """The broker executes it, and the connection closes before the client gets the response."""
    LATE = auto()
    """The client gets the response, and all later ones, late."""
    SWALLOWED = auto()
    """The broker does not get it or any later data. The connection stays open."""


class RequestFault:
    """The fate of the next request of a kind from each of these clients."""

    def __init__(
        self,
        api: Api,
        fate: RequestFate,
        clients: Collection[str],
        late_secs: float,
        then: Callable[[], object],
    ) -> None:
        self.api, self.fate, self.late_secs, self.then = api, fate, late_secs, then
        self.left = set(clients)
        """Clients that have not sent such a request yet."""
        self.struck: set[str] = set()
        """Clients whose request has met its fate."""
        self._clients = frozenset(clients)

    def __repr__(self) -> str:
        return f"{self.fate.name} {self.api.name}: {sorted(self.struck)} of {sorted(self._clients)}"

    @property
    def done(self) -> bool:
        """True once every client was struck."""
        return self.struck == self._clients


class _Request(NamedTuple):
    api: int
    number: int
    client: str

    @classmethod
    def read(cls, frame: bytes) -> Self:
        numbers = frame[_SIZE_BYTES:]
        length = int.from_bytes(numbers[8:10], signed=True)
        client = numbers[10 : 10 + max(0, length)].decode()
        return cls(
            int.from_bytes(numbers[:2], signed=True),
            int.from_bytes(numbers[4:8], signed=True),
            client,
        )


class RequestProxy(Proxy):
    """A `Proxy` for one broker without TLS. `strike` is thread-safe."""

    def __init__(self, port: int | None = None) -> None:
        super().__init__(port)
        self._strikes: list[RequestFault] = []

    def strike(
        self,
        api: Api,
        fate: RequestFate,
        *clients: str,
        late_secs: float = 0.0,
        then: Callable[[], object] = lambda: None,
    ) -> RequestFault:
        """Apply this fate to the next such request of each of these clients, by `client.id`.

        `then` is called once it has happened and before the client can notice. It may block.
        """
        strike = RequestFault(api, fate, clients, late_secs, then)
        self._strikes.append(strike)
        return strike

    async def _connect(self, client: Streams, broker: Streams) -> None:
        struck: dict[int, tuple[RequestFault, str]] = {}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_requests(client[0], broker[1], struck))
                both.create_task(self._pass_answers(broker[0], client[1], struck))
        finally:
            # The connection closed before the response, so the client will repeat the request.
            for strike, name in struck.values():
                strike.left.add(name)

    async def _pass_requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        struck: dict[int, tuple[RequestFault, str]],
    ) -> None:
        while True:
            frame = await _frame(reader)
            request = _Request.read(frame)
            if strike := self._strike_at(request):
                match strike.fate:
                    case RequestFate.LOST:
                        await _end(strike, request.client)
                    case RequestFate.SWALLOWED:
                        strike.struck.add(request.client)
                        while await reader.read(_CHUNK):
                            pass
                        raise EOFError
                    case _:
                        struck[request.number] = strike, request.client
            writer.write(frame)
            await writer.drain()

    async def _pass_answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        struck: dict[int, tuple[RequestFault, str]],
    ) -> None:
        while True:
            frame = await _frame(reader)
            number = int.from_bytes(frame[_SIZE_BYTES : _SIZE_BYTES + 4], signed=True)
            if number in struck:
                strike, client = struck.pop(number)
                if strike.fate is RequestFate.UNANSWERED:
                    await _end(strike, client)
                strike.struck.add(client)
                await asyncio.sleep(strike.late_secs)
            writer.write(frame)
            await writer.drain()

    def _strike_at(self, request: _Request) -> RequestFault | None:
        for strike in self._strikes:
            if strike.api == request.api and request.client in strike.left:
                strike.left.discard(request.client)
                return strike
        return None


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Read a size and that many bytes."""
    size = await reader.readexactly(_SIZE_BYTES)
    return size + await reader.readexactly(int.from_bytes(size))


async def _end(strike: RequestFault, client: str) -> NoReturn:
    then = asyncio.ensure_future(asyncio.to_thread(strike.then))
    then.add_done_callback(lambda _: strike.struck.add(client))
    # If `then` kills the broker, the closed connection cancels this task meanwhile.
    await asyncio.shield(then)
    raise EOFError
