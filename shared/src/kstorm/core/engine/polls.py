"""Input that is executed as one job: one poll, or several that waited for the engine.

Polls are small while the input arrives evenly. While the engine is busy, it joins waiting polls.
Results are sent once per job, and a few large frames cost less than many small ones.
"""

from collections.abc import Sequence
from typing import Generic

from kstorm.core.engine.tenure import InputRecord, T, TaskTenure
from kstorm.core.engine.units import Unit

MOST_FRAMES, MOST_BYTES = 1000, 256 * 1024
"""Polls are joined up to this size."""

Item = Sequence[tuple[TaskTenure[T], Sequence[InputRecord]]]
"""Records of one poll, by task."""


def measure(item: Item[T]) -> tuple[int, int]:
    """Return the number of records of a poll, and their bytes."""
    number = size = 0
    for _, records in item:
        number += len(records)
        for record in records:
            size += len(record.value or b"")
    return number, size


class JoinedPolls(Generic[T]):
    """The records of some polls, and how far each task has executed its own."""

    __slots__ = ("_polls", "began", "frames", "number", "reached", "rest", "size", "unit")

    def __init__(self) -> None:
        self.frames: dict[TaskTenure[T], list[InputRecord]] = {}
        self.number = self.size = 0
        """Records, and their bytes."""
        self.unit = Unit(self._delivered)
        """Done when all results of this job have arrived."""
        self.reached: dict[TaskTenure[T], int] = {}
        """By task, the offset after the last executed record."""
        self.rest: list[tuple[TaskTenure[T], Sequence[InputRecord]]] = []
        """Records left for another job."""
        self.began = 0.0
        """Start time of its execution."""
        self._polls: list[Unit] = []

    def join(self, item: Item[T], number: int, size: int, unit: Unit) -> None:
        """Add a poll of `number` records with `size` bytes. Its unit is done when all its results
        have arrived."""
        self._add(item, number, size)
        unit.add()
        self._polls.append(unit)

    @property
    def full(self) -> bool:
        return self.number >= MOST_FRAMES or self.size >= MOST_BYTES

    def close(self) -> "JoinedPolls[T] | None":
        """All its results have been sent. Returns the job for the rest, if there is any."""
        rest = self.rest
        self.frames, self.rest = {}, []  # until the results have arrived, only the units are needed
        if not rest:
            for unit in self._polls:
                unit.close()
            return None
        follower: JoinedPolls[T] = JoinedPolls()
        follower._add(rest, *measure(rest))
        for unit in self._polls:
            unit.add()
        follower._polls = self._polls
        return follower

    def _add(self, item: Item[T], number: int, size: int) -> None:
        for tenure, records in item:
            self.frames.setdefault(tenure, []).extend(records)
        self.number += number
        self.size += size

    def _delivered(self) -> None:
        for unit in self._polls:
            unit.delivered()
