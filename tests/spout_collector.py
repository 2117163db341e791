"""The base class of the spout collectors in tests."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kstorm.topology import Note, Placed


@dataclass
class SpoutCollector(ABC):
    """Splits a batch into tuples, and keeps errors."""

    capacity: int = 1_000_000
    errors: list[BaseException] = field(default_factory=list)
    why_failed: Note | None = None
    timed_out: bool = False

    @abstractmethod
    def emit(
        self,
        values: Sequence[Any],
        message_id: Any = None,
        stream: str = "default",
        task: int | None = None,
    ) -> Sequence[int]:
        """Keep a tuple."""

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        message_ids: Sequence[Any] | None = None,
        stream: str = "default",
    ) -> Placed:
        rows = list(zip(*columns, strict=True))
        for values, message_id in zip(rows, message_ids or [None] * len(rows), strict=True):
            self.emit(values, message_id, stream)
        return []

    @abstractmethod
    def dead_letter(self, reason: str, **letter: Any) -> None:
        """Keep a dead letter."""

    def report_error(self, error: BaseException) -> None:
        self.errors.append(error)
