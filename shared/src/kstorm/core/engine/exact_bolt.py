"""Exactly-once processing of bolts: the policy and the engine."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from kstorm.core.bolt_task import BoltTask
from kstorm.core.engine.bolt_engine import BoltEngine
from kstorm.core.engine.effects import Changes, FetchRecords, Positions, Terminate, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.epochs import Epochs
from kstorm.core.engine.leaving import BoltLeaving
from kstorm.core.engine.tenure import InputRecord, TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.exactly_once.exact_bolt_task import ExactBoltTask
from kstorm.core.exactly_once.undoable_state import UndoableState
from kstorm.core.exactly_once.unfinished import read_pair
from kstorm.core.user_code import Steps
from kstorm.core.wire import TupleFrame, decode
from kstorm.errors import LostInputError

LoadUnfinished = Callable[[int], Iterable[tuple[bytes, bytes]]]
"""Loads a task's unfinished tuples from the changelog's local copy."""


class BoltEpochs(Epochs[BoltTask], BoltLeaving):
    """The policy of a bolt process with exactly-once processing."""

    def __init__(self, engine: Any, load_unfinished: LoadUnfinished) -> None:
        super().__init__(engine)
        self._load_unfinished = load_unfinished
        self._number = 0
        self._worked_at = 0.0
        self._patience = engine.topology.component(engine.component).config.message_timeout_secs
        self._next_look = 0.0

    # The end of work.

    def flush(self, unit: Unit) -> None:
        super().flush(unit)
        self._worked_at = self._engine.now

    def end_poll(self, unit: Unit) -> None:
        unit.close()

    @property
    def breaks_off(self) -> bool:  # type: ignore[override] # computed here
        """True if an epoch is due, which can only be cut between two executions."""
        return not self._writing and self.is_cut_due

    def has_due(self, tenure: TaskTenure[BoltTask], now: float) -> bool:
        """Return True if a tick or a retry is due."""
        return super().has_due(tenure, now) or _exact(tenure).retry_is_due(now)

    def due_steps(self, tenure: TaskTenure[BoltTask]) -> Steps:
        yield from _exact(tenure).retry(self._engine.now)
        yield from super().due_steps(tenure)

    def tick(self, now: float) -> None:
        if now >= self._next_look:
            self._next_look = now + self._patience
            self._look_for_held()

    def _look_for_held(self) -> None:
        """Log tuples that are held for longer than the message timeout.

        Their trees never time out, so a tuple that the bolt has dropped counts toward its spout's
        `topology_max_spout_pending` forever.
        """
        engine = self._engine
        for tenure in engine.tenures.values():
            if not tenure.alive or not (held := _exact(tenure).rows.held_again()):
                continue
            first = held[0]
            engine.journal.warning(
                "held_too_long",
                task=tenure.task.task_id,
                why=f"{engine.component!r} has neither acked nor failed {len(held)} tuples for "
                f"longer than topology_message_timeout_secs, for example one of "
                f"{first.source_component!r} on the stream {first.source_stream!r} (row "
                f"{first.row} of the frame at offset {first.offset} of {engine.topic}-"
                f"{tenure.index}). Until it does, each takes a place of its spout's "
                "topology_max_spout_pending: ack or fail every tuple in the end",
            )

    # Tasks.

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
        self._engine._effects.append(fetch)
        yield lambda: fetch.answer is not None
        records = {record.offset: record for record in fetch.answer or ()}
        if gone := sorted(left.keys() - records.keys()):
            self._engine._effects.append(Terminate(self._lost_input(tenure.index, gone)))
            yield lambda: False
        frames = [
            (offset, decode(TupleFrame, records[offset].value), left[offset])
            for offset in sorted(left)
        ]
        task = _exact(tenure)
        task.now = self._engine.now
        yield from self._engine._run(lambda: task.resume(frames, written))  # 2
        self._engine._end_late(Unit())

    def _lost_input(self, task: int, offsets: list[int]) -> LostInputError:
        return LostInputError(
            f"task {task} of {self._engine.component!r} has {len(offsets)} unfinished frames that are "
            f"missing in the topic {self._engine.topic!r} (partition {task}, offsets {offsets[:5]}): "
            "tuples were held for longer than the topic keeps its records. To give these tuples "
            f"up, delete the changelog {self._engine.changelog!r}. To keep records for longer, raise the "
            "topic's retention.ms"
        )

    def let_go(self, tenure: TaskTenure[BoltTask]) -> Routine:
        """Release a bolt task:
        1. The bolt cleans up. Its held and waiting tuples stay in the changelog for the next owner.
        2. All of the task's work is committed, including its offsets.
        3. From then on, transactions exclude the task."""
        unit = Unit()
        yield from self._engine._run(lambda: self._engine._cleanup(tenure, unit))  # 1
        self._engine._end_late(unit)
        yield from self._settle()  # 2
        yield from self._take_out(tenure)  # 3

    # The epoch.

    def has_news(self) -> bool:
        outbox = self._engine.outbox
        return bool(outbox.has_tuples or outbox.has_acks)

    def cut(self) -> tuple[Changes, Mapping[int, int], Positions]:
        # `owned` includes tasks that are still resuming: these emit too.
        owned = [tenure for tenure in self._engine.tenures.values() if tenure.owned]
        changes = {}
        for tenure in owned:
            if (marks := tenure.task.marks) is not None:
                marks.apply(tenure.task.first_unfinished())
                marks.store()
            state = self._engine.states.get(tenure.index)
            _exact(tenure).recent.clear()
            changed = [
                *(state.take_changes() if state is not None else ()),
                *_exact(tenure).rows.changes(),
            ]
            if changed:
                changes[tenure.index] = changed
            if marks is not None:
                marks.apply(_exact(tenure).rows.first_offset(exact=False))
        return (
            changes,
            {tenure.index: tenure.progress.commit(tenure.progress.begun) for tenure in owned},
            {},
        )

    def interval_from_now(self) -> float:
        """Return the seconds until the next cut, adjusted to bursts of input.

        Input arrives in bursts, one per epoch of the upstream component. A cut during a burst
        delays the rest of the burst by a whole interval. So the cuts move gradually to a tenth of
        an interval after the bursts.
        """
        too_late: float = (
            min(self._engine.now - self._worked_at, self.interval) - self.interval / 10
        )
        return self.interval - too_late / 2

    def before_cut(self) -> Routine:
        """Call the bolt's `pre_prepare`."""
        self._number = next(self._engine._numbers)
        yield from self._engine._call_hook("pre_prepare", self._engine.states, self._number)

    def after_commit(self, transact: Transact) -> Routine:
        """Drop the committed changes from memory, and call the bolt's `pre_commit`."""
        states = self._engine.states
        for task in transact.changes:
            if task in states:
                states[task].stored()
        yield from self._engine._call_hook("pre_commit", states, self._number)


class ExactBoltEngine(BoltEngine):
    """The bolt tasks of one process.

    A changelog holds each task's unfinished tuples, and its state if it has one.
    """

    make_bolt_task = ExactBoltTask

    def __init__(self, *args: Any, load_unfinished: LoadUnfinished, **more: Any) -> None:
        self._load_unfinished = load_unfinished
        super().__init__(*args, **more)
        self.changelog = self.topology.state_topic(self.component)

    def make_leaving(self) -> BoltLeaving:
        return BoltEpochs(self, self._load_unfinished)

    def make_task(self, tenure: TaskTenure[BoltTask]) -> Steps:
        yield from super().make_task(tenure)
        # The task undoes its state changes when an execution fails.
        _exact(tenure).state = cast("UndoableState | None", self.states.get(tenure.index))

    def _execute(self, tenure: TaskTenure[BoltTask], record: InputRecord, unit: Unit) -> Steps:
        _exact(tenure).recent.add(record)
        return super()._execute(tenure, record, unit)


def _exact(tenure: TaskTenure[BoltTask]) -> ExactBoltTask:
    return cast("ExactBoltTask", tenure.task)
