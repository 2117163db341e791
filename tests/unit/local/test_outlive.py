"""How long a server for development waits for its clients before it stops. Connections and the kernel's tables are real."""

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from kstorm.local import outlive as module
from kstorm.local.outlive import clients, is_known, outlive

Connect = Callable[[str], socket.socket]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Give one that listens on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def connect(server: socket.socket) -> Iterator[Connect]:
    """Give what connects to it from an address, and is let in."""
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
    """Give a list of what happens at each rest; there is no rest more."""
    events: list[Callable[[], object]] = []
    clock = SimpleNamespace(sleep=lambda _: events.pop(0)(), monotonic=lambda: 0.0)
    monkeypatch.setattr(module, "time", clock)
    return events


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def test_it_waits_until_the_last_client_has_gone(
    server: socket.socket,
    connect: Connect,
    rests: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Service of a release that is removed is not known any more."""
    monkeypatch.setattr(module, "is_known", lambda _: False)
    first, second = connect("127.0.0.2"), connect("127.0.0.3")
    rests += [first.close, lambda: None, second.close]
    outlive("wc-kafka.words.svc", port_of(server), 45.0, 0.0)
    assert rests == []


def test_it_does_not_wait_if_it_is_only_started_again(
    server: socket.socket,
    connect: Connect,
    rests: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Service is there then, and the clients stay."""
    connect("127.0.0.2")
    monkeypatch.setattr(module, "is_known", lambda name: name == "wc-kafka.words.svc")
    outlive("wc-kafka.words.svc", port_of(server), 45.0, 0.0)
    assert rests == []


def test_it_does_not_wait_for_ever(
    server: socket.socket,
    connect: Connect,
    rests: list[Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody else's client may stay."""
    connect("127.0.0.2")
    monkeypatch.setattr(module, "is_known", lambda _: False)
    outlive("wc-kafka.words.svc", port_of(server), 0.0, 0.0)
    assert rests == []


def test_the_servers_own_connections_do_not_count(server: socket.socket, connect: Connect) -> None:
    """Kafka has some to itself, and never closes them before it stops."""
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
def test_a_name_server_that_is_away_says_nothing(
    monkeypatch: pytest.MonkeyPatch, code: int | None, known: bool
) -> None:
    """So a node that is shut down does not keep the server."""

    def answer(*_: object) -> list[object]:
        if code is not None:
            raise socket.gaierror(code, "told")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert is_known("wc-kafka.words.svc") == known
