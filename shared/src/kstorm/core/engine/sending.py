"""Base of the engines whose tasks emit: one outbox collects the sends of the whole process."""

from collections.abc import Mapping, Sequence
from typing import Any

from kstorm.core.engine.effects import Effect
from kstorm.core.engine.engine import Engine, Routine
from kstorm.core.engine.event_time import ProcessTime
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.leaving import Leaving
from kstorm.core.engine.tenure import T, TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import OutgoingRecord
from kstorm.topology import Topology


class SendingEngine(Engine[T]):
    leaving: Leaving[T]
    """The policy. Each kind of engine sets it."""

    def __init__(self, topology: Topology, component: str, journal: Journal, **more: Any) -> None:
        super().__init__(topology, component, journal, **more)
        self.outbox = Outbox(topology)
        self.time = ProcessTime(self)
        """The watermarks of the tasks."""

    def sends_as(self, instance: str) -> None:
        self.outbox.by = instance

    @property
    def sent(self) -> Mapping[tuple[str, str], int]:
        return self.outbox.sent

    @property
    def due(self) -> float:  # type: ignore[override] # computed here, an attribute in the base
        return self.leaving.due

    @property
    def held_back(self) -> bool:
        return self.leaving.held_back

    @property
    def waits_for_checkpoint(self) -> bool:
        """True if any results can be sent only with a checkpoint, or wait for the next tick."""
        return self.leaving.waits_for_checkpoint or bool(self.outbox.handed_over)

    def checkpoint(self, now: float) -> list[Effect]:
        """Store and commit before it is due."""
        return self.leaving.checkpoint(now)

    def resume(self, tenure: TaskTenure[T]) -> Routine:
        yield from self.leaving.resume(tenure)

    def let_go(self, tenure: TaskTenure[T]) -> Routine:
        yield from self.leaving.let_go(tenure)

    def send_now(self, unit: Unit, records: Sequence[OutgoingRecord]) -> None:
        """Send records immediately, regardless of the policy."""
        super()._send(unit, records)

    def _send(self, unit: Unit, records: Sequence[OutgoingRecord]) -> None:
        self.leaving.send(unit, records)

    def _flush(self, unit: Unit) -> None:
        """Flush the emits and acks of a unit, after the calls of other threads."""
        self.outbox.take_over()
        self.leaving.flush(unit)

    def _turn(self) -> list[Effect]:
        self.leaving.before_turn()
        return super()._turn()

    def _report_too_large(self) -> None:
        """Report tuples that do not fit into a record. Their trees were failed."""
        for found in self.outbox.too_large:
            self.journal.error(found.error(), "emitting", found.task)
        self.outbox.too_large.clear()
