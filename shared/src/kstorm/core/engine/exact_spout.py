"""The engine of a spout process in an exactly-once topology.

A spout's position in its source is committed in the same transaction as its emits. So a message is
emitted again only if an operator replays its dead letter. Completions only serve `ack`,
`topology_max_spout_pending` and metrics.
"""

from collections.abc import Mapping
from typing import Any, Final

from kstorm.core.engine.effects import Changes, Effect, Positions, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.epochs import MOST_UNITS, Epochs
from kstorm.core.engine.spout_engine import SpoutEngine, SpoutLeaving
from kstorm.core.engine.tenure import TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.exactly_once.exact_spout_task import ExactSpoutTask
from kstorm.core.spout_task import SpoutTask
from kstorm.core.user_code import Steps
from kstorm.topology import Positioned
from kstorm.topology.event_time import NEVER, Mark

_EMPTY: Final = Mark(NEVER, idle=True)
"""The watermark of a task that is not waited for, and that has had no message."""


class SpoutEpochs(Epochs[SpoutTask], SpoutLeaving):
    """The policy of a spout process with exactly-once processing."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self._positions: Positions = {}

    def pauses(self) -> bool:
        """Return True while too much waits to be written."""
        if len(self.units) < MOST_UNITS:
            return False
        self._engine.rest = self.interval
        return True

    def checkpoint(self, now: float) -> list[Effect]:
        """Cut an epoch before it is due."""
        self._next_cut = self._engine.now = now
        effects: list[Effect] = self._engine._turn()
        return effects

    def flush(self, unit: Unit) -> None:
        outbox = self._engine.outbox
        has_output = outbox.has_tuples or outbox.has_acks or outbox.letters or outbox.records
        if has_output and self._now_at():
            super().flush(unit)
        unit.close()

    def let_go(self, tenure: TaskTenure[SpoutTask]) -> Routine:
        """Release a spout task:
        1. It stops emitting.
        2. Its emits are committed, with its position.
        3. The spout is closed. From then on, transactions exclude the task."""
        engine, task = self._engine, tenure.task
        yield from engine._run(
            lambda: engine._last_call(task, task.deactivate(), "in deactivate")
        )  # 1
        yield from self._settle()  # 2
        engine.journal.info("spout_drained", partitions=[tenure.index], trees_left=task.in_flight)
        yield from engine._run(
            lambda: engine._last_call(task, engine._close(task), "in close")
        )  # 3
        yield from self._take_out(tenure)

    # The epoch.

    @property
    def has_any(self) -> bool:
        """True if there is anything to write and a spout knows a position.

        Without offsets, Kafka cannot fence a transaction. A process that has lost its tasks could
        then still report their start to the ackers, which would accept the report. So such a
        process only writes that its tasks have no messages. Otherwise windows would wait for a task
        without partitions.
        """
        found = super().has_any
        if not found or self._now_at():
            return found
        time = self._engine.time
        return bool(time.sends and time.is_due and self._empty_tasks())

    def _empty_tasks(self) -> dict[int, Mark]:
        marks: dict[int, Mark] = self._engine.time.marks()
        return {task: mark for task, mark in marks.items() if mark == _EMPTY}

    def has_news(self) -> bool:
        return self._positions != self._now_at()

    def _drain(self) -> None:
        if self._now_at():
            super()._drain()

    def _marks(self) -> dict[int, Mark]:
        return super()._marks() if self._now_at() else self._empty_tasks()

    def before_records(self) -> None:
        for tenure in self._engine.tenures.values():
            if tenure.alive:
                _spout(tenure).before_commit()

    def cut(self) -> tuple[Changes, Mapping[int, int], Positions]:
        self._positions = self._now_at()
        return {}, {}, self._positions

    def _now_at(self) -> Positions:
        return {
            place: at
            for tenure in self._engine.tenures.values()
            if tenure.owned
            for place, at in _spout(tenure).positions().items()
        }

    def after_commit(self, transact: Transact) -> Routine:
        """Report the committed positions to the spouts."""
        for tenure in self._engine.tenures.values():
            if tenure.alive:
                _spout(tenure).positions_committed(transact.positions)
        yield from ()


class ExactSpoutEngine(SpoutEngine):
    """The spout tasks of one process. Their spouts are `Positioned`."""

    make_spout_task = ExactSpoutTask

    def make_leaving(self) -> SpoutLeaving:
        return SpoutEpochs(self)

    def make_task(self, tenure: TaskTenure[SpoutTask]) -> Steps:
        """Make the task, and let the ackers drop the trees of its earlier run."""
        self.outbox.beginnings.add(self.topology.task_ids(self.component)[tenure.index])
        return super().make_task(tenure)


def _spout(tenure: TaskTenure[SpoutTask]) -> Positioned:
    spout = tenure.task.spout
    assert isinstance(spout, Positioned), "refused when the topology was built"
    return spout
