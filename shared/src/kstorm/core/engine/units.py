"""When what a piece of work caused has arrived, and which input offset may be committed because of that.

A `Unit` counts the records that were sent for it and that the broker has not confirmed. The units of one task finish in
order (`Progress`), so an input offset is only ever committed past work whose every effect is durable.
"""

from collections import deque
from collections.abc import Callable
from typing import Any


class Unit:
    """Some sends, and what to call once the broker has them all."""

    __slots__ = ("_closed", "_on_done", "_outstanding", "done", "executed")

    def __init__(self, on_done: Callable[[], Any] | None = None) -> None:
        self._on_done = on_done
        self._outstanding = 0
        self._closed = False
        self.done = False
        """Whether it is closed and everything that it sent has arrived."""
        self.executed = False
        """Whether all of it was executed, though its acks may wait."""

    def add(self, records: int = 1) -> None:
        """So many more records are on their way."""
        self._outstanding += records

    @property
    def arrived(self) -> bool:
        """Whether all results of it have arrived, though its acks may wait."""
        return self.done or (self.executed and not self._outstanding)

    def delivered(self, records: int = 1) -> None:
        """One has arrived, or so many."""
        self._outstanding -= records
        if self._closed and not self._outstanding:
            self._finish()

    def close(self) -> None:
        """No more records will be added."""
        self._closed = True
        if not self._outstanding:
            self._finish()

    def _finish(self) -> None:
        if not self.done:
            self.done = True
            if self._on_done is not None:
                self._on_done()


class Progress:
    """The units of one task, oldest first, each with the input offset that follows it."""

    def __init__(self, committed: int) -> None:
        """`committed`: the offset from which this task's input was read when the task came to this process."""
        self._open: deque[tuple[Unit, int]] = deque()
        self._finished = self._committed = committed

    def begin(self, unit: Unit, next_offset: int) -> None:
        """A unit covers the input before `next_offset`."""
        self._open.append((unit, next_offset))

    @property
    def finished(self) -> int:
        """The input before this offset is done: the one behind the last unit of an unbroken row of finished ones."""
        while self._open and self._open[0][0].done:
            self._finished = self._open.popleft()[1]
        return self._finished

    @property
    def arrived(self) -> int:
        """The input before this offset is executed and its results have arrived, though acks of it may wait for a checkpoint."""
        offset = self.finished
        for unit, behind in self._open:
            if not unit.arrived:
                break
            offset = behind
        return offset

    @property
    def begun(self) -> int:
        """The input before this offset has been worked on."""
        return self._open[-1][1] if self._open else self._finished

    @property
    def committed(self) -> int:
        """The last offset that was handed over for committing, or the one to begin with."""
        return self._committed

    def commit(self, offset: int) -> int:
        """An offset is handed over for committing; returns it, or the last one if that is ahead of it."""
        self._committed = max(self._committed, offset)
        return self._committed
