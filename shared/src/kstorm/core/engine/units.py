"""Tracks when the results of a piece of work have arrived, and which input offset may be committed.

A `Unit` counts the records sent for it that the broker has not confirmed. The units of one task
finish in order (`InputProgress`). So an input offset is only committed once the effects of all earlier
work are durable.
"""

from collections import deque
from collections.abc import Callable
from typing import Any


class Unit:
    """A group of sends, with a callback for when the broker has confirmed them all."""

    __slots__ = ("_closed", "_on_done", "_outstanding", "done", "executed")

    def __init__(self, on_done: Callable[[], Any] | None = None) -> None:
        self._on_done = on_done
        self._outstanding = 0
        self._closed = False
        self.done = False
        """True once the unit is closed and everything it sent has arrived."""
        self.executed = False
        """True once the unit is fully executed. Its acks may still wait for a checkpoint."""

    def add(self, records: int = 1) -> None:
        self._outstanding += records

    @property
    def arrived(self) -> bool:
        """True once all results have arrived. Acks may still wait for a checkpoint."""
        return self.done or (self.executed and not self._outstanding)

    def delivered(self, records: int = 1) -> None:
        self._outstanding -= records
        if self._closed and not self._outstanding:
            self._finish()

    def close(self) -> None:
        """Declare that no more records will be added."""
        self._closed = True
        if not self._outstanding:
            self._finish()

    def _finish(self) -> None:
        if not self.done:
            self.done = True
            if self._on_done is not None:
                self._on_done()


class InputProgress:
    """The open units of one task, oldest first, each with the input offset that follows it."""

    def __init__(self, committed: int) -> None:
        """`committed`: the offset at which this process started to read the task's input."""
        self._open: deque[tuple[Unit, int]] = deque()
        self._finished = self._committed = committed

    def begin(self, unit: Unit, next_offset: int) -> None:
        """Add a unit that covers the input before `next_offset`."""
        self._open.append((unit, next_offset))

    @property
    def finished(self) -> int:
        """The input before this offset is finished. It is the end of the unbroken sequence of
        finished units."""
        while self._open and self._open[0][0].done:
            self._finished = self._open.popleft()[1]
        return self._finished

    @property
    def arrived(self) -> int:
        """The input before this offset is executed and its results have arrived.

        Acks may wait for a checkpoint.
        """
        offset = self.finished
        for unit, behind in self._open:
            if not unit.arrived:
                break
            offset = behind
        return offset

    @property
    def begun(self) -> int:
        """The input before this offset was started."""
        return self._open[-1][1] if self._open else self._finished

    @property
    def committed(self) -> int:
        """The last offset submitted for commit, or the initial one."""
        return self._committed

    def commit(self, offset: int) -> int:
        """Record that an offset is submitted for commit.

        Returns the highest offset submitted so far.
        """
        self._committed = max(self._committed, offset)
        return self._committed
