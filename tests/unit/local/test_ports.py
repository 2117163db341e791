"""Reserved ports stay reserved, also for other processes."""

import socket
import subprocess
import sys
from pathlib import Path

from kstorm.local.ports import reserve_port


def test_a_port_is_reserved_only_once(cache: Path) -> None:
    """No two reservations of a process are the same, though nothing listens on the ports yet."""
    ports = [reserve_port() for _ in range(50)]
    assert len(set(ports)) == 50


def test_a_port_is_below_those_of_outgoing_connections(cache: Path) -> None:
    """The kernel gives 32768 and up to clients, so it cannot give a reserved port away."""
    assert 1024 < reserve_port() < 30_000


def test_other_processes_keep_away_from_a_reserved_port(cache: Path) -> None:
    """The lock of a reserved port refuses another process for as long as this one lives."""
    port = reserve_port()
    try_it = "import sys; from pathlib import Path; from kstorm.local.ports import _try_lock; print(_try_lock(Path(sys.argv[1])))"
    command = [sys.executable, "-c", try_it, str(cache / "ports" / str(port))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "None\n"


def test_a_reserved_port_can_be_listened_on(cache: Path) -> None:
    """Reserving leaves the port itself free for the server."""
    with socket.create_server(("127.0.0.1", reserve_port())):
        pass
