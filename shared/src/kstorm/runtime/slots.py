"""A task in a process, and the items of work that the consumer hands over."""

from collections.abc import Iterable, Sequence
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


def size_of(item: list[tuple[Any, list[Message]]]) -> tuple[int, int]:
    """Records and bytes of an item."""
    return sum(len(records) for _, records in item), sum(len(record) for _, records in item for record in records)


def log_emits(collector: Any, log: Logger, task: int) -> None:
    """`topology_debug`: logs every emit of a task."""

    def observe(stream: str, tuples: Iterable[Sequence[Any]]) -> None:
        for values in tuples:
            log.info("emit", task=task, stream=stream, values=list(values))

    collector.observe = observe
