"""The local disks of simulated processes: what RocksDB holds, a cache of the changelogs and never ahead of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kstorm.core.recovery import Copy, Log, recovery
from kstorm.testing.logs import Change, Fate, Logs, TopicPartition


@dataclass
class Table:
    """One partition of a changelog as one disk has it."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    copy: Copy | None = None

    def apply(self, changes: Iterable[Change]) -> None:
        """Takes over records of the changelog."""
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


class Disk:
    """The disk of one host; it survives its processes, unless a test says otherwise."""

    def __init__(self, tables: dict[TopicPartition, Table] | None = None) -> None:
        self._tables = {} if tables is None else tables

    def recover(
        self, logs: Logs, place: TopicPartition, high: int, now: float, tombstone_secs: float
    ) -> None:
        """Brings a partition up to the offset before `high`; every transaction there has ended."""
        table = self._tables.setdefault(place, Table())
        changelog = logs.changelog(place)
        log = Log(logs.topic_id(place[0]), 0, high, tombstone_secs)
        how = recovery(table.copy, log, now)
        if how.distrust:
            table.rows.clear()
        committed = (
            written.change
            for written in changelog[how.start : high]
            if written.transaction.fate is Fate.COMMITTED
            and not (written.is_open or written.compacted)
        )
        table.apply(committed)
        table.copy = Copy(log.topic, high - 1, now)

    def rows(self, place: TopicPartition) -> dict[bytes, bytes]:
        """The rows of a partition."""
        return self._tables[place].rows

    def keep(
        self, place: TopicPartition, changes: Iterable[Change], reached: int, now: float
    ) -> None:
        """Takes over changes that the changelog has up to `reached`."""
        table = self._tables[place]
        table.apply(changes)
        assert table.copy is not None
        table.copy = table.copy._replace(reached=max(table.copy.reached, reached), current=now)

    def duplicate(self) -> "Disk":
        """As it is now, to be put back later."""
        return Disk(
            {place: replace(table, rows=dict(table.rows)) for place, table in self._tables.items()}
        )

    def strange(self) -> "Disk":
        """A disk with the same tables of another topology: nothing but their names and offsets is as here."""
        return Disk(
            {
                place: Table({}, table.copy and table.copy._replace(topic=b"another"))
                for place, table in self._tables.items()
            }
        )
