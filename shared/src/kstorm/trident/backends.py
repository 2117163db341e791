"""Databases for external states: the interface (Storm's `IBackingMap`) and an implementation for
SQL."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

import msgspec

from kstorm.errors import ConfigError, FencedError
from kstorm.fitting import Text, checked

_NAME_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
)


class Owner(NamedTuple):
    """A task, with the fencing number of its current owner."""

    task: str
    life: int
    """Higher than that of every earlier owner of the task."""


class BackingMap:
    """A database of values by key. All methods may block. They are called by one thread at a time.

    An object passed to a stream is a template. Each task has its own copy, so connect in `open`.
    """

    def open(self) -> None:
        """Connect to the database."""

    def close(self) -> None:
        """Close the connection."""

    def begin_life(self, task: str) -> tuple[Owner, Sequence[str]]:
        """Register a new owner of a task. Writes of earlier owners are rejected from now on.

        Return the new owner and the keys of the task's last write.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define begin_life")

    def multi_get(self, keys: Sequence[str]) -> Sequence[Any]:
        """Return the stored value of each key, or None for keys without one."""
        raise NotImplementedError(f"{type(self).__name__} does not define multi_get")

    def multi_put(self, owner: Owner, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Store all values and the list of keys, or nothing. Raises `FencedError` if the task has a
        newer owner."""
        raise NotImplementedError(f"{type(self).__name__} does not define multi_put")


class SqlMap(BackingMap):
    """Two tables of a SQL database. `<table>` has the values as MessagePack. `<table>_lives` has
    the fencing number of each task and the keys of its last write.

    `connect` returns a connection of Python's DB-API. Missing tables are created. For SQLite and
    PostgreSQL:

        SqlMap(partial(sqlite3.connect, "counts.db"), "counts")
        postgres = partial(psycopg.connect, "dbname=counts")
        SqlMap(postgres, "counts", parameter="%s", blob="BYTEA")
    """

    @checked()
    def __init__(
        self, connect: Callable[[], Any], table: Text, parameter: Text = "?", blob: Text = "BLOB"
    ) -> None:
        if not table or not set(table) <= _NAME_CHARACTERS:
            raise ConfigError(f"the table name {table!r} is invalid: use letters, digits and '_'")
        self._connect, self._table, self._parameter, self._blob = connect, table, parameter, blob
        self._connection: Any = None

    def open(self) -> None:
        self._connection = self._connect()
        for statement in _TABLES:
            self._do(statement)
        self._connection.commit()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def begin_life(self, task: str) -> tuple[Owner, Sequence[str]]:
        ((life, stored),) = self._do(_BEGIN, task, _encode([]))
        self._connection.commit()
        return Owner(task, life), msgspec.msgpack.decode(stored)

    def multi_get(self, keys: Sequence[str]) -> Sequence[Any]:
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            found |= dict(self._do(_GET.replace("KEYS", ", ".join("?" * len(some))), *some))
        self._connection.commit()
        return [msgspec.msgpack.decode(found[key]) if key in found else None for key in keys]

    def multi_put(self, owner: Owner, keys: Sequence[str], values: Sequence[Any]) -> None:
        if not self._do(_OWN, _encode(list(keys)), *owner):
            self._connection.rollback()
            raise FencedError(
                f"another process has taken over {owner.task}: nothing was written to "
                f"{self._table!r}"
            )
        rows = [(key, _encode(value)) for key, value in zip(keys, values, strict=True)]
        with closing(self._connection.cursor()) as cursor:
            cursor.executemany(self._said(_PUT), rows)
        self._connection.commit()

    def _do(self, statement: str, *values: Any) -> list[Any]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(self._said(statement), values)
            return list(cursor.fetchall()) if cursor.description else []

    def _said(self, statement: str) -> str:
        for name, meant in (("TABLE_", self._table), ("BLOB_", self._blob), ("?", self._parameter)):
            statement = statement.replace(name, meant)
        return statement


_encode = msgspec.msgpack.encode
_AT_ONCE: Final = 500
"""Most keys of a query. SQLite allows about 30,000."""
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS TABLE_ (id TEXT PRIMARY KEY, value BLOB_ NOT NULL)",
    (
        "CREATE TABLE IF NOT EXISTS TABLE__lives "
        "(task TEXT PRIMARY KEY, life BIGINT NOT NULL, stored BLOB_ NOT NULL)"
    ),
)
_BEGIN: Final = (
    "INSERT INTO TABLE__lives (task, life, stored) VALUES (?, 1, ?) "
    "ON CONFLICT (task) DO UPDATE SET life = TABLE__lives.life + 1 RETURNING life, stored"
)
_GET: Final = "SELECT id, value FROM TABLE_ WHERE id IN (KEYS)"
_OWN: Final = "UPDATE TABLE__lives SET stored = ? WHERE task = ? AND life = ? RETURNING life"
"""Lock the task's row until the end of the transaction. So a new owner registers either before or
after it."""
_PUT: Final = (
    "INSERT INTO TABLE_ (id, value) VALUES (?, ?) "
    "ON CONFLICT (id) DO UPDATE SET value = excluded.value"
)
