"""Lets a test's spout read an outside list exactly once: its task's share of the list, from a
committed position."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from kstorm.testing.processes import POSITION
from kstorm.testing.world import SimulatedWorld
from kstorm.topology import TopologyContext

T = TypeVar("T")

_SHARE: Final = "share"
"""Stands for a source topic. Each task has the partition with its index."""


class LogShare:
    """Every n-th item of a list that may grow. Task 1 of 3 has items 1, 4, 7 and so on."""

    def __init__(self, context: TopologyContext) -> None:
        self._index, self._every = context.task_index, context.total_tasks
        self._committed = context.resources[POSITION]
        self._at: int | None = None

    def next(self, items: Sequence[T]) -> tuple[int, T] | None:
        """Return the next item and its index in the list.

        Returns None if there is none now, or if the position is not known yet.
        """
        if self._at is None:
            found = self._committed((_SHARE, self._index))
            if found is None:
                return None
            self._at = max(found, 0)
        place = self._index + self._at * self._every
        if place >= len(items):
            return None
        self._at += 1
        return place, items[place]

    @property
    def place(self) -> int | None:
        """The index of the next item in the list. None if the position is not known yet."""
        return None if self._at is None else self._index + self._at * self._every

    @property
    def positions(self) -> Mapping[tuple[str, int], int]:
        """Positions for `Positioned.positions`. Empty until the committed position is known."""
        return {} if self._at is None else {(_SHARE, self._index): self._at}


def is_emitted(world: SimulatedWorld, spout: str, items: int) -> bool:
    """Return True if all items of a list are emitted and the positions of all shares committed."""
    tasks = world.topology.component(spout).num_tasks
    return all(
        max(world.position(spout, (_SHARE, task)) or 0, 0) == len(range(task, items, tasks))
        for task in range(tasks)
    )
