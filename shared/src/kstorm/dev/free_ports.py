"""Free loopback ports that stay reserved until a server has bound them, and over its restarts.

A port found by binding to port 0 is in the kernel's ephemeral range. So another process may use it
for an outgoing connection before the server is up. Reserved ports are below that range. As long as
this process lives, a lock file per port prevents other kstorm processes on this machine from using
the port.
"""

import fcntl
import random
import socket
from pathlib import Path
from typing import IO, Final

from kstorm.dev.paths import cache_directory
from kstorm.errors import LocalError

_FIRST: Final = 21_000
_LAST: Final = 29_999
_held: list[IO[str]] = []


def reserve_port() -> int:
    """Reserve a TCP port on 127.0.0.1 that nothing listens on, until this process ends."""
    directory = cache_directory() / "ports"
    directory.mkdir(parents=True, exist_ok=True)
    for port in random.sample(range(_FIRST, _LAST + 1), _LAST - _FIRST + 1):
        if lock := _try_lock(directory / str(port)):
            if _is_free(port):
                _held.append(lock)
                return port
            lock.close()
    raise LocalError(
        f"no free TCP port from {_FIRST} to {_LAST} on 127.0.0.1: end the programs that hold them"
    )


def _try_lock(path: Path) -> IO[str] | None:
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
