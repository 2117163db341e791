"""The bolt around a windowed bolt: stores tuples, advances time, shows windows (Storm's
`WindowedBoltExecutor`)."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kstorm.core.task_state import check_range
from kstorm.errors import FrameError
from kstorm.topology import (
    BasicOutputCollector,
    Config,
    Fields,
    KeyValueState,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    TopologyContext,
    Tuple,
    TupleBatch,
)
from kstorm.topology.component import Maybe, Wrapped, configuration_of
from kstorm.topology.context import CLOCK
from kstorm.topology.event_time import NEVER, EventTime, Mark, TellsTime
from kstorm.windows.collector import WindowCollector
from kstorm.windows.manager import Windower, time_of
from kstorm.windows.settings import DEFAULT_INTERVAL, LATE_TUPLE, WindowSettings
from kstorm.windows.watermark import Watermark
from kstorm.windows.window import TupleWindow
from kstorm.windows.window_spec import Count
from kstorm.windows.window_store import ALL, WindowStore


class WindowProcessor(Wrapped):
    """The bolt that an executor runs."""

    def prepare(self, config: Config, context: TopologyContext, collector: WindowCollector) -> None:
        raise NotImplementedError

    def execute(self, window: TupleWindow) -> None:
        raise NotImplementedError

    def cleanup(self) -> None:
        raise NotImplementedError

    def make_manager(self, state: KeyValueState, kept: WindowStore) -> Windower:
        raise NotImplementedError


class StatefulWindowProcessor(WindowProcessor):
    """A bolt with a state of its own."""

    def pre_prepare(self, checkpoint_id: int) -> Maybe:
        raise NotImplementedError

    def pre_commit(self, checkpoint_id: int) -> Maybe:
        raise NotImplementedError

    def pre_rollback(self) -> Maybe:
        raise NotImplementedError


_AHEAD_MS: Final = 86_400_000
"""A tuple's time this far ahead of the clock is reported."""
AT_ONCE: Final = 50_000
"""Most windows, or most rows of one window, shown in one execution. All changes and output of an
execution are held in memory."""


class WindowedBoltExecutor(TellsTime, StatefulBasicBolt):
    """Runs a `WindowedBolt`. Windows are in the state under `w/`, the state of a
    `StatefulWindowedBolt` under `s/`.

    A tuple is acked once it is in the state. So a window is as durable as any state and needs no
    replay when its process dies. It may be longer than the message timeout. Its output is
    unanchored.
    """

    def __init__(self, bolt: WindowProcessor, settings: WindowSettings) -> None:
        settings.check()
        self.bolt, self._settings = bolt, settings
        self._collector = WindowCollector()
        # True if memory may hold changes of an execution that was rolled back
        self._stale = False
        self._windows = self._late = self._on_time = self._ahead = 0
        self._sending: Mapping[str, Sequence[int]] = {}
        self._received: dict[int, Mark] = {}
        self._received_more = False
        self._advanced = 0
        self._passed = NEVER

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        self.bolt.declare_output_fields(declarer)
        if self._settings.late is not None:
            declarer.declare_stream(self._settings.late, LATE_TUPLE)

    def get_component_configuration(self) -> dict[str, Any]:
        return {
            "topology_tick_tuple_freq_secs": self._settings.tick_secs,
            **configuration_of(self.bolt),
        }

    def prepare(self, config: Config, context: TopologyContext) -> None:
        super().prepare(config, context)
        clock: Callable[[], float] = context.resources.get(CLOCK, time.time)
        self._clock = clock
        self._simulated = CLOCK in context.resources
        self._advanced = self._now()
        self.bolt.prepare(config, context, self._collector)

    def init_state(self, state: KeyValueState) -> Maybe:
        super().init_state(state)
        self._kept = WindowStore(state, self.context.get_component_output_fields)
        sending = {task for tasks in self._sending.values() for task in tasks}
        # Tasks that the topology no longer has are dropped.
        self._received = {
            task: mark for task, mark in self._kept.marks().items() if task in sending
        }
        self._restore()
        begin: Callable[[KeyValueState], Maybe] | None = getattr(self.bolt, "init_state", None)
        return None if begin is None else begin(PrefixedState(state, "s/"))

    def cleanup(self) -> None:
        self.bolt.cleanup()

    def refuses_inputs(self, inputs: Mapping[tuple[str, str], Fields]) -> str:
        return self._settings.refuses_inputs(inputs) or self.bolt.refuses_inputs(inputs)

    def grouped_by(self) -> Collection[str]:
        return self._settings.key

    def metrics(self) -> Mapping[str, float]:
        found: dict[str, float] = {"windows_total": self._windows, "late_total": self._late}
        if self._settings.timestamp is not None:
            found["in_time_total"] = self._on_time
        return {**found, **self.bolt.metrics()}

    def problem(self) -> Exception | None:
        return self.bolt.problem()

    @property
    def event_time(self) -> EventTime | None:
        """The place of the event time in its tuples."""
        settings = self._settings
        if settings.timestamp is None:
            return None
        idle = None if settings.idle is None else settings.idle.ms
        return EventTime(settings.field or settings.timestamp, idle)

    def follow(self, tasks: Mapping[str, Sequence[int]]) -> None:
        self._sending = tasks

    def receive_watermark(self, component: str, task: int, mark: Mark) -> None:
        # Kept apart from the watermark, which is loaded again after a failed execution.
        if self._received.get(task) != mark:
            self._received[task] = self._watermark.received[task] = mark
            self._received_more = True

    def store_watermarks(self) -> None:
        if self._received_more:
            self._received_more = False
            self._kept.put_marks(self._received)

    @property
    def watermark_is_due(self) -> bool:
        """True if a watermark interval has passed since the last advance."""
        interval = (self._settings.interval or DEFAULT_INTERVAL).ms
        return not self._advanced <= self._now() < self._advanced + interval

    @property
    def watermark(self) -> Mark:
        """The time up to which no more windows will end."""
        return Mark(self._passed)

    @property
    def reached(self) -> int:
        """The watermark, up to which all windows are complete."""
        return self._watermark.at

    def holders(self) -> Iterable[tuple[int, Mark]]:
        return self._watermark.holders()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Store a tuple. Show the windows that are due if it is a tick or if it completes a
        window."""
        with self._execution():
            now = self._now()
            if tuple.is_tick:
                moved = self._settings.timestamp is None or self._advance(now)
                if moved or self._more or self._anew:
                    self._show(now, collector)
                return
            self._take([(tuple, self._time(tuple, now))], now, collector)
            if self._more or (self._settings.timestamp is None and self._manager.is_full_with(0)):
                self._show(now, collector)

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> Any:
        """Store a batch. Batches with tuples that may cause output are executed tuple by tuple."""
        if self._more:
            return NotImplemented
        with self._execution():
            now = self._now()
            timed = [(tuple, self._time(tuple, now)) for tuple in batch.tuples()]
            if self._settings.timestamp is None:
                if self._manager.is_full_with(len(timed)):
                    return NotImplemented
            elif any(time <= self._watermark.at for _, time in timed):
                return NotImplemented
            self._take(timed, now, collector)
        return None

    def _take(
        self, timed: Sequence[tuple[Tuple, int]], now: int, collector: BasicOutputCollector
    ) -> None:
        for each, at in timed:
            if self._settings.timestamp is not None:
                if at <= self._watermark.at:
                    self._take_late(each, collector)
                    continue
                if at > now + _AHEAD_MS and not self._simulated:
                    self._tell_of_future(each, at, now, collector)
                self._watermark.note(each.source, at, now)
                self._on_time += 1
            self._manager.add(at, each)
        self._store()

    def _tell_of_future(
        self, tuple: Tuple, at: int, now: int, collector: BasicOutputCollector
    ) -> None:
        """Report the 1st, 2nd, 4th, 8th … tuple of the future. All earlier tuples are late then."""
        self._ahead += 1
        if self._ahead.bit_count() == 1:
            collector.report_error(
                FrameError(
                    f"the time of a tuple of {tuple.source_component!r} is {at}, which is "
                    f"{(at - now) / 86_400_000:.0f} days ahead of this machine's clock. The "
                    "watermark advances with it, so tuples of the present become late. Correct "
                    "or drop such a time before the window. So far there were "
                    f"{self._ahead} of them"
                )
            )

    def _advance(self, now: int) -> bool:
        if self._watermark.advance(now):
            self._advanced = now
            return True
        return False

    def _take_late(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self._late += 1
        if self._settings.late is not None:
            found = {
                "component": tuple.source_component,
                "stream": tuple.source_stream,
                "values": tuple.as_dict(),
            }
            collector.emit([found], self._settings.late)

    def _show(self, now: int, collector: BasicOutputCollector) -> None:
        until = self._watermark.at
        if self._settings.timestamp is None:
            until = ALL if isinstance(self._settings.slide, Count) else now
        self._collector.current = collector
        try:
            rows, self._more, self._anew = 0, False, False
            for window in self._manager.due(until):
                if rows >= AT_ONCE:
                    # The generator has resumed, so the previous window is finished.
                    self._more = True
                    break
                self.bolt.execute(window)
                rows += getattr(window, "rows", 1)
                self._windows += 1
            if not self._more and self._settings.timestamp is not None and until != NEVER:
                self._passed = self._manager.passed(until)
        finally:
            self._collector.current = None
            # Also after an error: at-least-once processing rolls nothing back.
            self._store()

    def _time(self, tuple: Tuple, now: int) -> int:
        """Return a tuple's time. Raises `FrameError` if the extractor returns an invalid one."""
        extractor = self._settings.timestamp
        return self._manager.time_for(now) if extractor is None else time_of(extractor(tuple))

    def _now(self) -> int:
        return int(self._clock() * 1000)

    @contextmanager
    def _execution(self) -> Iterator[None]:
        """Reload memory after a failed execution. The caller has rolled back the state by then."""
        if self._stale:
            self._restore()
        self._stale = True
        yield
        self._stale = False

    def _restore(self) -> None:
        settings = self._settings
        self._watermark = Watermark(
            0 if settings.lag is None else settings.lag.ms,
            None if settings.idle is None else settings.idle.ms,
            {
                (each.component, each.stream): self.context.topology.task_ids(each.component)
                for each in self.context.topology.components[self.context.component].inputs
            },
            self._sending,
        )
        # A window may have become due before a restart.
        self._more, self._anew = False, True
        self._manager: Windower = self.bolt.make_manager(self.state, self._kept)
        meta = self._kept.meta()
        if meta is not None:
            self._watermark.restore(meta[0])
            self._manager.restore(meta[1])
        self._watermark.received.update(self._received)

    def _store(self) -> None:
        self._kept.put_meta([self._watermark.stored(), self._manager.stored()])


class StatefulWindowedBoltExecutor(WindowedBoltExecutor):
    """Runs a `StatefulWindowedBolt` and calls its checkpoint hooks."""

    bolt: StatefulWindowProcessor

    def pre_prepare(self, checkpoint_id: int) -> Maybe:
        return self.bolt.pre_prepare(checkpoint_id)

    def pre_commit(self, checkpoint_id: int) -> Maybe:
        return self.bolt.pre_commit(checkpoint_id)

    def pre_rollback(self) -> Maybe:
        return self.bolt.pre_rollback()


class PrefixedState:
    """The part of a state whose keys have a prefix. The user does not see the prefix."""

    def __init__(self, state: KeyValueState, prefix: str) -> None:
        self._state, self._prefix = state, prefix
        self._behind = prefix[:-1] + chr(ord(prefix[-1]) + 1)

    def get(self, key: str, default: Any = None) -> Any:
        return self._state.get(self._prefix + key, default)

    def put(self, key: str, value: Any) -> None:
        self._state.put(self._prefix + key, value)

    def delete(self, key: str) -> Any:
        return self._state.delete(self._prefix + key)

    def discard(self, key: str) -> None:
        self._state.discard(self._prefix + key)

    def items(self) -> Iterator[tuple[str, Any]]:
        return self.range()

    def range(self, start: str = "", end: str | None = None) -> Iterator[tuple[str, Any]]:
        check_range(start, end)
        last = self._behind if end is None else self._prefix + end
        found = self._state.range(self._prefix + start, last)
        return ((key[len(self._prefix) :], value) for key, value in found)
