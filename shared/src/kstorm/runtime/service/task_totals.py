"""Counters of a process's tasks."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic

from kstorm.core.engine.tenure import T, TaskTenure
from kstorm.runtime.base.log import Logger


class TaskTotals(Generic[T]):
    """Sums of the tasks' counters by name, including those of tasks that have left the process."""

    def __init__(
        self, tenures: Mapping[int, TaskTenure[T]], counts: Callable[[T], Mapping[str, int]]
    ) -> None:
        """`tenures` contains the current tasks. `counts` returns the counters of one task."""
        self._tenures, self._counts = tenures, counts
        self._gone: Counter[str] = Counter()

    def keep(self, task: T) -> None:
        """Keep the counters of a task that is about to leave."""
        self._gone.update(self._counts(task))

    def now(self) -> Counter[str]:
        """Return the current sums. Counters that do not exist yet are 0."""
        totals = Counter(self._gone)
        for tenure in self._tenures.values():
            if tenure.alive:
                totals.update(self._counts(tenure.task))
        return totals


def log_emits(collector: Any, log: Logger, task: int) -> None:
    """Log every emit of a task, for `topology_debug`."""

    def observe(stream: str, tuples: Iterable[Sequence[Any]]) -> None:
        for values in tuples:
            log.info("emit", task=task, stream=stream, values=list(values))

    collector.observe = observe
