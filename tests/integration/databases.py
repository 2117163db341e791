"""Access to the state databases for tests and the services that they start.

The names are `postgres:PORT` and `redis:PORT`.
"""

from functools import partial
from typing import Any, Final

import msgspec
import pg8000.dbapi
import redis

from kstorm.trident import BackingMap, RedisMap, SqlMap

SUPERUSER: Final = "kstorm"
TABLE: Final = "counts"


def connect(port: int) -> Any:
    """Return a DB-API connection to PostgreSQL."""
    return pg8000.dbapi.connect(
        SUPERUSER, host="127.0.0.1", port=port, database="postgres", timeout=30
    )


def redis_client(port: int, **settings: Any) -> Any:
    return redis.Redis("127.0.0.1", port, socket_timeout=30, **settings)


def backing(name: str) -> BackingMap:
    """Return the database of a state."""
    kind, port = name.split(":")
    if kind == "redis":
        return RedisMap(partial(redis_client, int(port)), TABLE)
    return SqlMap(partial(connect, int(port)), TABLE, parameter="%s", blob="BYTEA")


def stored(name: str) -> dict[str, Any]:
    """Return all stored values by key."""
    kind, port = name.split(":")
    if kind == "redis":
        client = redis_client(int(port))
        rows = {key.decode(): value for key, value in client.hgetall(TABLE).items()}
        client.close()
    else:
        connection = connect(int(port))
        cursor = connection.cursor()
        cursor.execute(f"SELECT id, value FROM {TABLE}")
        rows = dict(cursor.fetchall())
        connection.close()
    return {key: msgspec.msgpack.decode(value) for key, value in rows.items()}
