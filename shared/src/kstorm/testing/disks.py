"""Simulated local disks. They stand for RocksDB: a cache of the changelogs, never ahead of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kstorm.core.recovery import ChangelogState, LocalCopy, plan_recovery
from kstorm.testing.logs import BrokerLogs, Change, TopicPartition, TransactionFate


@dataclass
class DiskTable:
    """A disk's copy of one changelog partition."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    copy: LocalCopy | None = None

    def apply(self, changes: Iterable[Change]) -> None:
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


class Disk:
    """The disk of one host. It survives the host's processes, unless a test says otherwise."""

    def __init__(self, tables: dict[TopicPartition, DiskTable] | None = None) -> None:
        self._tables = {} if tables is None else tables

    def recover(
        self, logs: BrokerLogs, place: TopicPartition, high: int, now: float, tombstone_secs: float
    ) -> None:
        """Recover a partition up to the offset before `high`. No transaction below it is open."""
        table = self._tables.setdefault(place, DiskTable())
        changelog = logs.changelog(place)
        log = ChangelogState(logs.topic_id(place[0]), 0, high, tombstone_secs)
        how = plan_recovery(table.copy, log, now)
        if how.distrust:
            table.rows.clear()
        committed = (
            written.change
            for written in changelog[how.start : high]
            if written.transaction.fate is TransactionFate.COMMITTED
            and not (written.is_open or written.compacted)
        )
        table.apply(committed)
        table.copy = LocalCopy(log.topic, high - 1, now)

    def rows(self, place: TopicPartition) -> dict[bytes, bytes]:
        return self._tables[place].rows

    def keep(
        self, place: TopicPartition, changes: Iterable[Change], reached: int, now: float
    ) -> None:
        """Apply changes that the changelog contains up to offset `reached`."""
        table = self._tables[place]
        table.apply(changes)
        assert table.copy is not None
        table.copy = table.copy._replace(reached=max(table.copy.reached, reached), current=now)

    def duplicate(self) -> "Disk":
        """Return a snapshot, to be restored later."""
        return Disk(
            {place: replace(table, rows=dict(table.rows)) for place, table in self._tables.items()}
        )

    def strange(self) -> "Disk":
        """Return a disk of another topology: table names and offsets are the same, but no rows."""
        return Disk(
            {
                place: DiskTable({}, table.copy and table.copy._replace(topic=b"another"))
                for place, table in self._tables.items()
            }
        )


class DiskRows:
    """A disk's copy of one changelog, by task."""

    def __init__(self, disk: Disk, changelog: str) -> None:
        self._disk, self._changelog = disk, changelog

    def get(self, task: int, key: bytes) -> bytes | None:
        return self._disk.rows((self._changelog, task)).get(key)

    def items(self, task: int, start: bytes = b"") -> Iterable[tuple[bytes, bytes]]:
        rows = self._disk.rows((self._changelog, task))
        return [pair for pair in sorted(rows.items()) if pair[0] >= start]
