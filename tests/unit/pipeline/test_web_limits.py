"""Limits of a run's web port. Needs no Spark."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from kstorm.dev.free_ports import reserve_port
from kstorm_pipeline.monitor.monitor import Monitor
from kstorm_pipeline.monitor.pages import serving
from kstorm_pipeline.monitor.web_server import ConnectionLimits, WebServer

LONG, SHORT = ConnectionLimits(seconds=3600, connections=16), ConnectionLimits(seconds=0.3)
HALF = b"GET /livez HTTP/1.1\r\nHost: kstorm\r\n"


class Served:
    """The server of a run, and its clients."""

    def __init__(self, server: WebServer, port: int, open_ones: ExitStack) -> None:
        self.server, self._port, self._open = server, port, open_ones
        self.accepted = 0
        self._served_by: list[threading.Thread] = []
        process, serve = server.process_request, server.process_request_thread

        def counted(request: Any, client_address: Any) -> None:
            self.accepted += 1
            process(request, client_address)

        def noted(request: Any, client_address: Any) -> None:
            self._served_by.append(threading.current_thread())
            serve(request, client_address)

        server.process_request = counted  # type: ignore[method-assign]
        server.process_request_thread = noted  # type: ignore[method-assign]

    def connect(self, sent: bytes) -> socket.socket:
        """Open a connection and send `sent`."""
        made = self._open.enter_context(
            socket.create_connection(("127.0.0.1", self._port), timeout=30)
        )
        made.sendall(sent)
        return made

    def get(self, path: str) -> bytes:
        """Return the response until the connection closes."""
        return ended(self.connect(f"GET {path} HTTP/1.1\r\nHost: kstorm\r\n\r\n".encode()))

    def until(self, open_connections: int, *, of: int) -> None:
        """Wait until `open_connections` of `of` accepted ones are open, and as many threads run."""
        deadline = time.monotonic() + 30
        while (self.accepted, self.server.connections, self._threads) != (
            of,
            *[open_connections] * 2,
        ):
            assert time.monotonic() < deadline, (
                self.accepted,
                self.server.connections,
                self._threads,
            )
            time.sleep(0.01)

    @property
    def _threads(self) -> int:
        """Threads of this server only. Other tests may keep servers alive in this process."""
        return sum(thread.is_alive() for thread in self._served_by)


Said = Callable[[], str]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Said:
    """Return a function that returns everything logged or printed."""
    return lambda: caplog.text + "".join(capfd.readouterr())


@contextmanager
def served(limits: ConnectionLimits, monitor: Monitor | None = None) -> Iterator[Served]:
    port = reserve_port()
    with ExitStack() as open_ones, serving(monitor or Monitor(600), port, limits) as server:
        assert server is not None
        yield Served(server, port, open_ones)


def ended(connection: socket.socket) -> bytes:
    """Return everything received until the server closed the connection."""
    came = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(1 << 16):
            came += data
    return came


def test_probes_are_answered_while_a_stranger_holds_half_sent_requests(said: Said) -> None:
    """The oldest connections make room. The number of threads stays limited."""
    with served(LONG) as run:
        held = [run.connect(HALF) for _ in range(100)]
        for each in held[:84]:
            ended(each)
        run.until(16, of=100)
        assert run.get("/livez").endswith(b"\r\n\r\nok\n")
        ended(held[84])
        run.until(15, of=101)
    assert said() == ""


class Talkative(Monitor):
    """Its metrics exceed a socket's buffers."""

    def __init__(self) -> None:
        super().__init__(600)
        self.metrics.text = lambda: bytes(16 << 20)  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET", HALF, b"GET /metrics HTTP/1.1\r\nHost: kstorm\r\n\r\n"],
    ids=["nothing", "half a line", "half a request", "a request, and its answer is not taken"],
)
def test_stuck_connection_is_closed(sent: bytes, said: Said) -> None:
    """After the time limit, without a log line."""
    with served(SHORT, Talkative()) as run:
        begun = time.monotonic()
        held = [run.connect(sent) for _ in range(3)]
        run.until(0, of=3)
        assert time.monotonic() - begun > SHORT.seconds / 2
        assert run.get("/livez").endswith(b"\r\n\r\nok\n")
        del held
    assert said() == ""


def test_slow_request_is_closed() -> None:
    """A byte does not restart the time limit."""
    with served(SHORT) as run:
        connection = run.connect(HALF)
        connection.settimeout(0.01)
        deadline = time.monotonic() + 30
        with suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < deadline:
                connection.sendall(b"a")
                time.sleep(0.01)
        assert time.monotonic() < deadline
        run.until(0, of=1)


def test_connection_serves_one_request() -> None:
    """It is closed even if the client asks for keep-alive."""
    with served(LONG) as run:
        request = b"GET /livez HTTP/1.1\r\nHost: kstorm\r\nConnection: keep-alive\r\n\r\n"
        assert ended(run.connect(request)).count(b"HTTP/1") == 1
        run.until(0, of=1)


def test_endless_request_is_refused() -> None:
    """Only a limited part of its head is read."""
    with served(LONG) as run:
        head = (
            HALF
            + b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(90))
            + b"\r\n"
        )
        assert b" 431 " in ended(run.connect(head)).partition(b"\r\n")[0]
        run.until(0, of=1)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nno header\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
    ids=["TLS", "no version", "no header", "a long path"],
)
def test_invalid_http_is_closed_silently(sent: bytes, said: Said) -> None:
    """Nothing is logged, and the response contains nothing about the process."""
    with served(LONG) as run:
        assert b"Traceback" not in ended(run.connect(sent))
        run.until(0, of=1)
    assert said() == ""
