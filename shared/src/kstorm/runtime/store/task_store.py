"""What the tasks of a process keep: a table on the local disk, and the checkpoints that make it durable.

It carries out an engine's `Open`, `Transact`, `Keep` and `Close` for the kinds of tasks that keep something.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from kstorm.core.engine import Record
from kstorm.core.engine.effects import Changes, Keep, Transact
from kstorm.core.recovery import Copy
from kstorm.runtime.kafka.checkpoints import CheckpointWriter
from kstorm.runtime.kafka.records import record_of
from kstorm.runtime.service.log import Logger
from kstorm.runtime.service.metrics import Sample
from kstorm.runtime.store.backend import AT_ONCE, Opened, StateBackend


class TaskStore:
    """Used on the event loop only."""

    def __init__(
        self, table: StateBackend, changelog: str, log: Logger, now: Callable[[], float] = time.time
    ) -> None:
        """`now`: the Unix time."""
        self._table, self._changelog, self._log, self._now = table, changelog, log, now
        self._opening: dict[int, asyncio.Future[Opened]] = {}
        self._began = 0.0  # the wall clock when the last transaction began
        self._fenced: Iterable[
            int
        ] = ()  # the tasks whose offsets it had: if it was accepted, they were this process's
        self._current: dict[int, float] = {}  # by task, the beginning of the last checkpoint
        self._writer: CheckpointWriter

    def lend(self, writer: CheckpointWriter) -> None:
        """Takes the writer of checkpoints, which is open."""
        self._writer = writer

    async def open(self, task: int) -> Iterable[tuple[Record, str]]:
        """Brings a task's part of the table up to date; returns the records of the changelog that were refused, and why."""
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
        return [(record_of(message), why) for message, why in opened.refused]

    def abandon(self, task: int) -> None:
        """Has an `open` under way end soon."""
        if task in self._opening:
            self._opening[task].cancel()

    def get(self, task: int, key: bytes) -> bytes | None:
        """The stored value of a key; None if there is none."""
        return self._table.get(task, key)

    def items(
        self, task: int, start: bytes = b"", at_once: int = AT_ONCE
    ) -> Iterable[tuple[bytes, bytes]]:
        """Every stored pair of a task whose key is not before `start`, so many in memory at a time."""
        return self._table.items(task, start, at_once)

    def copy(self, task: int) -> Copy | None:
        """See `StateBackend.copy`; with the beginning of the last checkpoint, whether it changed something of this task or not."""
        copy = self._table.copy(task)
        return copy and copy._replace(current=max(copy.current, self._current.get(task, 0.0)))

    async def transact(self, effect: Transact) -> Mapping[int, int]:
        """Writes a checkpoint; returns the changelog's offset that it reaches, by task."""
        self._began, self._fenced = self._now(), effect.offsets
        return await self._writer.write(self._changelog, effect)

    def keep(self, effect: Keep) -> None:
        """Writes a committed checkpoint to the disk, which is current as of its beginning: what another process writes, should
        this one be slow from here on, comes later."""
        changes: Changes = effect.changes
        for task, reached in effect.reached.items():
            self._table.keep(task, changes[task], reached, self._began)
        for task in self._fenced:
            if task not in effect.reached:
                self._table.renew(task, self._began)
            self._current[task] = self._began

    def close(self, task: int) -> None:
        """Lets go of the files of a task."""
        self._table.close(task)
        self._current.pop(task, None)

    def end(self) -> None:
        """Waits for the transaction under way."""
        self._writer.close()

    def samples(self) -> Iterable[Sample]:
        """What was written."""
        yield from self._writer.samples()
