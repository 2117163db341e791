"""A task in a process, and the items of work that the consumer hands over."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from confluent_kafka import Message

from kstorm.runtime.log import Logger
from kstorm.runtime.progress import Progress

T = TypeVar("T")


@dataclass
class TaskSlot(Generic[T]):
    """A task that this process runs now."""

    partition: int
    task: T
    active: bool = True
    """False once it has to go: nothing more is executed."""
    progress: Progress = field(default_factory=Progress)
    first_offset: int = -1
    """Of the first record that this process read of the task; -1 while there is none."""

    @property
    def safe_offset(self) -> int:
        """Input before this offset is done; -1 if nothing is known."""
        self.progress.advance()
        return max(self.progress.next_offset, self.first_offset)


class Totals(Generic[T]):
    """Sums of what the tasks of a process count, by name; those that went are still in them."""

    def __init__(self, slots: Mapping[int, TaskSlot[T]], counts: Callable[[T], Mapping[str, int]]) -> None:
        """Of the tasks in `slots`, at any time; `counts` says what one has counted."""
        self._slots, self._counts = slots, counts
        self._gone: Counter[str] = Counter()

    def keep(self, task: T) -> None:
        """A task is about to go."""
        self._gone.update(self._counts(task))

    def now(self) -> Counter[str]:
        """The sums; 0 for what nothing has counted yet."""
        totals = Counter(self._gone)
        for slot in self._slots.values():
            totals.update(self._counts(slot.task))
        return totals


def size_of(item: list[tuple[Any, list[Message]]]) -> tuple[int, int]:
    """Records and bytes of an item."""
    return sum(len(records) for _, records in item), sum(len(record) for _, records in item for record in records)


def own_metrics(component: Any) -> dict[str, float]:
    """What a spout or bolt itself counts, if it does (`KafkaSpout.metrics`, `KafkaBolt.metrics`)."""
    metrics: Callable[[], dict[str, float]] = getattr(component, "metrics", dict)
    return metrics() if callable(metrics) else {}


def log_emits(collector: Any, log: Logger, task: int) -> None:
    """`topology_debug`: logs every emit of a task."""

    def observe(stream: str, tuples: Iterable[Sequence[Any]]) -> None:
        for values in tuples:
            log.info("emit", task=task, stream=stream, values=list(values))

    collector.observe = observe
