"""Tables on RocksDB that survive their process: Faust tables whose partitions and changelog we drive.

The rule: RocksDB is a cache of the changelog, and never ahead of it. A change is first written to the changelog; when
its transaction is committed, the same records are written to RocksDB in one batch, with the changelog offset that they
reach. So a killed process, a lost disk and a disk of an older life all recover alike: open, read the changelog from the
offset that the local copy has, go on. A copy that is not to be trusted (`kstorm.core.recovery`) is emptied before. A
record that none of ours can have written is left out, so that what its key had stays.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kstorm.core.recovery import Copy, recovery
from kstorm.runtime.kafka.checkpoints import Pair
from kstorm.runtime.service.app import ChannelApp
from kstorm.runtime.service.log import Logger
from kstorm.runtime.service.settings import Settings
from kstorm.runtime.store.backend import AT_ONCE, Opened
from kstorm.runtime.store.changelog import Changelog, ChangelogFindings, Check
from kstorm.runtime.store.faust_store import FaustStore

_RENEW_SECS: Final = 600.0  # how often a copy to which nothing is written is noted to be current


class RecoveringTable:
    """One table, a `StateBackend`. Used on the event loop only; `now` is the Unix time."""

    def __init__(
        self,
        app: ChannelApp,
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
        self._copies: dict[int, Copy] = {}  # of the open partitions, as it is kept with each

    async def open(self, partition: int) -> Opened:
        """See `StateBackend.open`. What is read is kept piece by piece, each with the offset that it reaches."""
        stop = threading.Event()
        recovering = asyncio.ensure_future(asyncio.to_thread(self._recover, partition, stop.is_set))
        try:
            copy, found = await asyncio.shield(recovering)
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
        return Opened(found.records, found.refused)

    def get(self, partition: int, key: bytes) -> bytes | None:
        """See `StateBackend.get`."""
        return self._store.get(partition, key)

    def items(
        self, partition: int, start: bytes = b"", at_once: int = AT_ONCE
    ) -> Iterable[tuple[bytes, bytes]]:
        """See `StateBackend.items`."""
        return self._store.items(partition, start, at_once)

    def copy(self, partition: int) -> Copy | None:
        """See `StateBackend.copy`."""
        return self._copies.get(partition)

    def keep(self, partition: int, changes: Sequence[Pair], reached: int, current: float) -> None:
        """See `StateBackend.keep`."""
        self._note(partition, reached, current, changes)

    def renew(self, partition: int, current: float) -> None:
        """See `StateBackend.renew`."""
        known = self._copies.get(partition)
        if known is not None and current - known.current > _RENEW_SECS:
            self._note(partition, known.reached, current, ())

    def close(self, partition: int) -> None:
        """See `StateBackend.close`."""
        self._copies.pop(partition, None)
        self._store.close(partition)

    def _note(self, partition: int, reached: int, current: float, changes: Iterable[Pair]) -> None:
        known = self._copies.get(partition)
        if known is None or reached < known.reached:
            return  # it was closed while they were written, and perhaps opened again, which read them
        copy = self._copies[partition] = Copy(known.topic, reached, current)
        self._store.write(partition, changes, copy)

    def _recover(
        self, partition: int, stopped: Callable[[], bool]
    ) -> tuple[Copy, ChangelogFindings]:
        """Opens a partition and brings it up to date; once `stopped` says so, what it returns is not asked for. Blocks, and
        touches nothing else of the table."""
        self._store.open(partition, stopped)
        asked = self._now()
        changelog = Changelog(self._changelog, partition, self._settings)
        log, kept = changelog.look(), self._store.copy(partition)
        plan = recovery(kept, log, asked)
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
                self._store.write(partition, changes, Copy(log.topic, reached, plan.since))

            found = changelog.read(plan.start, log.high, self._check, keep, stopped)
        current = Copy(log.topic, log.high - 1, asked)
        if not stopped():
            self._store.write(partition, (), current)
        return current, found
