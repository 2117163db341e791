"""A task as one process has it, from its assignment to its release."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from msgspec import Struct

from kstorm.core.engine.units import Progress

T = TypeVar("T")


class Record(Struct, frozen=True):
    """A record of an input topic."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    sent: float = 0.0
    """When it was sent, in seconds of the wall clock; 0 if that is not known."""
    undecodable: str = ""
    """Why it has no value: it stands for a batch of which no record can be read."""
    offsets: int = 1
    """How many offsets it stands for."""

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + self.offsets


class Phase(Enum):
    """Where a task is on its way through a process."""

    OPENING = auto()
    """What it stands on is being recovered."""
    PREPARING = auto()
    """Its component's `open` or `prepare` is running."""
    WORKING = auto()
    CLOSING = auto()
    """All of it is stored; what is left is to tell the group."""
    GONE = auto()
    """Dropped: nothing of it may be used."""


@dataclass(eq=False)
class Slot(Generic[T]):
    """One tenure of a task: if the task comes back to the process, it has another slot."""

    index: int
    """The task among its component's, from 0; also its partition."""
    progress: Progress
    phase: Phase = Phase.OPENING
    leaving: bool = False
    """Whether it has to go: nothing more is executed for it."""
    _task: T | None = None

    @property
    def task(self) -> T:
        """The task; only from `PREPARING` on."""
        assert self._task is not None, f"the task {self.index} is still being recovered"
        return self._task

    @task.setter
    def task(self, task: T) -> None:
        self._task = task

    @property
    def owned(self) -> bool:
        """Whether its task is made, and what it does is written for this process."""
        return self._task is not None and self.phase in (Phase.PREPARING, Phase.WORKING)

    @property
    def works(self) -> bool:
        """Whether it takes work."""
        return self.phase is Phase.WORKING and not self.leaving

    @property
    def alive(self) -> bool:
        """Whether its task may be asked for anything, although it may have to go."""
        return self.phase is Phase.WORKING
