"""The collectors of one bolt task, through which a bolt emits, acks and fails."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kstorm.core.columns import Positions, as_positions, fold_positions
from kstorm.core.emission import Emission
from kstorm.core.ids import NextId, NextIds
from kstorm.core.lanes import Lane
from kstorm.core.notes import Note, note_of
from kstorm.core.outbox import Outbox
from kstorm.core.routing import StreamRoutes
from kstorm.core.tasks import OnError
from kstorm.errors import EmitError, UnsendableError
from kstorm.topology import DEFAULT_STREAM, Anchors, Placed, Tuple, TupleBatch

Observer = Callable[[str, Iterable[Sequence[Any]]], None]
"""Receives every emit: the stream and the values of each tuple."""


class BoltCollector:
    """The `OutputCollector` of one task (Storm's `BoltOutputCollectorImpl`)."""

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
        self.task = task
        self._routes, self._outbox, self._next_id, self._next_ids = table, outbox, next_id, next_ids
        self._component, self._on_error, self._trace = component, on_error, outbox.trace
        self._lanes = [lane for route in table.values() for lane in route.lanes]
        self.observe: Observer | None = None
        self._staging: TupleBatch | None = None
        self._staged: list[Callable[[], None]] = []
        self.emitted = self.acked = self.failed = 0

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
        self.emitted += 1
        if self.observe is not None:
            self.observe(stream, (values,))
        targets: Sequence[int] = ()
        if type(anchors) is Tuple and not anchors.more and anchors.root and not anchors.finished:
            # The usual case, inlined for speed: one anchor, of one tree.
            root, trace = anchors.root, self._trace
            for lane in lanes:
                edge = self._next_id()
                anchors.ack_val ^= edge
                if trace is not None and trace.picks(root):
                    lane.parents[len(lane.rows)] = [anchors.edge]
                lane.rows.append(values)
                lane.roots.append(root)
                lane.edges.append(edge)
                targets = (*targets, *lane.targets) if targets else lane.targets
            return targets
        for lane in lanes:
            self._add(lane, values, anchors)
            targets = (*targets, *lane.targets)
        return targets

    def _add(self, lane: Lane, values: Sequence[Any], anchors: Anchors) -> None:
        """Add a copy with any number of anchors: one edge per anchor, folded if they share a root."""
        several = () if anchors is None else (anchors,) if isinstance(anchors, Tuple) else anchors
        # Check before any edge is drawn: otherwise the valid anchors would wait for a tuple that is
        # never sent.
        self._check_anchors(several)
        self._hang(lane, values, several)

    def _check_anchors(self, anchors: Iterable[Tuple]) -> None:
        for anchor in anchors:
            if anchor.finished:
                raise EmitError(
                    f"{self._component!r} anchors to a tuple of {anchor.source_component!r} that "
                    "was acked or failed already: emit first, then ack"
                )

    def _hang(self, lane: Lane, values: Sequence[Any], anchors: Iterable[Tuple]) -> None:
        pairs: dict[int, int] = {}
        for anchor in anchors:
            if anchor.root:
                edge = self._next_id()
                anchor.ack_val ^= edge
                for root in anchor.roots():
                    pairs[root] = pairs.get(root, 0) ^ edge
        root, edge = pairs.popitem() if pairs else (0, 0)
        if self._trace is not None and (
            self._trace.picks(root) or any(map(self._trace.picks, pairs))
        ):
            edges = (
                edge
                for anchor in anchors
                if anchor.root
                for edge in (anchor.edge, *(anchor.more or {}).values())
            )
            lane.parents[len(lane.rows)] = list(edges)
        if pairs:
            lane.more[len(lane.rows)] = pairs
        lane.rows.append(values)
        lane.roots.append(root)
        lane.edges.append(edge)

    def ack(self, tuple: Tuple) -> None:
        if tuple.finished:
            return
        tuple.finished = True
        self.acked += 1
        root = tuple.root
        if root:
            acks, ack_val = self._outbox.acks, tuple.ack_val
            acks[root] = acks.get(root, 0) ^ tuple.edge ^ ack_val
            if tuple.more:
                for other, edge in tuple.more.items():
                    acks[other] = acks.get(other, 0) ^ edge ^ ack_val

    def fail(self, tuple: Tuple) -> None:
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
        self._outbox.resets.update(tuple.roots())

    def report_error(self, error: BaseException) -> None:
        self._on_error(error, "reported")

    # Batches. The bolt's actions take effect when `execute_batch` has returned. If it raises, they
    # are dropped.

    def stage(self, batch: TupleBatch) -> None:
        """Hold back the actions on this batch from now on."""
        self._staging, self._staged = batch, []

    def unstage(self, keep: bool) -> None:
        """Apply the held-back actions, or drop them."""
        staged, self._staging, self._staged = self._staged, None, []
        if keep:
            for act in staged:
                act()

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

        def commit() -> None:
            self.emitted += count
            if self.observe is not None:
                self.observe(stream, zip(*columns, strict=True))
            emission.send()
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
        if at.size != count or (count and not 0 <= at.min() <= at.max() < len(anchors)):
            raise EmitError(
                f"{self._component!r} emits a batch of {count} tuples with {at.size} positions: "
                f"give one position per tuple, from 0 to {len(anchors) - 1}"
            )
        return at

    def ack_batch(self, batch: TupleBatch) -> None:
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
        count = len(batch)
        val = None if batch.roots is None else batch.edges.copy()
        for lane in self._lanes:
            if not lane.frame_rows:
                continue
            columns, positions = lane.take_frame()
            if val is None:
                lane.put(columns, len(positions), None, None)
                continue
            at, edges = as_positions(positions), self._next_ids(len(positions))
            parents = (
                {} if self._trace is None else self._trace.parents(batch.roots[at], batch.edges[at])
            )
            lane.put(columns, len(positions), batch.roots[at], edges, parents)
            val ^= fold_positions(at, edges, count)
        self.acked += count - len(failed)
        if val is None:
            return
        roots = batch.roots
        if failed:
            roots, val = np.delete(roots, failed), np.delete(val, failed)
        self._outbox.ack_columns(roots, val)


class BasicCollector:
    """The `BasicOutputCollector` of one task: anchors emits to the tuple being executed."""

    def __init__(
        self, collector: BoltCollector, table: dict[str, StreamRoutes], component: str
    ) -> None:
        self._collector, self._routes, self._component = collector, table, component
        self.reset_timeout = collector.reset_timeout
        self.report_error = collector.report_error
        self.input: Tuple
        self.batch: TupleBatch | None = None
        self.position = -1
        """Position of `input` in the frame being executed, or -1 if it is executed alone."""

    def emit(
        self, values: Sequence[Any], stream: str = DEFAULT_STREAM, task: int | None = None
    ) -> Sequence[int]:
        position, collector = self.position, self._collector
        if position < 0:
            return collector.emit(values, self.input, stream, task)
        route = self._routes.get(stream)
        if route is None or len(values) != route.fields or route.is_direct or task is not None:
            lanes = direct_lanes(route, self._component, values, stream, task)
        else:
            lanes = route.choose(values)
        collector.emitted += 1
        if collector.observe is not None:
            collector.observe(stream, (values,))
        targets: Sequence[int] = ()
        for lane in lanes:
            lane.frame_rows.append(values)
            lane.frame_at.append(position)
            targets = (*targets, *lane.targets) if targets else lane.targets
        return targets

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
        return self._collector.emit_batch(columns, self.batch, positions, stream)


def direct_lanes(
    route: StreamRoutes | None, component: str, values: Sequence[Any], stream: str, task: int | None
) -> Sequence[Lane]:
    """Return the lanes of an emit that names its task. Raises `EmitError` on any invalid emit."""
    if route is None:
        raise EmitError(
            f"{component!r} emits on the stream {stream!r}, which it did not declare in "
            "declare_output_fields"
        )
    if len(values) != route.fields:
        raise EmitError(
            f"{component!r} emits {len(values)} values on the stream {stream!r}, which declares "
            f"{route.fields} fields"
        )
    if not route.is_direct:
        raise EmitError(
            f"{component!r} emits to a task on the stream {stream!r}, which is not a direct "
            "stream: declare it with direct=True"
        )
    if task is None:
        raise EmitError(
            f"{component!r} emits on the direct stream {stream!r} without a task: pass task=…"
        )
    lanes = route.direct.get(task)
    if lanes is None:
        raise EmitError(
            f"{component!r} emits to task {task} on the stream {stream!r}: its consumers' tasks "
            f"are {sorted(route.direct)}"
        )
    route.sendable.check(values)
    return lanes


def check_columns(
    route: StreamRoutes | None, component: str, columns: Sequence[list[Any]], stream: str
) -> tuple[StreamRoutes, int]:
    """Return the route and the number of rows of a batch.

    Raises `EmitError` if the batch is invalid, and `UnsendableError` if it has a tuple that no
    record can hold.
    """
    if route is None or route.is_direct or len(columns) != route.fields:
        direct_lanes(route, component, columns, stream, None)
        raise AssertionError("unreachable: a direct emit without a task is refused")
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise EmitError(
            f"{component!r} emits a batch on the stream {stream!r} whose columns have "
            f"{sorted(sizes)} rows: give one list per field, all of the same length"
        )
    if route.spreaders:
        route.sendable.check_columns(columns)
    return route, sizes.pop()
