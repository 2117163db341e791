"""One bolt task: tuple frames in, the user's `execute`, tuples and acks out through the `Outbox`."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import repeat
from typing import Any

from kstorm.core.ids import NextId
from kstorm.core.outbox import Lane, Outbox
from kstorm.core.routing import StreamRoutes, routes
from kstorm.core.tasks import OnError, Steps
from kstorm.core.wire import TupleFrame, unpack_ids
from kstorm.errors import EmitError, FailedException, FrameError, ReportedFailedException
from kstorm.topology import (
    DEFAULT_STREAM,
    SYSTEM_COMPONENT,
    TICK_STREAM,
    Anchors,
    BasicBolt,
    Bolt,
    Fields,
    Source,
    Topology,
    Tuple,
)

_TICK = Source(SYSTEM_COMPONENT, TICK_STREAM, 0, Fields("rate_secs"))


class BoltCollector:
    """The `OutputCollector` of one task (Storm's `BoltOutputCollectorImpl`)."""

    def __init__(
        self, table: dict[str, StreamRoutes], outbox: Outbox, next_id: NextId, component: str, on_error: OnError
    ):
        self._routes, self._outbox, self._next_id = table, outbox, next_id
        self._component, self._on_error = component, on_error
        self.emitted = self.acked = self.failed = 0

    def emit(
        self, values: Sequence[Any], anchors: Anchors = None, stream: str = DEFAULT_STREAM, task: int | None = None
    ) -> Sequence[int]:
        """See `kstorm.topology.OutputCollector.emit`."""
        route = self._routes.get(stream)
        if route is None or len(values) != route.fields or route.is_direct or task is not None:
            return self._emit_direct(route, values, anchors, stream, task)
        self.emitted += 1
        targets: Sequence[int] = ()
        if type(anchors) is Tuple and not anchors.more and anchors.root and not anchors.finished:
            root = anchors.root
            for choose in route.choosers:
                for lane in choose(values):
                    edge = self._next_id()
                    anchors.ack_val ^= edge
                    lane.rows.append(values)
                    lane.roots.append(root)
                    lane.edges.append(edge)
                    targets = (*targets, *lane.targets) if targets else lane.targets
            return targets
        for choose in route.choosers:
            for lane in choose(values):
                self._add(lane, values, anchors)
                targets = (*targets, *lane.targets)
        return targets

    def _emit_direct(
        self, route: StreamRoutes | None, values: Sequence[Any], anchors: Anchors, stream: str, task: int | None
    ) -> Sequence[int]:
        targets = direct_lanes(route, self._component, values, stream, task)
        self.emitted += 1
        for lane in targets:
            self._add(lane, values, anchors)
        return [lane.targets[0] for lane in targets]

    def _add(self, lane: Lane, values: Sequence[Any], anchors: Anchors) -> None:
        """One copy with any number of anchors: one edge per anchor, folded where anchors share a root."""
        pairs: dict[int, int] = {}
        several = () if anchors is None else (anchors,) if isinstance(anchors, Tuple) else anchors
        for anchor in several:
            if (
                anchor.finished
            ):  # before any edge is drawn: the other anchors must not wait for a tuple that never leaves
                raise EmitError(
                    f"{self._component!r} anchors to a tuple of {anchor.source_component!r} that was acked or failed "
                    "already: emit first, then ack"
                )
        for anchor in several:
            if anchor.root:
                edge = self._next_id()
                anchor.ack_val ^= edge
                for root in anchor.roots():
                    pairs[root] = pairs.get(root, 0) ^ edge
        root, edge = pairs.popitem() if pairs else (0, 0)
        if pairs:
            lane.more[len(lane.rows)] = pairs
        lane.rows.append(values)
        lane.roots.append(root)
        lane.edges.append(edge)

    def ack(self, tuple: Tuple) -> None:
        """See `kstorm.topology.OutputCollector.ack`."""
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
        """See `kstorm.topology.OutputCollector.fail`."""
        if tuple.finished:
            return
        tuple.finished = True
        self.failed += 1
        self._outbox.fails.update(tuple.roots())

    def reset_timeout(self, tuple: Tuple) -> None:
        """See `kstorm.topology.OutputCollector.reset_timeout`."""
        self._outbox.resets.update(tuple.roots())

    def report_error(self, error: BaseException) -> None:
        """See `kstorm.topology.ErrorReporter.report_error`."""
        self._on_error(error, "reported")


class BasicCollector:
    """The `BasicOutputCollector` of one task: anchors to the tuple being executed."""

    def __init__(self, collector: BoltCollector) -> None:
        self._collector = collector
        self.reset_timeout = collector.reset_timeout
        self.report_error = collector.report_error
        self.input: Tuple

    def emit(self, values: Sequence[Any], stream: str = DEFAULT_STREAM, task: int | None = None) -> Sequence[int]:
        """See `kstorm.topology.BasicOutputCollector.emit`."""
        return self._collector.emit(values, self.input, stream, task)


class BoltTask:
    """Executes tuples one after another. The driver prepares the bolt, feeds frames and ticks, and drains the outbox."""

    def __init__(
        self,
        topology: Topology,
        component: str,
        task_index: int,
        bolt: Bolt | BasicBolt,
        outbox: Outbox,
        next_id: NextId,
        on_error: OnError,
    ) -> None:
        self.topology, self.component, self.task_index, self.bolt = topology, component, task_index, bolt
        self.task_id = topology.task_ids(component)[task_index]
        self.config = topology.component(component).config
        self.collector = BoltCollector(
            routes(topology, component, task_index, outbox), outbox, next_id, component, on_error
        )
        self.executed = 0
        self.pause_every = 64
        """Tuples after which the driver is offered a pause."""
        self._on_error = on_error
        self._sources: dict[tuple[str, int, str], Source] = {}
        self._inputs = {(i.component, i.stream) for i in topology.component(component).inputs}
        self._execute = self._executor(bolt)
        self._acks_itself = isinstance(bolt, BasicBolt)
        self._next_tick: float | None = None

    @property
    def unfinished(self) -> int:
        """Tuples executed and neither acked nor failed: held by the bolt, or forgotten by it."""
        return self.executed - self.collector.acked - self.collector.failed

    def receive(self, frame: TupleFrame) -> Steps:
        """Executes the tuples of a frame. Raises `FrameError` before the first one if it is not for this bolt."""
        source = self._source(frame)
        roots: Any = unpack_ids(frame.roots) if frame.roots else repeat(0)
        edges: Any = unpack_ids(frame.edges) if frame.edges else repeat(0)
        rows: Any = zip(*frame.columns, strict=True) if frame.columns else repeat((), frame.count)
        return self._execute_rows(source, rows, roots, edges, frame.more)

    def tick(self, now: float) -> Steps:
        """Executes a tick tuple if one is due. `now`: seconds of any steady clock."""
        every = self.config.topology_tick_tuple_freq_secs
        if every is None:
            return
        if self._next_tick is None or now >= self._next_tick:
            due, self._next_tick = self._next_tick is not None, now + every
            if due:
                yield from self._execute_rows(_TICK, [(every,)], (0,), (0,), {})

    def _execute_rows(
        self, source: Source, rows: Any, roots: Any, edges: Any, more: dict[int, dict[int, int]]
    ) -> Steps:
        execute, ack = self._execute, self.collector.ack
        acks_itself = self._acks_itself or source is _TICK  # nobody need ack a tick: it is in no tree
        next_pause = self.pause_every
        for position, (values, root, edge) in enumerate(zip(rows, roots, edges, strict=False)):
            tuple = Tuple(values, source, root, edge)
            if more:
                tuple.more = more.get(position)
            if position >= next_pause:
                next_pause = position + self.pause_every
                yield None
            self.executed += 1
            try:
                pending = execute(tuple)
                if pending is not None:
                    yield pending
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything: the tuple fails, the task goes on
                self._failed(tuple, error)
            else:
                if acks_itself:
                    ack(tuple)

    def _failed(self, tuple: Tuple, error: Exception) -> None:
        self.collector.fail(tuple)
        if not isinstance(error, FailedException) or isinstance(error, ReportedFailedException):
            self._on_error(error, f"executing a tuple of {tuple.source_component!r}")

    def _executor(self, bolt: Bolt | BasicBolt) -> Callable[[Tuple], Awaitable[None] | None]:
        if isinstance(bolt, Bolt):
            return bolt.execute
        collector = BasicCollector(self.collector)
        execute = bolt.execute

        def basic(tuple: Tuple) -> Awaitable[None] | None:
            collector.input = tuple
            return execute(tuple, collector)

        return basic

    def _source(self, frame: TupleFrame) -> Source:
        key = (frame.component, frame.task, frame.stream)
        source = self._sources.get(key)
        if source is None:
            if (frame.component, frame.stream) not in self._inputs:
                raise FrameError(
                    f"a frame of the stream {frame.stream!r} of {frame.component!r}, to which {self.component!r} does not subscribe"
                )
            fields = self.topology.component(frame.component).streams[frame.stream].fields
            source = self._sources[key] = Source(frame.component, frame.stream, frame.task, fields)
        if len(frame.columns) != len(source.fields):
            raise FrameError(
                f"a frame of {len(frame.columns)} columns; the stream {frame.stream!r} of {frame.component!r} "
                f"has {len(source.fields)} fields: was the topology changed while tuples were in flight?"
            )
        return source


def direct_lanes(
    route: StreamRoutes | None, component: str, values: Sequence[Any], stream: str, task: int | None
) -> Sequence[Lane]:
    """The lanes of an emit that names its task; raises `EmitError` on whatever is wrong with an emit."""
    if route is None:
        raise EmitError(
            f"{component!r} emits on the stream {stream!r}, which it did not declare in declare_output_fields"
        )
    if len(values) != route.fields:
        raise EmitError(
            f"{component!r} emits {len(values)} values on the stream {stream!r}, which declares {route.fields} fields"
        )
    if not route.is_direct:
        raise EmitError(f"{component!r} names a task on the stream {stream!r}: declare it with direct=True for that")
    if task is None:
        raise EmitError(f"{component!r} emits on the direct stream {stream!r} without a task: pass task=…")
    lanes = route.direct.get(task)
    if lanes is None:
        raise EmitError(
            f"{component!r} emits to task {task} on the stream {stream!r}: its consumers' tasks are {sorted(route.direct)}"
        )
    return lanes
