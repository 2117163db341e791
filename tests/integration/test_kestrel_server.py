"""The tests' Kestrel server follows the rules of Kestrel's guide that the spout relies on."""

import socket
import time
from collections.abc import Iterator

import pytest

from tests.integration.kestrel_server import KestrelServer

EMPTY = b"END\r\n"


@pytest.fixture
def server() -> Iterator[KestrelServer]:
    with KestrelServer() as started:
        yield started


class Client:
    """A connection for requests and answers."""

    def __init__(self, server: KestrelServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=5)
        self._file = self._socket.makefile("rb")

    def ask(self, request: bytes) -> bytes:
        """Return the answer to a request, or the error that ended the connection."""
        self._socket.sendall(request + b"\r\n")
        line = self._file.readline()
        if not line.startswith(b"VALUE"):
            return line
        value = self._file.read(int(line.split()[3]))
        assert self._file.read(2 + len(EMPTY)) == b"\r\n" + EMPTY
        return value

    @property
    def ended(self) -> bool:
        """True if the server has closed the connection."""
        return self._file.read(1) == b""

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.mark.slow
def test_items_are_returned_in_order(server: KestrelServer) -> None:
    client = Client(server)
    assert [
        client.ask(b"set q 0 0 %d\r\n%s" % (len(item), item))
        for item in (b"a", b"", b"\r\nEND\r\n")
    ] == [b"STORED\r\n"] * 3
    assert [
        client.ask(b"get q/open"),
        client.ask(b"get q/close/open"),
        client.ask(b"get q/close/open"),
    ] == [b"a", b"", b"\r\nEND\r\n"]
    assert [client.ask(b"get q/close"), client.ask(b"get q")] == [EMPTY, EMPTY]


@pytest.mark.slow
def test_open_item_is_exclusive_and_returns_to_the_head(server: KestrelServer) -> None:
    """An abort or the end of the connection returns it. Closing removes it."""
    server.put("q", b"a", b"b")
    one, two = Client(server), Client(server)
    assert one.ask(b"get q/open") == b"a"
    assert two.ask(b"get q/peek") == b"b"
    assert one.ask(b"get q/abort") == EMPTY
    assert one.ask(b"get q/open") == b"a"
    one.close()
    deadline = time.monotonic() + 5
    while server.open("q"):
        assert time.monotonic() < deadline
    assert server.waiting("q") == [b"a", b"b"]
    assert two.ask(b"get q/open") == b"a"
    assert two.ask(b"get q/close") == EMPTY
    assert server.waiting("q") == [b"b"]


@pytest.mark.slow
@pytest.mark.parametrize("second", [b"get q/open", b"get q"])
def test_connection_has_one_open_read(server: KestrelServer, second: bytes) -> None:
    """A further open is an error and ends the connection."""
    server.put("q", b"a", b"b")
    client = Client(server)
    client.ask(b"get q/open")
    assert client.ask(second) == b"ERROR\r\n"
    assert client.ended


@pytest.mark.slow
def test_closing_or_aborting_without_an_open_item_is_allowed(server: KestrelServer) -> None:
    server.put("q", b"a")
    client = Client(server)
    assert [client.ask(b"get q/close"), client.ask(b"get q/abort")] == [EMPTY, EMPTY]
    assert client.ask(b"get q/close/open") == b"a"


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_", [b"get /open", b"get q/peek/open", b"get q/abort/close", b"nonsense"]
)
def test_invalid_request_ends_the_connection(server: KestrelServer, request_: bytes) -> None:
    client = Client(server)
    assert client.ask(request_) == b"CLIENT_ERROR\r\n"
    assert client.ended


@pytest.mark.slow
def test_read_waits_for_an_item_or_its_timeout(server: KestrelServer) -> None:
    """No item goes to a client that left during its wait."""
    gone, client = Client(server), Client(server)
    gone._socket.sendall(b"get q/open/t=60000\r\n")
    before = time.monotonic()
    assert client.ask(b"get q/open/t=200") == EMPTY
    assert time.monotonic() - before >= 0.2
    gone.close()
    while server.connections > 1:
        assert time.monotonic() - before < 10
    client._socket.sendall(b"get q/open/t=60000\r\n")
    server.put("q", b"a")
    assert client._file.readline() == b"VALUE q 0 1\r\n"
