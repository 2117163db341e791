"""The time that a development server waits for its clients before it stops.

Connections and kernel tables are real.
"""

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from kstorm.dev import delayed_stop as module
from kstorm.dev.delayed_stop import clients, is_known, stop_later

Connect = Callable[[str], socket.socket]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A socket that listens on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def connect(server: socket.socket) -> Iterator[Connect]:
    """A function that connects to the server from an address."""
    opened: list[socket.socket] = []

    def connected(address: str) -> socket.socket:
        opened.append(socket.create_connection(server.getsockname(), 5, (address, 0)))
        opened.append(server.accept()[0])
        return opened[-2]

    yield connected
    for each in opened:
        each.close()


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """A list of actions, one for each pause. There must be no further pause."""
    events: list[Callable[[], object]] = []
    clock = SimpleNamespace(sleep=lambda _: events.pop(0)(), monotonic=lambda: 0.0)
    monkeypatch.setattr(module, "time", clock)
    return events


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def test_server_waits_for_its_last_client(
    server: socket.socket,
    connect: Connect,
    rests: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Service of a removed release does not exist any more."""
    monkeypatch.setattr(module, "is_known", lambda _: False)
    first, second = connect("127.0.0.2"), connect("127.0.0.3")
    rests += [first.close, lambda: None, second.close]
    stop_later("wc-kafka.words.svc", port_of(server), 45.0, 0.0)
    assert rests == []


def test_server_does_not_wait_at_a_restart(
    server: socket.socket,
    connect: Connect,
    rests: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Service still exists, and the clients stay connected."""
    connect("127.0.0.2")
    monkeypatch.setattr(module, "is_known", lambda name: name == "wc-kafka.words.svc")
    stop_later("wc-kafka.words.svc", port_of(server), 45.0, 0.0)
    assert rests == []


def test_server_waits_for_a_limited_time(
    server: socket.socket,
    connect: Connect,
    rests: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client of another release may stay connected."""
    connect("127.0.0.2")
    monkeypatch.setattr(module, "is_known", lambda _: False)
    stop_later("wc-kafka.words.svc", port_of(server), 0.0, 0.0)
    assert rests == []


def test_own_connections_of_the_server_do_not_count(
    server: socket.socket, connect: Connect
) -> None:
    """Kafka has connections to itself, and closes them only when it stops."""
    connect("127.0.0.1")
    assert clients(port_of(server)) == 0
    connect("127.0.0.2")
    assert clients(port_of(server)) == 1


@pytest.mark.parametrize(
    ("code", "known"),
    [
        (socket.EAI_NONAME, False),
        (socket.EAI_NODATA, False),
        (socket.EAI_AGAIN, True),
        (None, True),
    ],
)
def test_dns_outage_does_not_count_as_a_missing_service(
    monkeypatch: pytest.MonkeyPatch, code: int | None, known: bool
) -> None:
    """So the server does not wait if its node is shut down."""

    def answer(*_: object) -> list[object]:
        if code is not None:
            raise socket.gaierror(code, "told")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert is_known("wc-kafka.words.svc") == known
