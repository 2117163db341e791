"""How tests, and the services that they start, reach a PostgreSQL."""

from typing import Any, Final

import pg8000.dbapi

SUPERUSER: Final = "kstorm"


def connect(port: int) -> Any:
    """A connection of Python's DB-API."""
    return pg8000.dbapi.connect(SUPERUSER, host="127.0.0.1", port=port, database="postgres", timeout=30)
