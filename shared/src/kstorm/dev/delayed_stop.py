"""`python -m kstorm.dev.delayed_stop NAME:PORT SECS`: delay the stop of the development Kafka and
ZooKeeper.

Uninstalling a release stops all of its pods at the same moment. At that time the services still
need to store data, to commit and to leave their groups. So the servers keep running until no client
is connected, for at most SECS seconds.

A server that is only restarted does not wait like this, because its clients stay connected. The
server's Service distinguishes the two cases: helm deletes the Service before any pod, so that NAME
does not resolve any more.

Uses only Python's standard library, because the images have no other.
"""

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOOK_SECS: Final = 0.5
_KNOWN_SECS: Final = 8.0
"""Time for which a DNS server may still resolve a deleted Service. The one of Kubernetes caches a
response for 5 s."""
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED: Final = "01"


def stop_later(name: str, port: int, seconds: float, known_seconds: float = _KNOWN_SECS) -> None:
    """Wait until no client is connected to the port, for at most `seconds`.

    Returns earlier if the name still resolves after `known_seconds`.
    """
    began = time.monotonic()
    while clients(port) and (passed := time.monotonic() - began) < seconds:
        if passed >= known_seconds and is_known(name):
            return
        time.sleep(_LOOK_SECS)


def clients(port: int) -> int:
    """Count the connections to a port, except those of the server to itself."""
    return sum(
        state == _ESTABLISHED
        and local == f"{address}:{port:04X}"
        and address != remote.partition(":")[0]
        for local, remote, state in _connections()
        for address in (local.partition(":")[0],)
    )


def is_known(name: str) -> bool:
    """Return True if a name resolves to an address, or if no DNS server responds."""
    try:
        socket.getaddrinfo(name, None)
    except socket.gaierror as error:
        return error.errno not in (socket.EAI_NONAME, socket.EAI_NODATA)
    return True


def _connections() -> Iterator[list[str]]:
    """Yield the local address, remote address and state of each connection, in the kernel's
    hexadecimal."""
    for table in map(Path, _TABLES):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            yield line.split()[1:4]


if __name__ == "__main__":
    address, _, number = sys.argv[1].rpartition(":")
    stop_later(address, int(number), float(sys.argv[2]))
