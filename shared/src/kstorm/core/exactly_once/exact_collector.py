"""A bolt's collector that holds back the actions of an execution until it has succeeded."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kstorm.core.exactly_once.located_tuples import LocatedBatch, LocatedTuple
from kstorm.core.exactly_once.undoable_state import UndoableState
from kstorm.core.lanes import Lane
from kstorm.core.task_collectors import BoltCollector, check_batch, check_tuple
from kstorm.core.threads import get_ident
from kstorm.fitting import misfit
from kstorm.topology import DEFAULT_STREAM, Anchors, Tuple, TupleBatch


class ExactCollector(BoltCollector):
    """The `OutputCollector` of a task with exactly-once processing.

    A bolt may emit and ack whenever its event loop runs. Outside an execution, everything takes
    effect immediately.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.executing = False
        self.state: UndoableState | None = None
        """Set for a stateful bolt once its state is loaded."""
        self.retry_failing: Callable[[], None] = lambda: None
        """Schedules retries of the tuples in `failing`."""
        self.failing: list[LocatedTuple] = []
        """Tuples that the bolt has failed and that must be retried. The task that retries them
        clears the list."""
        self._batch: TupleBatch | None = None
        self._emitted_before = 0
        self._kept: list[Callable[[], object]] = []
        self._finishing: list[Tuple] = []
        self._finishing_batches: list[TupleBatch] = []

    def begin(self) -> None:
        """Start an execution."""
        self.executing, self._emitted_before = True, self.emitted
        if self.state is not None:
            self.state.begin()

    def end(self, tuple: Tuple | None = None) -> bool:
        """End an execution that did not raise an error.

        Apply its actions in order and return True. If the bolt failed the tuple, do nothing and
        return False.
        """
        if self.failing and tuple in self.failing:
            return False
        self.executing, self._batch = False, None
        if self._kept:
            kept, self._kept, self._finishing, self._finishing_batches = self._kept, [], [], []
            for act in kept:
                act()
        if self.failing:
            self.retry_failing()
        return True

    def take_back(self) -> list[LocatedTuple]:
        """End a failed execution: drop its actions, and undo its changes of the state.

        Returns the tuples that it had acked or failed. The bolt may have dropped these from its
        memory, and some may belong to other executions.
        """
        executed, self.executing, self._batch = self._batch, False, None
        self.emitted = self._emitted_before
        if self.state is not None:
            self.state.take_back()
        found = [*self._finishing, *self.failing]
        for tuple in self._finishing:
            tuple.finished = False
        for batch in self._finishing_batches:
            batch.finished = False
            if batch is not executed and isinstance(batch, LocatedBatch):
                found += batch.take_apart()
        self._kept, self._finishing, self._finishing_batches, self.failing = [], [], [], []
        mine = executed.tuples() if isinstance(executed, LocatedBatch) else ()
        others = dict.fromkeys(tuple for tuple in found if isinstance(tuple, LocatedTuple))
        for tuple in mine:
            others.pop(tuple, None)
        return list(others)

    @property
    def acks_any(self) -> bool:
        """True if the current execution has acked a tuple."""
        return bool(self._finishing or self._finishing_batches)

    def emit(
        self,
        values: Sequence[Any],
        anchors: Anchors = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
        position: int = -1,
        lanes: Sequence[Lane] | None = None,
    ) -> Sequence[int]:
        if not self.executing or get_ident() != self.owner:
            return super().emit(values, anchors, stream, task, position, lanes)
        lanes = self.choose(values, stream, task)
        if anchors is not None:
            self.check_anchors(anchors)
            anchors = anchors if isinstance(anchors, Tuple) else tuple(anchors)
        self._kept.append(partial(self.put, tuple(values), anchors, stream, task, -1, lanes))
        return [target for lane in lanes for target in lane.targets]

    def ack(self, tuple: Tuple) -> None:
        if not self.executing or get_ident() != self.owner:
            super().ack(tuple)
            return
        try:
            if tuple.finished:
                return
        except AttributeError:
            raise misfit("ack", "tuple", tuple, Tuple) from None
        tuple.finished = True
        self._finishing.append(tuple)
        self._kept.append(partial(self._ack, tuple))

    def _ack(self, tuple: Tuple) -> None:
        tuple.finished = False
        super().ack(tuple)

    def fail(self, tuple: Tuple) -> None:
        """Schedule the tuple for another execution in this task."""
        check_tuple("fail", tuple)
        if get_ident() != self.owner:
            super().fail(tuple)
            return
        if not tuple.finished and isinstance(tuple, LocatedTuple) and tuple not in self.failing:
            self.failing.append(tuple)

    def lose(self, count: int, pairs: Mapping[int, int]) -> None:
        """Release the trees of undecodable tuples.

        The tuples are in the dead letters, and their trees continue without them.
        """
        self.failed += count
        for root, edges in pairs.items():
            self._outbox.acks[root] = self._outbox.acks.get(root, 0) ^ edges

    def stage(self, batch: TupleBatch) -> None:
        """Start the execution of a batch."""
        self.begin()
        self._batch, self.batch_failed = batch, False

    def end_batch(self) -> None:
        """Apply the actions of a batch's execution."""
        self.end()

    def ack_batch(self, batch: TupleBatch) -> None:
        check_batch("ack_batch", batch)
        if not self.executing or get_ident() != self.owner:
            super().ack_batch(batch)
        elif not batch.finished:
            batch.finished = True
            self._finishing_batches.append(batch)
            self._kept.append(partial(self._ack_batch, batch))

    def _ack_batch(self, batch: TupleBatch) -> None:
        batch.finished = False
        super().ack_batch(batch)

    def fail_batch(self, batch: TupleBatch) -> None:
        """Schedule the batch's tuples for another execution in this task, one by one."""
        check_batch("fail_batch", batch)
        if get_ident() != self.owner:
            super().fail_batch(batch)
            return
        if batch.finished:
            return
        if batch is self._batch:
            self.batch_failed = True
        elif isinstance(batch, LocatedBatch):
            batch.finished = True
            if self.executing:
                self._finishing_batches.append(batch)
            self.keep(partial(self._fail_held, batch))

    def _fail_held(self, batch: LocatedBatch) -> None:
        batch.finished = False
        self.failing += batch.take_apart()

    def _do(self, batch: TupleBatch | None, act: Callable[[], None]) -> None:
        self.keep(act)

    def keep(self, act: Callable[[], object]) -> None:
        """Run an action once the current execution has succeeded, or immediately outside of an
        execution."""
        if self.executing:
            self._kept.append(act)
        else:
            act()

    def drop_emits_at(self, position: int) -> None:
        """Drop the emits of the tuple at `position` in a basic bolt's frame."""
        for lane in self._lanes:
            lane.drop_frame_rows(position)
