"""Counts of a process's tasks."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic

from kstorm.core.engine.slot import Slot, T
from kstorm.runtime.service.log import Logger


class Totals(Generic[T]):
    """Sums of what the tasks of a process count, by name; those that have left are still in them."""

    def __init__(
        self, slots: Mapping[int, Slot[T]], counts: Callable[[T], Mapping[str, int]]
    ) -> None:
        """Of the tasks in `slots`, at any time; `counts` says what one has counted."""
        self._slots, self._counts = slots, counts
        self._gone: Counter[str] = Counter()

    def keep(self, task: T) -> None:
        """A task is about to leave."""
        self._gone.update(self._counts(task))

    def now(self) -> Counter[str]:
        """The sums; 0 for what nothing has counted yet."""
        totals = Counter(self._gone)
        for slot in self._slots.values():
            if slot.alive:
                totals.update(self._counts(slot.task))
        return totals


def log_emits(collector: Any, log: Logger, task: int) -> None:
    """`topology_debug`: logs every emit of a task."""

    def observe(stream: str, tuples: Iterable[Sequence[Any]]) -> None:
        for values in tuples:
            log.info("emit", task=task, stream=stream, values=list(values))

    collector.observe = observe
