"""Keeps the HTTP port of a process open while the process starts again in place.

Kubernetes does not know of such a start. Its liveness probe would find a closed port, and end a
process that starts slowly. So the re-executed process inherits the listening sockets, and a thread
answers the probes until the web server takes them: alive, but not ready.

`kstorm.runtime` imports this module before all others, so it imports little itself.
"""

import os
import selectors
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

VARIABLE = "KSTORM_OPEN_PORT"
"""Passes the file descriptors of the sockets to the re-executed process."""
START_SECS = 600.0
"""A longer start is stuck. The startup probe of the chart has the same patience."""
_REQUEST_SECS = 0.5
_REQUEST_BYTES = 4096
_LATER = "starts again, because Kafka was unreachable"


class _Answers:
    """A thread that answers the probes on some sockets."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._begun = time.monotonic()
        self._awake, self._wake = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (*sockets, self._awake):
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="open-port", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._wake.close()
        self._thread.join()
        self._selector.close()
        self._awake.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._awake:
                    return
                assert isinstance(key.fileobj, socket.socket)
                with suppress(OSError):
                    connection, _ = key.fileobj.accept()
                    with connection:
                        self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_REQUEST_SECS)
        alive = time.monotonic() - self._begun < START_SECS
        if connection.recv(_REQUEST_BYTES).startswith(b"GET /livez ") and alive:
            status, body = "200 OK", "ok\n"
        else:
            status, body = "503 Service Unavailable", f"{_LATER}\n"
        connection.sendall(
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )


_sockets: list[socket.socket] = []
_answers: _Answers | None = None


def inherit() -> None:
    """Answer the probes if this process was re-executed with an open port."""
    if found := os.environ.pop(VARIABLE, ""):
        for descriptor in map(int, found.split(",")):
            os.set_inheritable(descriptor, False)
            _sockets.append(socket.socket(fileno=descriptor))
        hold()


def hold() -> None:
    """Answer the probes on the kept sockets until `take`. Does nothing if there are none."""
    global _answers
    if _sockets and _answers is None:
        _answers = _Answers(_sockets)


def take() -> list[socket.socket]:
    """Return copies of the kept sockets for a web server, and stop answering the probes."""
    global _answers
    if _answers is not None:
        _answers.stop()
        _answers = None
    return [each.dup() for each in _sockets]


def keep(descriptors: Iterable[int]) -> None:
    """Keep copies of a web server's listening sockets."""
    copies = [socket.socket(fileno=os.dup(each)) for each in descriptors]
    close()
    _sockets.extend(copies)


def close() -> None:
    """Close the kept sockets, so that the port closes with the web server."""
    while _sockets:
        _sockets.pop().close()


def pass_on() -> None:
    """Let the process that this one is about to become inherit the port."""
    for each in _sockets:
        os.set_inheritable(each.fileno(), True)
    if _sockets:
        os.environ[VARIABLE] = ",".join(str(each.fileno()) for each in _sockets)
