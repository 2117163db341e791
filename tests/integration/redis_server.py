"""A real Redis of a test's own."""

import shutil

from tests.integration.database_server import DatabaseServer
from tests.integration.databases import redis_client


class RedisServer(DatabaseServer):
    """It keeps what it acknowledges."""

    kind = "redis"
    package = "redis-server"

    def __init__(self) -> None:
        super().__init__(lambda: shutil.which("redis-server"))

    def command(self) -> list[str]:
        """With a log that is written before each answer."""
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
        """Asks it, which it does not answer while it reads its log."""
        client = redis_client(self.port)
        client.ping()
        client.close()
