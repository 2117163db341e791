"""Reserved ports stay reserved, also for other processes."""

import socket
import subprocess
import sys
from pathlib import Path

from kstorm.dev.free_ports import reserve_port


def test_port_is_reserved_only_once(cache: Path) -> None:
    """A process never gets the same port twice, even before a server listens on it."""
    ports = [reserve_port() for _ in range(50)]
    assert len(set(ports)) == 50


def test_port_is_below_the_ephemeral_range(cache: Path) -> None:
    """The kernel assigns ports from 32768 to clients, so it cannot assign a reserved one."""
    assert 1024 < reserve_port() < 30_000


def test_other_processes_avoid_a_reserved_port(cache: Path) -> None:
    """The lock excludes another process as long as this one lives."""
    port = reserve_port()
    try_it = (
        "import sys; from pathlib import Path; from kstorm.dev.free_ports import _try_lock; "
        "print(_try_lock(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", try_it, str(cache / "ports" / str(port))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "None\n"


def test_server_can_listen_on_a_reserved_port(cache: Path) -> None:
    with socket.create_server(("127.0.0.1", reserve_port())):
        pass
