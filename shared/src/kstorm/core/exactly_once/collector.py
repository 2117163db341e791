"""A bolt's collector that holds back the actions of an execution until it has succeeded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kstorm.core.collectors import BoltCollector, direct_lanes
from kstorm.core.exactly_once.located_tuples import LocatedBatch, LocatedTuple
from kstorm.core.lanes import Lane
from kstorm.topology import DEFAULT_STREAM, Anchors, Tuple, TupleBatch


class ExactCollector(BoltCollector):
    """The `OutputCollector` of a task with exactly-once processing.

    A bolt may emit and ack whenever its event loop runs. Outside an execution, everything takes
    effect immediately.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.executing = False
        self.failing: list[LocatedTuple] = []
        """Tuples that the bolt has failed and that must be retried. The task that retries them
        clears the list."""
        self.batch_failed = False
        """True if the bolt failed the batch that it was executing."""
        self._batch: TupleBatch | None = None
        self._kept: list[Callable[[], None]] = []
        self._finishing: list[Tuple] = []
        self._finishing_batches: list[TupleBatch] = []

    def begin(self) -> None:
        self.executing = True

    def end(self) -> None:
        """The execution succeeded: apply its actions, in order."""
        self.executing, self._batch = False, None
        if self._kept:
            kept, self._kept, self._finishing, self._finishing_batches = self._kept, [], [], []
            for act in kept:
                act()

    def take_back(self) -> list[LocatedTuple]:
        """The execution failed: drop its actions.

        Returns the tuples that it had acked or failed. The bolt may have forgotten these, and some
        may belong to other executions.
        """
        executed, self.executing, self._batch = self._batch, False, None
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
    ) -> Sequence[int]:
        route = self._routes.get(stream)
        if route is None or len(values) != route.fields or route.is_direct or task is not None:
            lanes = direct_lanes(route, self._component, values, stream, task)
        else:
            lanes = route.choose(values)
        several = (
            () if anchors is None else (anchors,) if isinstance(anchors, Tuple) else tuple(anchors)
        )
        self._check_anchors(several)
        self.keep(partial(self._put, lanes, values, several, stream))
        return [target for lane in lanes for target in lane.targets]

    def _put(
        self, lanes: Sequence[Lane], values: Sequence[Any], anchors: Iterable[Tuple], stream: str
    ) -> None:
        self.emitted += 1
        if self.observe is not None:
            self.observe(stream, (values,))
        for lane in lanes:
            self._hang(lane, values, anchors)

    def ack(self, tuple: Tuple) -> None:
        if tuple.finished:
            return
        if not self.executing:
            super().ack(tuple)
            return
        tuple.finished = True
        self._finishing.append(tuple)
        self._kept.append(partial(self._ack, tuple))

    def _ack(self, tuple: Tuple) -> None:
        tuple.finished = False
        super().ack(tuple)

    def fail(self, tuple: Tuple) -> None:
        """Schedule the tuple for another execution in this task."""
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

    def ack_batch(self, batch: TupleBatch) -> None:
        if batch.finished:
            return
        if self.executing:
            batch.finished = True
            self._finishing_batches.append(batch)
            self._kept.append(partial(self._ack_batch, batch))
        else:
            super().ack_batch(batch)

    def _ack_batch(self, batch: TupleBatch) -> None:
        batch.finished = False
        super().ack_batch(batch)

    def fail_batch(self, batch: TupleBatch) -> None:
        """Schedule the batch's tuples for another execution in this task, one by one."""
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

    def keep(self, act: Callable[[], None]) -> None:
        """Run an action once the current execution has succeeded, or now outside an execution."""
        if self.executing:
            self._kept.append(act)
        else:
            act()

    def drop_emits_at(self, position: int) -> None:
        """Drop the emits of the tuple at `position` in a basic bolt's frame."""
        for lane in self._lanes:
            lane.drop_frame_rows(position)
