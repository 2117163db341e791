"""Which input offset of a task may be committed: the one behind the last unit of an unbroken row of finished ones."""

from collections import deque

from kstorm.runtime.delivery import WorkUnit


class Progress:
    """The units of one task, oldest first, each with the input offset that follows it."""

    def __init__(self) -> None:
        self._open: deque[tuple[WorkUnit, int]] = deque()
        self.next_offset = -1
        """Offset to commit; -1 while nothing was finished."""
        self.committed = -1

    def begin(self, unit: WorkUnit, last_offset: int) -> None:
        """A unit covers the input up to `last_offset`, inclusive."""
        self._open.append((unit, last_offset + 1))

    def advance(self) -> None:
        """Takes note of finished units."""
        while self._open and self._open[0][0].done:
            self.next_offset = self._open.popleft()[1]

    @property
    def begun(self) -> int:
        """The input offset that follows the newest unit; -1 while there was none."""
        return self._open[-1][1] if self._open else self.next_offset

    def to_commit(self) -> int | None:
        """The offset to commit, if it is another than the last one that this returned."""
        self.advance()
        if self.next_offset == self.committed:
            return None
        self.committed = self.next_offset
        return self.next_offset
