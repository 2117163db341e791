"""Counters of a process's tasks."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic

from kstorm.core.engine.slot import Slot, T
from kstorm.runtime.service.log import Logger


class Totals(Generic[T]):
    """Sums of the tasks' counters by name, including tasks that have left the process."""

    def __init__(
        self, slots: Mapping[int, Slot[T]], counts: Callable[[T], Mapping[str, int]]
    ) -> None:
        """`slots` has the current tasks. `counts` returns the counters of one task."""
        self._slots, self._counts = slots, counts
        self._gone: Counter[str] = Counter()

    def keep(self, task: T) -> None:
        """Keep the counters of a task that is about to leave."""
        self._gone.update(self._counts(task))

    def now(self) -> Counter[str]:
        """Return the current sums. Counters that do not exist yet are 0."""
        totals = Counter(self._gone)
        for slot in self._slots.values():
            if slot.alive:
                totals.update(self._counts(slot.task))
        return totals


def log_emits(collector: Any, log: Logger, task: int) -> None:
    """Log every emit of a task, for `topology_debug`."""

    def observe(stream: str, tuples: Iterable[Sequence[Any]]) -> None:
        for values in tuples:
            log.info("emit", task=task, stream=stream, values=list(values))

    collector.observe = observe
