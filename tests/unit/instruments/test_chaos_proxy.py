"""A proxy passes everything through.

It can be cut silently, healed without loss, and slowed down.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos.proxy import Proxy

WAIT_SECS = 10.0
SILENCE_SECS = 0.3


class Echo:
    """A server that returns its input and counts its connections."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.came = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            self.came += 1
            threading.Thread(target=self._echo, args=[client], daemon=True).start()

    @staticmethod
    def _echo(client: socket.socket) -> None:
        with client:
            while data := client.recv(65536):
                client.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.socket.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy() as proxy:
        proxy.target = echo.port
        yield proxy


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=WAIT_SECS)


def read(client: socket.socket, count: int) -> bytes:
    client.settimeout(WAIT_SECS)
    found = b""
    while len(found) < count:
        data = client.recv(65536)
        assert data, f"ended after {len(found)} bytes"
        found += data
    return found


def assert_silent(client: socket.socket) -> None:
    client.settimeout(SILENCE_SECS)
    with pytest.raises(TimeoutError):
        client.recv(1)


def test_data_passes_unchanged(proxy: Proxy) -> None:
    """The data is larger than any buffer."""
    data = bytes(range(256)) * 40_000
    with connect(proxy) as client:
        threading.Thread(target=client.sendall, args=[data], daemon=True).start()
        assert read(client, len(data)) == data


def test_cut_is_silent_and_heals_without_loss(proxy: Proxy, echo: Echo) -> None:
    """The connection stays open. Data that was sent meanwhile arrives after the healing."""
    with connect(proxy) as client:
        client.sendall(b"before")
        assert read(client, 6) == b"before"
        proxy.cut()
        client.sendall(b"amid")
        assert_silent(client)
        proxy.heal()
        assert read(client, 4) == b"amid"
    assert echo.came == 1


def test_new_connection_waits_during_a_cut(proxy: Proxy, echo: Echo) -> None:
    """The proxy accepts it, and connects to the server after the healing."""
    proxy.cut()
    with connect(proxy) as client:
        client.sendall(b"hello")
        assert_silent(client)
        assert echo.came == 0
        proxy.heal()
        assert read(client, 5) == b"hello"


def test_delay_applies_to_each_direction_until_healed(proxy: Proxy) -> None:
    """The chunks are late together, not one after the other."""
    with connect(proxy) as client:
        proxy.slow(0.5)
        began = time.monotonic()
        for _ in range(10):
            client.sendall(b"x")
            time.sleep(0.01)
        assert read(client, 10) == b"x" * 10
        assert 1 <= time.monotonic() - began < 5  # ten delays in a row would take longer
        proxy.heal()
        began = time.monotonic()
        client.sendall(b"y")
        assert read(client, 1) == b"y"
        assert time.monotonic() - began < 1  # the delays of the two directions


def test_closed_connection_is_passed_on(proxy: Proxy, echo: Echo) -> None:
    """If a client closes or a server refuses, the other side does not hang."""
    with connect(proxy) as client:
        client.sendall(b"x")
        read(client, 1)
        client.shutdown(socket.SHUT_WR)
        client.settimeout(WAIT_SECS)
        assert client.recv(1) == b""
    echo.socket.close()
    proxy.target = 1  # no server listens there
    with connect(proxy) as client:
        client.settimeout(WAIT_SECS)
        assert client.recv(1) == b""


def test_stop_ends_every_connection(proxy: Proxy) -> None:
    """This includes connections that a cut holds up."""
    with connect(proxy) as client:
        client.sendall(b"x")
        read(client, 1)
        proxy.cut()
        client.sendall(b"y")
        proxy.stop()
        client.settimeout(WAIT_SECS)
        with suppress(ConnectionResetError):  # the held data was not read
            assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
