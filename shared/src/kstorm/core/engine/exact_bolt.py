"""The engine of a bolt process in an exactly-once topology."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.bolt import BoltEngine
from kstorm.core.engine.effects import Changes, Effect, FetchRecords, Positions, Terminate, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.epochs import EpochEngine
from kstorm.core.engine.tenure import InputRecord, TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.exactly_once.task import ExactBoltTask
from kstorm.core.exactly_once.undoable_state import UndoableState
from kstorm.core.exactly_once.unfinished import read_pair
from kstorm.core.user_code import Steps
from kstorm.core.wire import TupleFrame, decode
from kstorm.errors import LostInputError

LoadUnfinished = Callable[[int], Iterable[tuple[bytes, bytes]]]
"""Loads a task's unfinished tuples from the changelog's local copy."""


class ExactBoltEngine(EpochEngine[BoltTask], BoltEngine):
    """The bolt tasks of one process.

    A changelog holds each task's unfinished tuples, and its state if it has one.
    """

    make_bolt_task = ExactBoltTask

    def __init__(self, *args: Any, load_unfinished: LoadUnfinished, **more: Any) -> None:
        super().__init__(*args, **more)
        self.changelog = self.topology.state_topic(self.component)
        self._load_unfinished = load_unfinished
        self._number = 0
        self._worked_at = 0.0

    # Events.

    def tick(self, now: float) -> list[Effect]:
        """Run due tick tuples, retries and epochs."""
        self.now = now
        if not self._late and any(
            tenure.works and _is_due(tenure, now) for tenure in self.tenures.values()
        ):
            self._late = True
            unit = Unit()
            self._enqueue(lambda: self._tick_steps(unit), lambda: self._end_late(unit))
        return self._turn()

    def checkpoint(self, now: float) -> list[Effect]:
        """Cut an epoch before it is due."""
        self._next_cut = self.now = now
        return self.tick(now)

    def _tick_steps(self, unit: Unit) -> Sequence[Steps]:
        due = [
            _exact(tenure)
            for tenure in self.tenures.values()
            if tenure.works and _is_due(tenure, self.now)
        ]
        return [_retry_and_tick(task, self.now) for task in due]

    @property
    def breaks_off(self) -> bool:
        """True if an epoch is due, which can only be cut between two executions."""
        return not self._writing and self._is_due

    def _execute(self, tenure: TaskTenure[BoltTask], record: InputRecord, unit: Unit) -> Steps:
        yield from super()._execute(tenure, record, unit)
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

    def make_task(self, tenure: TaskTenure[BoltTask]) -> Steps:
        yield from super().make_task(tenure)
        # The task undoes its state changes when an execution fails.
        _exact(tenure).state = cast("UndoableState | None", self.states.get(tenure.index))

    def resume(self, tenure: TaskTenure[BoltTask]) -> Routine:
        """Continue the unfinished work of the task's previous owner:
        1. Read the frames with unfinished tuples again.
        2. Execute held tuples again to restore the bolt's memory. Schedule waiting tuples for their
           next attempt.
        """
        written = dict(self._load_unfinished(tenure.index))
        if not written:
            return
        left = dict(read_pair(key, value) for key, value in written.items())
        fetch = FetchRecords(tenure.index, sorted(left))  # 1
        self._effects.append(fetch)
        yield lambda: fetch.answer is not None
        records = {record.offset: record for record in fetch.answer or ()}
        if gone := sorted(left.keys() - records.keys()):
            self._effects.append(Terminate(self._lost_input(tenure.index, gone)))
            yield lambda: False
        frames = [
            (offset, decode(TupleFrame, records[offset].value), left[offset])
            for offset in sorted(left)
        ]
        task = _exact(tenure)
        task.now = self.now
        yield from self._run(lambda: task.resume(frames, written))  # 2
        self._end_late(Unit())

    def _lost_input(self, task: int, offsets: list[int]) -> LostInputError:
        return LostInputError(
            f"task {task} of {self.component!r} has {len(offsets)} unfinished frames that are "
            f"missing in the topic {self.topic!r} (partition {task}, offsets {offsets[:5]}): "
            "tuples were held for longer than the topic keeps its records. To give these tuples "
            f"up, delete the changelog {self.changelog!r}. To keep records for longer, raise the "
            "topic's retention.ms"
        )

    def let_go(self, tenure: TaskTenure[BoltTask]) -> Routine:
        """Release a bolt task:
        1. The bolt cleans up. Its held and waiting tuples stay in the changelog for the next owner.
        2. Everything the task did is committed, including its offsets.
        3. From here on, no transaction includes the task.
        """
        unit = Unit()
        yield from self._run(lambda: self._cleanup(tenure, unit))  # 1
        self._end_late(unit)
        yield from self._settle()  # 2
        yield from self._take_out(tenure)  # 3

    # The epoch.

    def has_news(self) -> bool:
        return self.outbox.has_tuples or self.outbox.has_acks

    def cut(self) -> tuple[Changes, Mapping[int, int], Positions]:
        # `owned` includes tasks that are still resuming: these emit too.
        owned = [tenure for tenure in self.tenures.values() if tenure.owned]
        changes = {}
        for tenure in owned:
            state = self.states.get(tenure.index)
            changed = [
                *(state.take_changes() if state is not None else ()),
                *_exact(tenure).rows.changes(),
            ]
            if changed:
                changes[tenure.index] = changed
        return (
            changes,
            {tenure.index: tenure.progress.commit(tenure.progress.begun) for tenure in owned},
            {},
        )

    def interval_from_now(self) -> float:
        """Return the seconds until the next cut, adjusted to bursts of input.

        Input arrives in bursts, one per epoch of the upstream component. A cut during a burst
        delays the rest of the burst by a whole interval. So cuts move step by step towards a tenth
        of an interval after the bursts.
        """
        too_late = min(self.now - self._worked_at, self._interval) - self._interval / 10
        return self._interval - too_late / 2

    def before_cut(self) -> Routine:
        """Call the bolt's `pre_prepare`."""
        if "pre_prepare" in self._hooks:
            self._number = next(self._numbers)
            tasks = list(self.states)
            yield from self._run(lambda: self._call("pre_prepare", tasks, self._number))

    def after_commit(self, transact: Transact) -> Routine:
        """Drop the committed changes from memory, and call the bolt's `pre_commit`."""
        changed = [task for task in transact.changes if task in self.states]
        for task in changed:
            self.states[task].stored()
        if changed and "pre_commit" in self._hooks:
            yield from self._run(lambda: self._call("pre_commit", changed, self._number))


def _exact(tenure: TaskTenure[BoltTask]) -> ExactBoltTask:
    return cast("ExactBoltTask", tenure.task)


def _is_due(tenure: TaskTenure[BoltTask], now: float) -> bool:
    return tenure.task.tick_is_due(now) or _exact(tenure).retry_is_due(now)


def _retry_and_tick(task: ExactBoltTask, now: float) -> Steps:
    yield from task.retry(now)
    yield from task.tick(now)
