"""One bolt task: runs the user's `execute` and sends emits and acks through the `Outbox`.

There is one loop for single tuples and one path for batches. `exactly_once.task` surrounds them.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, ClassVar, NamedTuple

from msgspec import structs

from kstorm.core.columns import as_ids
from kstorm.core.ids import NextId, NextIds, columns_of
from kstorm.core.outbox import Outbox
from kstorm.core.routing import routes
from kstorm.core.task_collectors import BasicCollector, BoltCollector
from kstorm.core.task_time import BoltTime
from kstorm.core.threads import get_ident
from kstorm.core.unacked import UnackedTuples
from kstorm.core.user_code import OnError, Steps
from kstorm.core.wire import SalvagedFrame, TupleFrame, unpack_ids
from kstorm.errors import FailedException, FrameError, ReportedFailedException
from kstorm.topology import (
    SYSTEM_COMPONENT,
    TICK_STREAM,
    BasicBolt,
    Bolt,
    Fields,
    Source,
    Topology,
    Tuple,
    TupleBatch,
)
from kstorm.topology.batch import each_source

_TICK = Source(SYSTEM_COMPONENT, TICK_STREAM, 0, Fields("rate_secs"))


class Sources(NamedTuple):
    """The sources of the tuples of a frame."""

    source: Source
    """Its `task` is -1 if they are from several tasks."""
    runs: Sequence[tuple[Source, int]] = ()
    """The sources, each with its number of tuples, in order. Empty if there is only one."""


class BoltTask(BoltTime):
    """Executes tuples one by one.

    The driver prepares the bolt, passes frames and ticks, and drains the outbox.
    """

    def __init__(
        self,
        topology: Topology,
        component: str,
        task_index: int,
        bolt: Bolt | BasicBolt,
        outbox: Outbox,
        next_id: NextId,
        on_error: OnError,
        next_ids: NextIds | None = None,
    ) -> None:
        self.topology, self.component, self.task_index, self.bolt = (
            topology,
            component,
            task_index,
            bolt,
        )
        self.task_id = topology.task_ids(component)[task_index]
        self.config = topology.component(component).config
        table = routes(topology, component, task_index, outbox)
        self.collector = self.make_collector(
            table,
            outbox,
            next_id,
            next_ids or columns_of(next_id),
            component,
            self.task_id,
            on_error,
        )
        self.executed = 0
        """Number of tuples executed, with ticks."""
        self.ticks = 0
        """Number of ticks executed, which are included in `executed`."""
        self.pause_every = 64
        """Number of tuples after which the driver is offered a pause."""
        self._on_error, self.outbox = on_error, outbox
        self._known_sources: dict[tuple[str, int, str], Source] = {}
        self._inputs = {(i.component, i.stream) for i in topology.component(component).inputs}
        self._basic = BasicCollector(self.collector, component)
        self._execute = self._executor(bolt)
        self._execute_batch = self._batch_executor(bolt)
        self._acks_itself = self.collector.basic = isinstance(bolt, BasicBolt)
        self.held = UnackedTuples(self.config.message_timeout_secs)
        """Tuples that a rich bolt has received and neither acked nor failed."""
        self._every = self.config.topology_tick_tuple_freq_secs
        self._next_tick: float | None = None
        self._begin: Callable[[], None] | None = None
        """Called before each execution of a single tuple."""
        self._end: Callable[[Tuple], bool] | None = None
        """Called after each execution that did not raise an error. Returns False if the bolt failed
        the tuple."""

    make_collector: ClassVar[type[BoltCollector]] = BoltCollector

    @property
    def emitters(self) -> list[BoltCollector | BasicCollector]:
        """The objects through which the bolt emits."""
        return [self.collector, self._basic]

    @property
    def unfinished(self) -> int:
        """Number of tuples that the bolt has executed and neither acked nor failed."""
        return self.executed - self.collector.acked - self.collector.failed

    def receive(self, frame: TupleFrame, offset: int = -1) -> Steps:
        """Execute the tuples of the frame at `offset` of the input topic.

        Raises `FrameError` before the first tuple if the frame is not for this bolt.
        """
        if frame.marks and not frame.count:
            return self._execute_tuples(())
        sources = self._sources(frame)
        self.collector.owner = get_ident()
        if type(frame) is SalvagedFrame:
            self._lose(frame, offset)
            if not frame.count:
                return self._execute_tuples(())
        if frame.more or not frame.columns:
            tuples = self._tuples(sources, frame, offset)
            return self._execute_tuples(tuples, self._acks_itself)
        ids = (as_ids(frame.roots), as_ids(frame.edges)) if frame.roots else (None, None)
        batch = self._batch(sources, frame.columns, ids, offset)
        return (
            self._execute_columns(batch)
            if self._execute_batch is not None
            else self._execute_one_by_one(batch)
        )

    def receive_marks(self, frame: TupleFrame, offset: int) -> Steps:
        """Receive the watermarks of a frame, when its tuples are executed."""
        if self.marks is None:
            return
        self.marks.arrived(frame, offset)
        self.marks.apply(self.first_unfinished())
        if self.marks.bolt is not None and self.marks.bolt.watermark_is_due:
            self.collector.owner = get_ident()
            yield from self._execute_tuples([Tuple((0.0,), _TICK)], acks=True)

    def _tuples(self, sources: Sources, frame: TupleFrame, _offset: int) -> Iterable[Tuple]:
        return tuples_of(sources, frame)

    def _batch(
        self, sources: Sources, columns: list[list[Any]], ids: tuple[Any, Any], _offset: int
    ) -> TupleBatch:
        return TupleBatch(sources.source, columns, *ids, sources.runs)

    def _lose(self, frame: SalvagedFrame, _offset: int) -> None:
        """Fail the tuples that do not decode. The other tuples of their frame are executed."""
        self.executed += frame.lost
        self.collector.lose(frame.lost, frame.lost_pairs)
        if frame.lost:
            error = FrameError(
                f"{frame.lost} of {frame.lost + frame.count} tuples of {frame.component!r} on the "
                f"stream {frame.stream!r} hold a value that MessagePack can encode but not decode "
                f"({frame.reason}), such as a dict with dataclasses as keys: their trees were "
                "failed; emit plain values"
            )
            self._on_error(error, "receiving")

    # Executions.

    def _execute_columns(self, batch: TupleBatch) -> Steps:
        """Execute the frame as one batch.

        If that raises an error, the batch has no effect. Its tuples are then executed one by one,
        so that only the bad ones fail.
        """
        collector = self.collector
        collector.stage(batch)
        try:
            pending = self._execute_batch(batch)  # type: ignore[misc]
            if pending is not None and pending is not NotImplemented:
                yield pending
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            if not isinstance(error, FailedException):
                self._on_error(
                    error,
                    f"executing a batch of {len(batch)} tuples of {batch.source.component!r}, "
                    "which are now executed one by one",
                )
            pending = NotImplemented
        self._basic.batch = None  # otherwise the batch stays in memory until the next one
        if pending is NotImplemented or collector.batch_failed:
            yield from self._undo_batch()
            # A bolt that has kept the batch may ack it later. Its tuples end one by one.
            batch.finished = True
            yield from self._execute_one_by_one(batch)
            return
        collector.end_batch()
        self.executed += len(batch)
        if self._acks_itself:
            collector.ack_batch(batch)
        else:
            self._hold_batch(batch)

    def _execute_one_by_one(self, batch: TupleBatch) -> Steps:
        """Execute the tuples of a frame.

        For a basic bolt, ids are drawn and tuples acked together at the end.
        """
        if not self._acks_itself:
            yield from self._execute_tuples(self._watched(batch.tuples()))
            return
        failed: list[int] = []
        yield from self._execute_tuples(batch.tuples(), failed=failed)
        self._basic.position = -1
        self.collector.finish_frame(batch, failed)

    def _execute_tuples(
        self, tuples: Iterable[Tuple], acks: bool = False, failed: list[int] | None = None
    ) -> Steps:
        """Execute tuples one by one. With `acks`, ack each one that did not fail.

        `failed` is given for a basic bolt's frame. The positions of failed tuples are appended to
        it.
        """
        basic, execute, ack = self._basic, self._execute, self.collector.ack
        begin, end = self._begin, self._end
        hold = None if acks or self._acks_itself else self._hold
        next_pause = self.pause_every
        for position, tuple in enumerate(tuples):
            if position >= next_pause:
                next_pause = position + self.pause_every
                yield None
            self.executed += 1
            if failed is not None:
                basic.position = position
            if begin is not None:
                begin()
            error = None
            try:
                pending = execute(tuple)
                if pending is not None:
                    yield pending
            except Exception as raised:  # noqa: BLE001 - user code may raise anything: the tuple fails, the task continues
                error = raised
            if error is not None or (end is not None and not end(tuple)):
                if failed is not None:
                    failed.append(position)
                if forgotten := self._failed(tuple, error):
                    yield from self._remind(forgotten)
            elif acks:
                ack(tuple)
            elif hold is not None and tuple.root and not tuple.finished:
                hold(tuple)

    # The end of an execution: the policy of at-least-once processing.

    def _watched(self, tuples: Iterable[Tuple]) -> Iterable[Tuple]:
        """Return the tuples that a rich bolt is about to execute."""
        return tuples

    @property
    def _hold(self) -> Callable[[Tuple], None] | None:
        """Return the function that remembers an executed, unfinished tuple, if one is needed."""
        return self.held.add

    def _hold_batch(self, batch: TupleBatch) -> None:
        """Remember a batch that was executed, unless it is finished."""
        if batch.roots is not None and not batch.finished:
            self.held.add(batch)

    def _failed(self, tuple: Tuple, error: Exception | None) -> Sequence[Tuple]:
        """Fail a tuple whose execution failed.

        Returns other tuples that must be executed again, because the bolt may have dropped them.
        """
        self.collector.fail_for(tuple, error)
        self._report(tuple, error)
        return ()

    def _undo_batch(self) -> Steps:
        """Drop the actions of a batch that is executed tuple by tuple instead."""
        self.collector.drop_batch()
        yield from ()

    def _remind(self, tuples: Sequence[Any]) -> Steps:
        """Execute tuples again that the bolt may have dropped."""
        raise NotImplementedError

    def _report(self, tuple: Tuple, error: Exception | None) -> None:
        if error is not None and (
            not isinstance(error, FailedException) or isinstance(error, ReportedFailedException)
        ):
            self._on_error(error, f"executing a tuple of {tuple.source_component!r}")

    # Ticks.

    def tick_is_due(self, now: float) -> bool:
        """Return True if `tick` has something to do. `now`: seconds of any monotonic clock."""
        return self._every is not None and (self._next_tick is None or now >= self._next_tick)

    def tick(self, now: float) -> Steps:
        """Execute a tick tuple if one is due. The first call only starts the clock."""
        if self._every is None or not self.tick_is_due(now):
            return
        due, self._next_tick = self._next_tick is not None, now + self._every
        self.collector.owner = get_ident()
        if due:
            self.ticks += 1
            # Bolts do not need to ack a tick, so kstorm acks it here.
            yield from self._execute_tuples([Tuple((self._every,), _TICK)], acks=True)

    def fail_held(self) -> int:
        """Fail the tuples that the bolt holds, so that they are replayed immediately.

        Returns their number.
        """
        before = self.collector.failed
        for one in self.held.take():
            if isinstance(one, Tuple):
                self.collector.fail(one)
            else:
                self.collector.fail_batch(one)
        return self.collector.failed - before

    def _executor(self, bolt: Bolt | BasicBolt) -> Callable[[Tuple], Awaitable[None] | None]:
        if isinstance(bolt, Bolt):
            return bolt.execute
        collector, execute = self._basic, bolt.execute

        def basic(tuple: Tuple) -> Awaitable[None] | None:
            collector.input = tuple
            return execute(tuple, collector)

        return basic

    def _batch_executor(self, bolt: Bolt | BasicBolt) -> Callable[[TupleBatch], Any] | None:
        """Return the bolt's `execute_batch`, or None if it did not define one."""
        if isinstance(bolt, Bolt):
            return None if type(bolt).execute_batch is Bolt.execute_batch else bolt.execute_batch
        if type(bolt).execute_batch is BasicBolt.execute_batch:
            return None
        collector, execute = self._basic, bolt.execute_batch

        def basic(batch: TupleBatch) -> Any:
            collector.batch = batch
            return execute(batch, collector)

        return basic

    def _sources(self, frame: TupleFrame) -> Sources:
        """Return the sources of a frame's tuples.

        Raises `FrameError` if the frame is not for this bolt.
        """
        if not frame.runs:
            return Sources(self._source(frame, frame.task))
        runs = [(self._source(frame, task), count) for task, count in frame.runs]
        return Sources(structs.replace(runs[0][0], task=-1), runs)

    def _source(self, frame: TupleFrame, task: int) -> Source:
        component, stream = frame.component, frame.stream
        source = self._known_sources.get((component, task, stream))
        if source is None:
            if (component, stream) not in self._inputs:
                raise FrameError(
                    f"a frame has the stream {stream!r} of {component!r}, to which "
                    f"{self.component!r} does not subscribe"
                )
            if task not in self.topology.task_ids(component):
                raise FrameError(f"a frame has task {task}, which is not a task of {component!r}")
            fields = self.topology.component(component).streams[stream].fields
            source = Source(component, stream, task, fields)
            self._known_sources[component, task, stream] = source
        if len(frame.columns) != len(source.fields):
            raise FrameError(
                f"a frame has {len(frame.columns)} columns, but the stream {stream!r} of "
                f"{component!r} has {len(source.fields)} fields: was the topology changed "
                "while tuples were in flight?"
            )
        return source


def tuples_of(sources: Sources, frame: TupleFrame) -> Iterator[Tuple]:
    """Yield a frame's tuples if it cannot be a batch: some are multi-anchored, or there are no
    fields."""
    roots: Any = unpack_ids(frame.roots) if frame.roots else repeat(0)
    edges: Any = unpack_ids(frame.edges) if frame.edges else repeat(0)
    rows: Any = zip(*frame.columns, strict=True) if frame.columns else repeat((), frame.count)
    more = frame.more
    return (
        Tuple(values, source, root, edge, more.get(position))
        for position, (values, root, edge, source) in enumerate(
            zip(rows, roots, edges, each_source(*sources), strict=False)
        )
    )
