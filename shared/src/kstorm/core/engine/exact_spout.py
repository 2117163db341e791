"""The engine of a spout process in an exactly-once topology.

A spout's position in its source is committed in the same transaction as its emits. So nothing is
ever emitted again. Completions only serve `ack`, `topology_max_spout_pending` and metrics.
"""

from collections.abc import Mapping
from typing import Any

from kstorm.core.engine.effects import Changes, Effect, Positions, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.epochs import MOST_UNITS, EpochEngine
from kstorm.core.engine.slot import Slot
from kstorm.core.engine.spout import SpoutEngine
from kstorm.core.engine.units import Unit
from kstorm.core.exact.spout_task import ExactSpoutTask
from kstorm.core.spout_task import SpoutTask
from kstorm.core.tasks import Steps
from kstorm.topology import Positioned


class ExactSpoutEngine(EpochEngine[SpoutTask], SpoutEngine):
    """The spout tasks of one process. Their spouts are `Positioned`."""

    make_spout_task = ExactSpoutTask

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._positions: Positions = {}

    def make_task(self, slot: Slot[SpoutTask]) -> Steps:
        """Make the task, and let the ackers drop the trees of its earlier run."""
        self.outbox.beginnings.add(self.topology.task_ids(self.component)[slot.index])
        return super().make_task(slot)

    @property
    def due(self) -> float:  # type: ignore[override] # computed here, an attribute in the base
        return min(self.cut_due, self.next_turn)

    def _begin_turn(self) -> None:
        """Emit like any spout, but pause while too much waits to be written."""
        if len(self._units) >= MOST_UNITS:
            self.rest = self._interval
            self.next_turn = self.now + self.rest
        else:
            super()._begin_turn()

    def checkpoint(self, now: float) -> list[Effect]:
        """Cut an epoch before it is due."""
        self._next_cut = self.now = now
        return self._turn()

    def _flush(self, unit: Unit) -> None:
        if (
            self.outbox.has_tuples or self.outbox.has_acks or self.outbox.letters
        ) and self._now_at():
            self._hold(unit)
        unit.close()

    def let_go(self, slot: Slot[SpoutTask]) -> Routine:
        """Release a spout task:
        1. It stops emitting.
        2. Its emits are committed, with its position.
        3. The spout closes. From here on, no transaction includes the task.
        """
        task = slot.task
        yield from self._run(lambda: self._last_call(task, task.deactivate(), "in deactivate"))  # 1
        yield from self._settle()  # 2
        self.journal.info("spout_drained", partitions=[slot.index], trees_left=task.in_flight)
        yield from self._run(lambda: self._last_call(task, self._close(task), "in close"))  # 3
        yield from self._take_out(slot)

    # The epoch.

    @property
    def _has_any(self) -> bool:
        """True if there is anything to write and a spout knows a position.

        Without offsets, Kafka cannot fence a transaction. A process that has lost its tasks could
        then still report their start to the ackers, and the ackers would believe it.
        """
        return super()._has_any and bool(self._now_at())

    def has_news(self) -> bool:
        return self._positions != self._now_at()

    def cut(self) -> tuple[Changes, Mapping[int, int], Positions]:
        self._positions = self._now_at()
        return {}, {}, self._positions

    def _now_at(self) -> Positions:
        return {
            place: at
            for slot in self.slots.values()
            if slot.owned
            for place, at in _spout(slot).positions().items()
        }

    def after_commit(self, transact: Transact) -> Routine:
        """Report the committed positions to the spouts."""
        for slot in self.slots.values():
            if slot.alive:
                _spout(slot).positions_committed(transact.positions)
        yield from ()


def _spout(slot: Slot[SpoutTask]) -> Positioned:
    spout = slot.task.spout
    assert isinstance(spout, Positioned), "refused when the topology was built"
    return spout
