"""Policies that define when a process sends the results of its work.

There is one path of execution for both guarantees. They differ only in their policy, a `Leaving`,
which the engine calls at the end of each piece of work:

* with at least once, results are sent immediately: `Checkpoints` for bolts, `SpoutSends` for
  spouts;
* with exactly once, they are sent with the next epoch: `BoltEpochs` and `SpoutEpochs`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import Any, Generic

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.effects import Effect
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.tenure import T, TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.user_code import Steps


class Leaving(ABC, Generic[T]):
    """Sends the results of an engine's work, immediately or later.

    A policy is a part of its engine, and uses the engine's effects, jobs and routines.
    """

    def __init__(self, engine: Any) -> None:
        """`engine`: a `SendingEngine`."""
        self._engine = engine

    def send(self, unit: Unit, records: Sequence[OutgoingRecord]) -> None:
        """Send records as part of a unit of work."""
        self._engine.send_now(unit, records)

    @abstractmethod
    def flush(self, unit: Unit) -> None:
        """Work has ended, so send its emits and acks as part of the unit."""

    @abstractmethod
    def let_go(self, tenure: TaskTenure[T]) -> Routine:
        """End a task in order: store and send everything, or give up after a bounded time."""

    def resume(self, tenure: TaskTenure[T]) -> Routine:
        """Finish the work that the task's previous owner left."""
        yield from ()

    def before_turn(self) -> None:
        """Called after each event, before jobs and routines advance."""

    def checkpoint(self, now: float) -> list[Effect]:
        """Store and commit before it is due."""
        raise NotImplementedError

    @property
    def due(self) -> float:
        """Latest time of the next tick, for drivers with a slow timer."""
        return inf

    @property
    def held_back(self) -> bool:
        """True if no more work may start before something is written."""
        return False

    @property
    def waits_for_checkpoint(self) -> bool:
        """True if any results can be sent only with a checkpoint."""
        return False


class BoltLeaving(Leaving[BoltTask]):
    """The policy of a bolt process."""

    breaks_off = False
    """True if something must happen before the next frame of a poll. The rest of the poll then
    becomes a separate part."""
    bytes = 0
    """Bytes of input executed since they were last reset."""

    @abstractmethod
    def end_poll(self, unit: Unit) -> None:
        """A poll, or a part of one, was executed and flushed. Nothing more is added to its unit,
        except acks that wait."""

    def tick(self, now: float) -> None:
        """Start what is due by the clock."""

    def is_due(self, now: float) -> bool:
        """Return True if a job for due executions and late results is necessary."""
        return any(
            tenure.works and self.has_due(tenure, now) for tenure in self._engine.tenures.values()
        )

    def has_due(self, tenure: TaskTenure[BoltTask], now: float) -> bool:
        """Return True if the task has anything to execute now in addition to its input."""
        return tenure.task.tick_is_due(now)

    def due_steps(self, tenure: TaskTenure[BoltTask]) -> Steps:
        """Execute the due work of a task, except its input."""
        return tenure.task.tick(self._engine.now)
