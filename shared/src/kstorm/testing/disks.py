"""The local disks of simulated processes: what RocksDB holds, a cache of the changelogs and never ahead of them."""

from kstorm.core.recovery import recovery
from kstorm.testing.logs import Logs, Place


class Table:
    """One partition of a changelog as one disk has it."""

    def __init__(self, rows: dict[bytes, bytes] | None = None, reached: int = -1) -> None:
        self.rows = {} if rows is None else rows
        self._reached = reached  # the offset that the rows include

    def apply(self, offset: int, key: bytes, value: bytes | None) -> None:
        """Takes over one record of the changelog."""
        self._reached = offset
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

    def recover(self, logs: Logs, place: Place) -> None:
        """Catches up with the changelog."""
        changes = logs.changes(place)
        start, from_nothing = recovery(self._reached, 0, len(changes))
        if from_nothing:
            self.rows.clear()
        for offset in range(start, len(changes)):
            self.apply(offset, *changes[offset])

    def copy(self) -> "Table":
        """As it is now."""
        return Table(dict(self.rows), self._reached)


class Disk:
    """The disk of one process; it survives the process, unless a test says otherwise."""

    def __init__(self, tables: dict[Place, Table] | None = None) -> None:
        self._tables = {} if tables is None else tables

    def open(self, logs: Logs, place: Place) -> dict[bytes, bytes]:
        """The rows of a changelog's partition, recovered to its end."""
        table = self._tables.setdefault(place, Table())
        table.recover(logs, place)
        return table.rows

    def apply(self, place: Place, offset: int, key: bytes, value: bytes | None) -> None:
        """Takes over a record that the changelog has at `offset`."""
        self._tables[place].apply(offset, key, value)

    def copy(self) -> "Disk":
        """A copy of it as it is now, to be put back later."""
        return Disk({place: table.copy() for place, table in self._tables.items()})
