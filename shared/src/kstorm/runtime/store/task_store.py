"""The storage of a process's tasks: a table on the local disk, and the checkpoints that make it
durable.

It executes an engine's `Open`, `Transact`, `ApplyToStore` and `Close` for tasks with storage.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import ApplyToStore, Changes, Transact
from kstorm.core.recovery import LocalCopy
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.metrics import Sample
from kstorm.runtime.kafka.checkpoint_writer import CheckpointWriter
from kstorm.runtime.kafka.records import record_of
from kstorm.runtime.store.backend import AT_ONCE, OpenedPartition, StateBackend

_TOLD_SECS: Final = 120.0


class TaskStore:
    """Used on the event loop only."""

    def __init__(
        self,
        table: StateBackend,
        changelog: str,
        log: Logger,
        now: Callable[[], float] = time.time,
        *,
        keeps_disk: bool = True,
    ) -> None:
        """`now` returns the Unix time. `keeps_disk`: the disk outlives the process."""
        self._keeps_disk = keeps_disk
        self._table, self._changelog, self._log, self._now = table, changelog, log, now
        self._opening: dict[int, asyncio.Future[OpenedPartition]] = {}
        self._began = 0.0  # Unix time at the start of the last transaction
        # Tasks whose offsets were in the last transaction. If it was committed, this process owned
        # them.
        self._fenced: Iterable[int] = ()
        self._current: dict[int, float] = {}  # the start of each task's last checkpoint
        self._restored: dict[int, tuple[float, int]] = {}  # time and changes, without a local copy
        self._writer: CheckpointWriter

    def lend(self, writer: CheckpointWriter) -> None:
        """Set the writer of checkpoints, which must be open."""
        self._writer = writer

    async def open(self, task: int) -> Iterable[tuple[InputRecord, str]]:
        """Recover a task's partition. Return the rejected records of the changelog, with the
        reason."""
        started = time.monotonic()
        opening = self._opening[task] = asyncio.ensure_future(self._table.open(task))
        await asyncio.wait([opening])
        del self._opening[task]
        if opening.cancelled():
            self._log.info("recovery_abandoned", partition=task)
            return ()
        opened = opening.result()
        seconds = round(time.monotonic() - started, 3)
        self._log.info("recovered", partition=task, records=opened.records, seconds=seconds)
        if opened.whole and opened.records and self._keeps_disk:
            self._restored[task] = self._now(), opened.records
        return [(record_of(message), why) for message, why in opened.refused]

    def restored(self) -> str:
        """Describe the tasks that were recovered without a local copy in the last minutes, or ""."""
        since = self._now() - _TOLD_SECS
        tasks = {task: changes for task, (at, changes) in self._restored.items() if at > since}
        if not tasks:
            return ""
        noun, listed = "tasks" if len(tasks) > 1 else "task", ", ".join(map(str, sorted(tasks)))
        return (
            f"has recovered {noun} {listed} from {sum(tasks.values()):,} changes in Kafka, because "
            "its disk had no copy"
        )

    def abandon(self, task: int) -> None:
        """Cancel a running `open`."""
        if task in self._opening:
            self._opening[task].cancel()

    def get(self, task: int, key: bytes) -> bytes | None:
        return self._table.get(task, key)

    def items(
        self, task: int, start: bytes = b"", at_once: int = AT_ONCE
    ) -> Iterable[tuple[bytes, bytes]]:
        return self._table.items(task, start, at_once)

    def copy(self, task: int) -> LocalCopy | None:
        # The last checkpoint also proves that the copy is current, even if it did not change this
        # task.
        copy = self._table.copy(task)
        return copy and copy._replace(current=max(copy.current, self._current.get(task, 0.0)))

    async def transact(self, effect: Transact) -> Mapping[int, int]:
        """Write a checkpoint. Return the changelog offset that it reaches, by task."""
        self._began, self._fenced = self._now(), effect.offsets
        return await self._writer.write(self._changelog, effect)

    def keep(self, effect: ApplyToStore) -> None:
        """Store a committed checkpoint on disk.

        The copy counts as current as of the start of the checkpoint. If this process is slow after
        that, another process may have written later changes.
        """
        changes: Changes = effect.changes
        for task, reached in effect.reached.items():
            self._table.keep(task, changes[task], reached, self._began)
        for task in self._fenced:
            if task not in effect.reached:
                self._table.renew(task, self._began)
            self._current[task] = self._began

    def close(self, task: int) -> None:
        self._table.close(task)
        self._current.pop(task, None)

    def end(self) -> None:
        """Wait for the running transaction."""
        self._writer.close()

    def samples(self) -> Iterable[Sample]:
        yield from self._writer.samples()
