"""Tables on RocksDB that survive their process. They are Faust tables, but kstorm manages
partitions and changelog.

RocksDB is a cache of the changelog and never ahead of it. A change is first written to the
changelog. When its transaction is committed, the same records are written to RocksDB in one batch,
with the changelog offset that they reach. So recovery is the same after a kill, after the loss of a
disk, and with the disk of an earlier run. The partition is opened, and the changelog is read from
the offset of the local copy on. A copy that cannot be trusted (`kstorm.core.recovery`) is deleted
first. A record that kstorm cannot have written is skipped, so its key keeps the old value.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import faust

from kstorm.core.recovery import LocalCopy, plan_recovery
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.checkpoint_writer import Pair
from kstorm.runtime.store.backend import AT_ONCE, OpenedPartition
from kstorm.runtime.store.changelog import Changelog, ChangelogFindings, Check
from kstorm.runtime.store.faust_store import FaustStore

# A copy without changes is marked as current at this interval.
_RENEW_SECS: Final = 600.0


class RecoveringTable:
    """One table, used on the event loop only. `now` returns the Unix time."""

    def __init__(
        self,
        app: faust.App,
        name: str,
        changelog: str,
        partitions: int,
        settings: Settings,
        log: Logger,
        check: Check,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = FaustStore(app, name, partitions, settings.data_dir)
        self._changelog, self._settings, self._log, self._check, self._now = (
            changelog,
            settings,
            log,
            check,
            now,
        )
        self._copies: dict[int, LocalCopy] = {}  # the metadata stored in each open partition

    async def open(self, partition: int) -> OpenedPartition:
        # Each piece of the changelog is stored with the offset that it reaches.
        stop = threading.Event()
        recovering = asyncio.ensure_future(asyncio.to_thread(self._recover, partition, stop.is_set))
        try:
            copy, found, whole = await asyncio.shield(recovering)
        except BaseException:
            stop.set()
            await asyncio.wait([recovering])
            self._store.close(partition)
            raise
        self._copies[partition] = copy
        if found.left_out:
            self._log.warning(
                "changelog_records_refused", partition=partition, without_dead_letter=found.left_out
            )
        return OpenedPartition(found.records, found.refused, whole)

    def get(self, partition: int, key: bytes) -> bytes | None:
        return self._store.get(partition, key)

    def items(
        self, partition: int, start: bytes = b"", at_once: int = AT_ONCE
    ) -> Iterable[tuple[bytes, bytes]]:
        return self._store.items(partition, start, at_once)

    def copy(self, partition: int) -> LocalCopy | None:
        return self._copies.get(partition)

    def keep(self, partition: int, changes: Sequence[Pair], reached: int, current: float) -> None:
        self._note(partition, reached, current, changes)

    def renew(self, partition: int, current: float) -> None:
        known = self._copies.get(partition)
        if known is not None and current - known.current > _RENEW_SECS:
            self._note(partition, known.reached, current, ())

    def close(self, partition: int) -> None:
        self._copies.pop(partition, None)
        self._store.close(partition)

    def _note(self, partition: int, reached: int, current: float, changes: Iterable[Pair]) -> None:
        known = self._copies.get(partition)
        if known is None or reached < known.reached:
            # The partition was closed in the meantime. If it is open again, it has read the
            # changes.
            return
        copy = self._copies[partition] = LocalCopy(known.topic, reached, current)
        self._store.write(partition, changes, copy)

    def _recover(
        self, partition: int, stopped: Callable[[], bool]
    ) -> tuple[LocalCopy, ChangelogFindings, bool]:
        """Open a partition and recover it. Blocks, and touches nothing else of the table.

        The last value is True if there was no valid local copy.

        Once `stopped` returns True, the result is not used.
        """
        self._store.open(partition, stopped)
        asked = self._now()
        changelog = Changelog(self._changelog, partition, self._settings)
        log, kept = changelog.look(), self._store.copy(partition)
        plan = plan_recovery(kept, log, asked)
        if plan.distrust and self._store.empty(partition):
            self._log.warning(
                "local_copy_emptied",
                changelog=self._changelog,
                partition=partition,
                why=plan.distrust,
            )
        found = ChangelogFindings()
        if plan.start < log.high:

            def keep(changes: list[Pair], reached: int) -> None:
                self._store.write(partition, changes, LocalCopy(log.topic, reached, plan.since))

            found = changelog.read(plan.start, log.high, self._check, keep, stopped)
        current = LocalCopy(log.topic, log.high - 1, asked)
        if not stopped():
            self._store.write(partition, (), current)
        return current, found, kept is None or bool(plan.distrust)
