"""The engine of a bolt's process in a topology that is processed exactly once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.bolt import BoltEngine
from kstorm.core.engine.effects import Changes, Effect, End, Fetch, Positions, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.epochs import EpochEngine
from kstorm.core.engine.slot import Record, Slot
from kstorm.core.engine.units import Unit
from kstorm.core.exact.state import UndoableState
from kstorm.core.exact.task import ExactBoltTask
from kstorm.core.exact.unfinished import read_pair
from kstorm.core.tasks import Steps
from kstorm.core.wire import TupleFrame, decode
from kstorm.errors import LostInputError

LoadUnfinished = Callable[[int], Iterable[tuple[bytes, bytes]]]
"""Gives what a task has not finished, from what is kept of it in this process."""


class ExactBoltEngine(EpochEngine[BoltTask], BoltEngine):
    """The bolt tasks of one process. Each keeps what it has not finished in a changelog, with its state if it has one."""

    make_bolt_task = ExactBoltTask

    def __init__(self, *args: Any, load_unfinished: LoadUnfinished, **more: Any) -> None:
        super().__init__(*args, **more)
        self.changelog = self.topology.state_topic(self.component)
        self._load_unfinished = load_unfinished
        self._number = 0
        self._worked_at = 0.0

    # Events.

    def tick(self, now: float) -> list[Effect]:
        """Tick tuples that are due, tuples that are to be tried again, and epochs."""
        self.now = now
        if not self._late and any(
            slot.works and _is_due(slot, now) for slot in self.slots.values()
        ):
            self._late = True
            unit = Unit()
            self._enqueue(lambda: self._tick_steps(unit), lambda: self._end_late(unit))
        return self._turn()

    def checkpoint(self, now: float) -> list[Effect]:
        """Cuts an epoch before it is due."""
        self._next_cut = self.now = now
        return self.tick(now)

    def _tick_steps(self, unit: Unit) -> Sequence[Steps]:
        due = [
            _exact(slot) for slot in self.slots.values() if slot.works and _is_due(slot, self.now)
        ]
        return [_retry_and_tick(task, self.now) for task in due]

    @property
    def breaks_off(self) -> bool:
        """An epoch is due, and can only be cut between two executions."""
        return not self._writing and self._is_due

    def _execute(self, slot: Slot[BoltTask], record: Record, unit: Unit) -> Steps:
        yield from super()._execute(slot, record, unit)
        self._bytes += len(record.value or b"")

    def _flush(self, unit: Unit) -> None:
        self._hold(unit)
        self._worked_at = self.now

    def _end_poll(self, poll: Any) -> None:
        super()._end_poll(poll)
        if self.stateful:
            poll.unit.close()
            self._held.clear()

    # Tasks.

    def make_task(self, slot: Slot[BoltTask]) -> Steps:
        """As of every bolt; the task can take back what it does to its state."""
        yield from super().make_task(slot)
        _exact(slot).state = cast("UndoableState | None", self.states.get(slot.index))

    def resume(self, slot: Slot[BoltTask]) -> Routine:
        """Goes on with what a former owner has left:
        1. the frames in which something is not finished are read again;
        2. what was held open is executed for the bolt's memory; what waits for its next attempt will be tried soon.
        """
        written = dict(self._load_unfinished(slot.index))
        if not written:
            return
        left = dict(read_pair(key, value) for key, value in written.items())
        fetch = Fetch(slot.index, sorted(left))  # 1
        self._effects.append(fetch)
        yield lambda: fetch.answer is not None
        records = {record.offset: record for record in fetch.answer or ()}
        if gone := sorted(left.keys() - records.keys()):
            self._effects.append(End(self._lost_input(slot.index, gone)))
            yield lambda: False
        frames = [
            (offset, decode(TupleFrame, records[offset].value), left[offset])
            for offset in sorted(left)
        ]
        task = _exact(slot)
        task.now = self.now
        yield from self._run(lambda: task.resume(frames, written))  # 2
        self._end_late(Unit())

    def _lost_input(self, task: int, offsets: list[int]) -> LostInputError:
        return LostInputError(
            f"task {task} of {self.component!r} has {len(offsets)} frames that are not finished and that the topic {self.topic!r} "
            f"has no more (partition {task}, offsets {offsets[:5]}): tuples were held for longer than the topic keeps its "
            f"records. To give them up, delete the changelog {self.changelog!r}; to keep more, raise the topic's retention.ms"
        )

    def let_go(self, slot: Slot[BoltTask]) -> Routine:
        """Ends a bolt task:
        1. the bolt cleans up; what it still holds, and what waits to be tried again, is written down for the next owner;
        2. all that it did is committed, its offsets with it;
        3. no transaction has a part in the task from then on.
        """
        unit = Unit()
        yield from self._run(lambda: self._cleanup(slot, unit))  # 1
        self._end_late(unit)
        yield from self._settle()  # 2
        yield from self._take_out(slot)  # 3

    # The epoch.

    def has_news(self) -> bool:
        """See `EpochEngine.has_news`."""
        return self.outbox.has_tuples or self.outbox.has_acks

    def cut(self) -> tuple[Changes, Mapping[int, int], Positions]:
        """See `EpochEngine.cut`."""
        owned = [
            slot for slot in self.slots.values() if slot.owned
        ]  # one that goes on with what was left emits, too
        changes = {}
        for slot in owned:
            state = self.states.get(slot.index)
            changed = [
                *(state.take_changes() if state is not None else ()),
                *_exact(slot).rows.changes(),
            ]
            if changed:
                changes[slot.index] = changed
        return (
            changes,
            {slot.index: slot.progress.commit(slot.progress.begun) for slot in owned},
            {},
        )

    def interval_from_now(self) -> float:
        """See `EpochEngine.interval_from_now`. Work comes in bursts, an epoch of the component before at a time, and a cut amid one
        leaves the rest of it waiting for a whole interval. So cuts move, step by step, to a tenth of an interval behind bursts."""
        too_late = min(self.now - self._worked_at, self._interval) - self._interval / 10
        return self._interval - too_late / 2

    def before_cut(self) -> Routine:
        """The bolt's `pre_prepare`."""
        if "pre_prepare" in self._hooks:
            self._number = next(self._numbers)
            tasks = list(self.states)
            yield from self._run(lambda: self._call("pre_prepare", tasks, self._number))

    def after_commit(self, transact: Transact) -> Routine:
        """The changes can be read again; and the bolt's `pre_commit`."""
        changed = [task for task in transact.changes if task in self.states]
        for task in changed:
            self.states[task].stored()
        if changed and "pre_commit" in self._hooks:
            yield from self._run(lambda: self._call("pre_commit", changed, self._number))


def _exact(slot: Slot[BoltTask]) -> ExactBoltTask:
    return cast("ExactBoltTask", slot.task)


def _is_due(slot: Slot[BoltTask], now: float) -> bool:
    return slot.task.tick_is_due(now) or _exact(slot).retry_is_due(now)


def _retry_and_tick(task: ExactBoltTask, now: float) -> Steps:
    yield from task.retry(now)
    yield from task.tick(now)
