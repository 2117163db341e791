"""`python -m kstorm.local.outlive NAME:PORT SECS`: what Kafka and ZooKeeper for development wait for before they stop.

When a release is removed, all its pods are told to stop at the same moment. Its services still store, commit and leave their
groups then, so the servers stay until nobody is connected, at most for so many seconds.

A server that is only started again does not wait like this: its clients stay. Which of the two it is tells its Service, which
helm removes before any pod: so NAME is not known any more.

Only Python's own library, since the images have no other.
"""

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOOK_SECS: Final = 0.5
_KNOWN_SECS: Final = 8.0
"""For so long a name server may tell of a Service that has gone; Kubernetes' own keeps an answer for 5 s."""
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED: Final = "01"


def outlive(name: str, port: int, seconds: float, known_seconds: float = _KNOWN_SECS) -> None:
    """Returns when nobody is connected to the port, or if the name is still known after `known_seconds`, or after `seconds`."""
    began = time.monotonic()
    while clients(port) and (passed := time.monotonic() - began) < seconds:
        if passed >= known_seconds and is_known(name):
            return
        time.sleep(_LOOK_SECS)


def clients(port: int) -> int:
    """How many connections to a port there are, but for those of the server to itself."""
    return sum(
        state == _ESTABLISHED
        and local == f"{address}:{port:04X}"
        and address != remote.partition(":")[0]
        for local, remote, state in _connections()
        for address in (local.partition(":")[0],)
    )


def is_known(name: str) -> bool:
    """Whether a name leads to an address; also if no name server answers."""
    try:
        socket.getaddrinfo(name, None)
    except socket.gaierror as error:
        return error.errno not in (socket.EAI_NONAME, socket.EAI_NODATA)
    return True


def _connections() -> Iterator[list[str]]:
    """Of each connection its own end, the other end and the state, in the kernel's hexadecimal."""
    for table in map(Path, _TABLES):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            yield line.split()[1:4]


if __name__ == "__main__":
    address, _, number = sys.argv[1].rpartition(":")
    outlive(address, int(number), float(sys.argv[2]))
