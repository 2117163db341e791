"""A real PostgreSQL for one test."""

import signal
import subprocess
from pathlib import Path

from tests.integration.database_server import DatabaseServer
from tests.integration.databases import SUPERUSER, connect


class PostgresServer(DatabaseServer):
    """Runs with the user `postgres` instead of root, because PostgreSQL refuses root."""

    kind = "postgres"
    package = "postgresql"
    crash = signal.SIGQUIT  # its children end with it, without a message
    user = "postgres"

    def __init__(self) -> None:
        super().__init__(_newest)

    def make(self) -> None:
        """Create a database cluster."""
        data = self.folder / "data"
        make = [
            self.program / "initdb",
            "-D",
            data,
            "-U",
            SUPERUSER,
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run(
            [str(part) for part in make],
            cwd=self.folder,
            check=True,
            capture_output=True,
            **self.as_user,
        )

    def command(self) -> list[str]:
        """Return the command without fsync.

        Writes survive the process, because the machine does not crash.
        """
        return [
            str(self.program / "postgres"),
            *(
                "-D",
                str(self.folder / "data"),
                "-p",
                str(self.port),
                "-c",
                "listen_addresses=127.0.0.1",
            ),
            *("-c", "unix_socket_directories=", "-c", "fsync=off"),
        ]

    def greet(self) -> None:
        """Open a connection."""
        connect(self.port).close()


def _newest() -> str | None:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name)
    )
    return str(found[-1]) if found else None
