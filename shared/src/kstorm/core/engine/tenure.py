"""A task's tenure in one process, from its assignment to its release."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from msgspec import Struct

from kstorm.core.engine.units import InputProgress

T = TypeVar("T")


class InputRecord(Struct, frozen=True):
    """A record of an input topic."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    sent: float = 0.0
    """Send time in seconds (wall clock). 0 if unknown."""
    undecodable: str = ""
    """For the placeholder of an undecodable batch, the reason why it has no value. Otherwise empty."""
    offsets: int = 1
    """Number of offsets that it covers."""

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + self.offsets


class Phase(Enum):
    """Phase of a task's life in a process."""

    OPENING = auto()
    """Its state is being recovered."""
    PREPARING = auto()
    """Its component's `open` or `prepare` is running."""
    WORKING = auto()
    CLOSING = auto()
    """All its data is stored. Only the release to the group is left."""
    GONE = auto()
    """It has ended, and must not be used any more."""


@dataclass(eq=False)
class TaskTenure(Generic[T]):
    """One tenure of a task. If the task returns to the process, it gets another tenure."""

    index: int
    """Index of the task in its component, from 0. Also its partition."""
    progress: InputProgress
    phase: Phase = Phase.OPENING
    leaving: bool = False
    """True if the task has to leave, so that nothing more is executed for it."""
    _task: T | None = None

    @property
    def task(self) -> T:
        """The task. Available from `PREPARING` on."""
        assert self._task is not None, f"the task {self.index} is still being recovered"
        return self._task

    @task.setter
    def task(self, task: T) -> None:
        self._task = task

    @property
    def owned(self) -> bool:
        """True if the task exists and this process may write its results."""
        return self._task is not None and self.phase in (Phase.PREPARING, Phase.WORKING)

    @property
    def works(self) -> bool:
        """True if the task accepts work."""
        return self.phase is Phase.WORKING and not self.leaving

    @property
    def alive(self) -> bool:
        """True if the task may be used, even if it has to leave."""
        return self.phase is Phase.WORKING
