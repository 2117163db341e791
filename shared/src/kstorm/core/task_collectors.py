"""The collectors of one bolt task, through which a bolt emits, acks and fails."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from kstorm.core.columns import Ids, Positions, as_positions, fold_positions
from kstorm.core.emission import Emission
from kstorm.core.emitter import Emitter, check_columns
from kstorm.core.failure_notes import Note, note_of
from kstorm.core.ids import NextId, NextIds
from kstorm.core.lanes import NO_PARENTS, Lane
from kstorm.core.outbox import Outbox
from kstorm.core.routing import StreamRoutes
from kstorm.core.threads import current_thread, get_ident
from kstorm.core.user_code import OnError
from kstorm.errors import EmitError, UnsendableError
from kstorm.fitting import misfit
from kstorm.topology import DEFAULT_STREAM, Anchors, Placed, Tuple, TupleBatch


def check_tuple(function: str, tuple: Tuple) -> None:
    """Raise `ArgumentError` if the argument is not a tuple."""
    if not isinstance(tuple, Tuple):
        raise misfit(function, "tuple", tuple, Tuple)


def check_batch(function: str, batch: TupleBatch) -> None:
    """Raise `ArgumentError` if the argument is not a batch."""
    if not isinstance(batch, TupleBatch):
        raise misfit(function, "batch", batch, TupleBatch)


class BoltCollector(Emitter):
    """The `OutputCollector` of one task (Storm's `BoltOutputCollectorImpl`).

    Other threads may use it too. Their calls are passed to the task's thread, and take effect
    between two executions.
    """

    def __init__(
        self,
        table: dict[str, StreamRoutes],
        outbox: Outbox,
        next_id: NextId,
        next_ids: NextIds,
        component: str,
        task: int,
        on_error: OnError,
    ):
        """`task`: topology-wide task id."""
        super().__init__(component, table, outbox, next_id, next_ids)
        self.task, self._on_error = task, on_error
        self._lanes = [lane for route in table.values() for lane in route.lanes]
        self._staging: TupleBatch | None = None
        self._staged: list[Callable[[], None]] = []
        self.acked = self.failed = 0
        self.basic = False
        """True for a basic bolt, which uses it through a `BasicCollector`."""

    emit = Emitter.put  # `position` and `lanes` are only for kstorm's own calls

    def ack(self, tuple: Tuple) -> None:
        if get_ident() != self.owner:
            check_tuple("ack", tuple)
            self._hand_over(self.ack, tuple)
            return
        # A check of each type would cost time. Entering a `try` costs none.
        try:
            if tuple.finished:
                return
            root = tuple.root
        except AttributeError:
            raise misfit("ack", "tuple", tuple, Tuple) from None
        tuple.finished = True
        self.acked += 1
        if root:
            acks, ack_val = self._outbox.acks, tuple.ack_val
            acks[root] = acks.get(root, 0) ^ tuple.edge ^ ack_val
            if tuple.more:
                for other, edge in tuple.more.items():
                    acks[other] = acks.get(other, 0) ^ edge ^ ack_val

    def fail(self, tuple: Tuple) -> None:
        check_tuple("fail", tuple)
        if get_ident() != self.owner:
            self._hand_over(self.fail, tuple)
            return
        self.fail_for(tuple, None)

    def fail_for(self, tuple: Tuple, error: Exception | None) -> None:
        """Fail a tuple because its execution raised `error`."""
        if tuple.finished:
            return
        tuple.finished = True
        self.failed += 1
        self._outbox.fail(tuple.roots(), self._note(error))

    def _note(self, error: Exception | None) -> Note | None:
        if not self._outbox.wants_notes:
            return None
        return Note(self.task) if error is None else note_of(self.task, error)

    def lose(self, count: int, pairs: Mapping[int, int]) -> None:
        """Fail the trees of received tuples that cannot be decoded.

        `pairs`: root → XOR of the lost edges.
        """
        self.failed += count
        self._outbox.fail(pairs, self._note(UnsendableError("the tuple cannot be decoded")))

    def reset_timeout(self, tuple: Tuple) -> None:
        check_tuple("reset_timeout", tuple)
        if get_ident() != self.owner:
            self._hand_over(self.reset_timeout, tuple)
            return
        self._outbox.resets.update(tuple.roots())

    def report_error(self, error: BaseException) -> None:
        self._on_error(error, "reported")

    # Calls of other threads.

    def _hand_over(self, call: Callable[..., object], *args: Any) -> None:
        """Pass the call to the task's own thread, which makes it at its next tick at the latest.

        After the task has left the process, the call is dropped, because another process executes
        its tuples.
        """
        if not self.closed:
            name = current_thread().name
            self._outbox.handed_over.append(partial(self._taken_over, name, call, args))

    def flush_soon(self) -> None:
        """Let the next tick send the calls that the task's own thread makes between two
        executions, for example in a callback of the event loop."""
        self._outbox.handed_over.append(_nothing)

    def _taken_over(self, thread: str, call: Callable[..., object], args: Sequence[Any]) -> None:
        if self.closed:
            return
        self.owner = get_ident()
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - a grouping is user code, and may raise anything
            self._on_error(error, f"emitting for the thread {thread!r}")
            self._fail_anchors(args[1])

    def _fail_anchors(self, anchors: Anchors | TupleBatch) -> None:
        """Fail the anchors of a tuple that could not be emitted. Otherwise the bolt could ack the
        anchors, and the tuple would be lost."""
        if isinstance(anchors, TupleBatch):
            self.fail_batch(anchors)
            return
        for anchor in (anchors,) if isinstance(anchors, Tuple) else anchors or ():
            self.fail(anchor)

    def from_elsewhere(
        self, values: Sequence[Any], anchors: Anchors, stream: str, task: int | None
    ) -> Sequence[int]:
        """Pass an emit to the task's thread. Its receivers are not known yet, except on a direct
        stream."""
        if self.basic:
            raise self.wrong_thread()
        self.check(values, stream, task)
        if anchors is not None:
            self.check_anchors(anchors)
        several = anchors if anchors is None or isinstance(anchors, Tuple) else tuple(anchors)
        self._hand_over(self.emit, tuple(values), several, stream, task)
        return () if task is None else (task,)

    def wrong_thread(self) -> EmitError:
        """Return the error for a basic bolt that emits from another thread."""
        return EmitError(
            f"{self._component!r} is a BasicBolt and emits from the thread "
            f"{current_thread().name!r}: its collector anchors to the tuple being executed, so only "
            "the thread that calls execute may use it. Return the results to execute (for example "
            "with await asyncio.to_thread(…)) and emit there, or make it a Bolt, whose collector "
            "any thread may use"
        )

    # Batches. The bolt's actions take effect when `execute_batch` has returned. If it raises, they
    # are dropped.

    batch_failed = False
    """True if the batch that is being executed must be executed tuple by tuple."""

    def stage(self, batch: TupleBatch) -> None:
        """Start the execution of a batch, and hold back the actions on it from now on."""
        self._staging, self._staged = batch, []

    def end_batch(self) -> None:
        """Apply the held-back actions."""
        staged, self._staging, self._staged = self._staged, None, []
        for act in staged:
            act()

    def drop_batch(self) -> None:
        """Drop the held-back actions."""
        self._staging, self._staged = None, []

    def _do(self, batch: TupleBatch | None, act: Callable[[], None]) -> None:
        """Apply an action, or hold it back if it belongs to the staged batch.

        Actions on other batches apply immediately: Kafka may confirm a sink's earlier batch in the
        meantime.
        """
        if self._staging is None or (batch is not None and batch is not self._staging):
            act()
        else:
            self._staged.append(act)

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        anchors: TupleBatch | None = None,
        positions: Sequence[int] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        route, count = check_columns(self._routes.get(stream), self._component, columns, stream)
        if get_ident() != self.owner:
            columns = [list(column) for column in columns]
            positions = None if positions is None else list(positions)
            self._hand_over(self.emit_batch, columns, anchors, positions, stream)
            return []
        if anchors is not None and anchors.finished:
            raise EmitError(
                f"{self._component!r} anchors to a batch of {anchors.source.component!r} that was "
                "acked or failed already: emit first, then ack"
            )
        at = None if anchors is None else self._positions(anchors, positions, count)
        roots = (
            None
            if anchors is None or anchors.roots is None
            else anchors.roots
            if at is None
            else anchors.roots[at]
        )
        edges = None
        if self._trace is not None and anchors is not None and roots is not None:
            edges = anchors.edges if at is None else anchors.edges[at]
        emission = Emission(route, columns, count, roots, self._next_ids, edges, self._trace)
        if self.observe is not None:
            columns = [list(column) for column in columns]  # a copy of the current values

        def commit() -> None:
            self.put_batch(emission, stream, columns, count)
            if roots is not None and anchors is not None:
                folded = (
                    emission.vals if at is None else fold_positions(at, emission.vals, len(anchors))
                )
                anchors.ack_vals = folded if anchors.ack_vals is None else anchors.ack_vals ^ folded

        self._do(anchors, commit)
        return emission.placed

    def _positions(
        self, anchors: TupleBatch, positions: Sequence[int] | None, count: int
    ) -> Positions | None:
        if positions is None:
            if count == len(anchors):
                return None
            raise EmitError(
                f"{self._component!r} emits a batch of {count} tuples anchored to a batch of "
                f"{len(anchors)}: give the anchor of each tuple with positions=…"
            )
        at = as_positions(positions)
        if at.size != count or (count and not 0 <= np.min(at) <= np.max(at) < len(anchors)):
            raise EmitError(
                f"{self._component!r} emits a batch of {count} tuples with {at.size} positions: "
                f"give one position per tuple, from 0 to {len(anchors) - 1}"
            )
        return at

    def ack_batch(self, batch: TupleBatch) -> None:
        check_batch("ack_batch", batch)
        if get_ident() != self.owner:
            self._hand_over(self.ack_batch, batch)
            return

        def commit() -> None:
            if batch.finished:
                return
            batch.finished = True
            self.acked += len(batch)
            if batch.roots is not None:
                vals = batch.edges if batch.ack_vals is None else batch.edges ^ batch.ack_vals
                self._outbox.ack_columns(batch.roots, vals)

        self._do(batch, commit)

    def fail_batch(self, batch: TupleBatch) -> None:
        check_batch("fail_batch", batch)
        if get_ident() != self.owner:
            self._hand_over(self.fail_batch, batch)
            return

        def commit() -> None:
            if batch.finished:
                return
            batch.finished = True
            self.failed += len(batch)
            if batch.roots is not None:
                self._outbox.fail(filter(None, batch.roots.tolist()), self._note(None))

        self._do(batch, commit)

    # Frames of a basic bolt: the emits of single tuples are anchored, and the tuples acked, all at
    # once.

    def finish_frame(self, batch: TupleBatch, failed: list[int]) -> None:
        """Draw the ids of the frame's emits, and ack its tuples except those at `failed`."""
        count, roots = len(batch), batch.roots
        lanes = [lane for lane in self._lanes if lane.frame_at]
        if roots is None:
            for lane in lanes:
                lane.gather_frame(b"", b"")
            self.acked += count - len(failed)
            return
        val = batch.edges.copy()
        if lanes:
            positions = [position for lane in lanes for position in lane.frame_at]
            at, edges = as_positions(positions), self._next_ids(len(positions))
            val ^= fold_positions(at, edges, count)
            self._gather(lanes, roots[at], edges, batch.edges[at])
        self.acked += count - len(failed)
        if failed:
            roots, val = np.delete(roots, failed), np.delete(val, failed)
        self._outbox.ack_columns(roots, val)

    def _gather(self, lanes: Sequence[Lane], roots: Ids, edges: Ids, anchors: Ids) -> None:
        """Share the ids of a frame's emits among its lanes."""
        packed_roots, packed_edges = roots.tobytes(), edges.tobytes()
        begin = 0
        for lane in lanes:
            end = begin + len(lane.frame_at)
            parents = (
                NO_PARENTS
                if self._trace is None
                else self._trace.parents(roots[begin:end], anchors[begin:end])
            )
            lane.gather_frame(
                packed_roots[8 * begin : 8 * end], packed_edges[8 * begin : 8 * end], parents
            )
            begin = end


def _nothing() -> None:
    """Take the place of a call of another thread."""


class BasicCollector:
    """The `BasicOutputCollector` of one task: anchors emits to the tuple being executed."""

    def __init__(self, collector: BoltCollector, component: str) -> None:
        self._collector, self._component, self._put = collector, component, collector.put
        self.reset_timeout = collector.reset_timeout
        self.report_error = collector.report_error
        self.input: Tuple
        self.batch: TupleBatch | None = None
        self.position = -1
        """Position of `input` in the frame being executed, or -1 if it is executed alone."""

    def emit(
        self, values: Sequence[Any], stream: str = DEFAULT_STREAM, task: int | None = None
    ) -> Sequence[int]:
        position = self.position
        if position < 0:
            return self._collector.emit(values, self.input, stream, task)
        return self._put(values, None, stream, task, position)

    def emit_batch(
        self,
        columns: Sequence[list[Any]],
        positions: Sequence[int] | None = None,
        stream: str = DEFAULT_STREAM,
    ) -> Placed:
        if self.batch is None:
            raise EmitError(
                f"{self._component!r} calls emit_batch outside of execute_batch, where there is "
                "no batch to anchor to: use emit"
            )
        if get_ident() != self._collector.owner:
            raise self._collector.wrong_thread()
        return self._collector.emit_batch(columns, self.batch, positions, stream)
