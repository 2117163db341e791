"""The proxy passes requests unchanged, except for selected ones, which meet their chosen fate."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.chaos.request_proxy import Api, RequestFate, RequestProxy

WAIT_SECS = 10.0
SILENCE_SECS = 0.3


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def request(api: int, number: int, client: str | None, rest: bytes = b"rest") -> bytes:
    name = b"\xff\xff" if client is None else len(client).to_bytes(2) + client.encode()
    return framed(api.to_bytes(2) + b"\0\7" + number.to_bytes(4) + name + rest)


class Broker:
    """Responds to each request with its number and content, and keeps the requests."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.got: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as said:
            while size := said.read(4):
                body = said.read(int.from_bytes(size))
                self.got.append(size + body)
                client.sendall(framed(body[4:8] + body))


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.socket.close()


@pytest.fixture
def proxy(broker: Broker) -> Iterator[RequestProxy]:
    with RequestProxy() as proxy:
        proxy.target = broker.port
        yield proxy


class Client:
    """One connection."""

    def __init__(self, proxy: RequestProxy) -> None:
        self.socket = socket.create_connection(("127.0.0.1", proxy.port), timeout=WAIT_SECS)
        self.said = self.socket.makefile("rb")

    def answer(self) -> bytes:
        """Return the next answer without size and number.

        It is empty if the connection has ended.
        """
        size = self.said.read(4)
        return self.said.read(int.from_bytes(size))[4:] if size else b""

    def ask(self, request: bytes) -> bool:
        """True if the answer is right."""
        self.socket.sendall(request)
        found = self.answer()
        assert found in (b"", request[4:])
        return bool(found)


def test_other_requests_pass(proxy: RequestProxy, broker: Broker) -> None:
    """They have another kind, another client or no client name.

    They come in pieces, and exceed any buffer.
    """
    strike = proxy.strike(Api.END_TXN, RequestFate.LOST, "count-0")
    large = request(Api.PRODUCE, 5, "count-0", bytes(3_000_000))
    requests = [
        request(Api.PRODUCE, 3, "count-0"),
        request(Api.END_TXN, 4, "count-1"),
        request(26, -1 % 2**32, None),
    ]
    client = Client(proxy)
    assert all(map(client.ask, [*requests, large]))
    for byte in requests[0]:
        client.socket.sendall(bytes([byte]))
    assert client.answer() == requests[0][4:]
    assert broker.got == [*requests, large, requests[0]]
    assert not strike.struck


def test_lost_request_does_not_arrive(proxy: RequestProxy, broker: Broker) -> None:
    """Each client loses its first request. The next one arrives."""
    strike = proxy.strike(Api.END_TXN, RequestFate.LOST, "count-0", "count-1")
    for name in ("count-0", "count-1"):
        lost = request(Api.END_TXN, 1, name)
        assert not strike.done
        assert not Client(proxy).ask(lost)
        assert Client(proxy).ask(lost)
    assert strike.done
    assert len(broker.got) == 2


def test_unanswered_request_has_arrived(proxy: RequestProxy, broker: Broker) -> None:
    """The given action runs before the client notices."""
    done: list[int] = []
    strike = proxy.strike(
        Api.END_TXN, RequestFate.UNANSWERED, "count-0", then=lambda: done.append(len(broker.got))
    )
    client = Client(proxy)
    assert client.ask(request(Api.PRODUCE, 1, "count-0"))
    assert not client.ask(request(Api.END_TXN, 2, "count-0"))
    assert done == [2]
    assert strike.done


def test_late_answer_arrives_in_order(proxy: RequestProxy) -> None:
    """The answers after it arrive later too."""
    proxy.strike(Api.END_TXN, RequestFate.LATE, "count-0", late_secs=SILENCE_SECS)
    client = Client(proxy)
    began = time.monotonic()
    first, second = request(Api.END_TXN, 1, "count-0"), request(Api.PRODUCE, 2, "count-0")
    client.socket.sendall(first + second)
    assert client.answer() == first[4:]
    assert client.answer() == second[4:]
    assert time.monotonic() - began >= SILENCE_SECS


def test_swallowed_request_silences_the_connection(proxy: RequestProxy, broker: Broker) -> None:
    """The broker seems never to respond."""
    strike = proxy.strike(Api.JOIN_GROUP, RequestFate.SWALLOWED, "count-0")
    client = Client(proxy)
    client.socket.sendall(
        request(Api.JOIN_GROUP, 1, "count-0") + request(Api.PRODUCE, 2, "count-0")
    )
    client.socket.settimeout(SILENCE_SECS)
    with pytest.raises(TimeoutError):
        client.answer()
    assert strike.done
    assert not broker.got
