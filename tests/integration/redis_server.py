"""A real Redis for one test."""

import shutil

from tests.integration.database_server import DatabaseServer
from tests.integration.databases import redis_client


class RedisServer(DatabaseServer):
    """It keeps acknowledged data."""

    kind = "redis"
    package = "redis-server"

    def __init__(self) -> None:
        super().__init__(lambda: shutil.which("redis-server"))

    def command(self) -> list[str]:
        """Return the command. It writes the log before each answer."""
        return [
            *(
                str(self.program),
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--dir",
                str(self.folder),
            ),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
        ]

    def greet(self) -> None:
        """Send a ping. Redis does not respond while it loads its log."""
        client = redis_client(self.port)
        client.ping()
        client.close()
