"""Spouts for tests: one that a test feeds while the cluster runs, and one with a fixed list of
tuples."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kstorm.core.watermarks import Idleness
from kstorm.fitting import Text, check_fields, checked
from kstorm.testing.log_share import LogShare
from kstorm.topology import (
    DEFAULT_STREAM,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Positioned,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
)
from kstorm.topology.context import CLOCK
from kstorm.topology.event_time import NEVER, UNKNOWN, Mark, Timed, TimePlan


@dataclass(frozen=True, slots=True)
class FixedTuple:
    """A tuple to emit on a stream."""

    values: Sequence[Any]
    stream: Text = DEFAULT_STREAM

    def __post_init__(self) -> None:
        check_fields(self)


class FeederSpout(Timed, Positioned, Spout):
    """Emits the tuples that a test feeds to it (Storm's `FeederSpout`).

        feeder = FeederSpout("word")
        builder.set_spout("words", feeder)
        …
        feeder.feed(["apple"], message_id=1)
        cluster.run_until_idle()

    Like a message queue, the fed tuples live outside the cluster. All tasks share them, and they
    survive a crash of the spout. With `replay`, tuples that failed, or were in flight when their
    task died, are emitted again. In an exactly-once topology the spout behaves like a topic. Each
    task emits its share once and resumes at its committed position.

    With event time, all fed tuples are one partition. A later tuple advances the watermark of every
    task, no matter which one emits it.
    """

    @checked()
    def __init__(
        self,
        *fields: Text | Iterable[str],
        streams: Mapping[str, Iterable[str]] | None = None,
        replay: bool = False,
    ) -> None:
        """`fields` are the fields of the default stream. Alternatively, `streams` maps every stream
        id to its fields."""
        self._streams = {
            stream: Fields(names)
            for stream, names in (streams or {DEFAULT_STREAM: Fields(*fields)}).items()
        }
        self._source = _Source(replay)

    @checked()
    def feed(
        self, values: Sequence[Any], message_id: Any = None, stream: Text = DEFAULT_STREAM
    ) -> None:
        """Add a tuple to emit. With a `message_id`, unique per message, it is tracked."""
        self._source.feed(message_id, FixedTuple(values, stream))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        for stream, fields in self._streams.items():
            declarer.declare_stream(stream, fields)

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Requeue what an earlier run of this task left unfinished."""
        super().open(config, context, collector)
        self._share = LogShare(context) if config.exactly_once else None
        if self._share is None:
            self._source.reopened(context.task_id)
        self._times = _times_of(self._source, context)

    def next_tuple(self) -> None:
        if self._share is None:
            taken = self._source.take(self.context.task_id)
        else:
            found = self._share.next(self._source.fed)
            taken = None if found is None else (found[1].message_id, found[1].fixed)
        if taken is not None:
            message_id, fixed = taken
            self.collector.emit(fixed.values, message_id, fixed.stream)

    def positions(self) -> Mapping[tuple[str, int], int]:
        return {} if self._share is None else self._share.positions

    def positions_committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Do nothing: positions are stored nowhere else."""

    def watermark(self) -> Mark:
        if self._times is None:
            return UNKNOWN
        source = self._source
        bound = source.first_unfinished if self._share is None else self._share.place
        return UNKNOWN if bound is None else self._times.before(min(bound, len(source.fed)))

    def ack(self, message_id: Any) -> None:
        self._source.finished(self.context.task_id, message_id)

    def fail(self, message_id: Any) -> None:
        """Feed the message again if this spout replays. Otherwise it is done."""
        self._source.failed(self.context.task_id, message_id)


class FixedTupleSpout(FeederSpout):
    """Emits a list of tuples, with their positions as message ids (Storm's `FixedTupleSpout`).

    `streams` maps each stream to its fields: `FixedTupleSpout([["a"], ["b"]], {"default":
    ["word"]})`.
    """

    @checked()
    def __init__(
        self,
        tuples: Iterable[Sequence[Any] | FixedTuple],
        streams: Mapping[str, Iterable[str]],
        replay: bool = False,
    ) -> None:
        super().__init__(streams=streams, replay=replay)
        for position, values in enumerate(tuples):
            fixed = values if isinstance(values, FixedTuple) else FixedTuple(values)
            self.feed(fixed.values, position, fixed.stream)


@dataclass(frozen=True, slots=True)
class _Fed:
    place: int
    message_id: Any
    fixed: FixedTuple


class _Source:
    """A queue outside the cluster, shared by the copies of a spout before and after a crash."""

    def __init__(self, replay: bool) -> None:
        self.waiting: deque[_Fed] = deque()
        self.fed: list[_Fed] = []
        self._replay = replay
        self._open: dict[tuple[int, Any], _Fed] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Source":
        return self

    def feed(self, message_id: Any, fixed: FixedTuple) -> None:
        self.fed.append(_Fed(len(self.fed), message_id, fixed))
        self.waiting.append(self.fed[-1])

    def take(self, task: int) -> tuple[Any, FixedTuple] | None:
        if not self.waiting:
            return None
        taken = self.waiting.popleft()
        if taken.message_id is not None:
            self._open[task, taken.message_id] = taken
        return taken.message_id, taken.fixed

    def finished(self, task: int, message_id: Any) -> None:
        self._open.pop((task, message_id), None)

    def failed(self, task: int, message_id: Any) -> None:
        failed = self._open.pop((task, message_id), None)
        if failed is not None and self._replay:
            self.waiting.append(failed)

    def reopened(self, task: int) -> None:
        for owner, message_id in [key for key in self._open if key[0] == task]:
            self.failed(owner, message_id)

    @property
    def first_unfinished(self) -> int:
        """The place of the first tuple that may be emitted, perhaps again."""
        unfinished = (*self.waiting, *self._open.values())
        return min((one.place for one in unfinished), default=len(self.fed))


class _Times:
    """The latest event time before each place of a queue, as one task computes it."""

    def __init__(
        self,
        source: _Source,
        latest: Callable[[FixedTuple], int],
        idleness: Idleness,
        clock: Callable[[], float],
    ) -> None:
        self._source, self._latest = source, latest
        self._idleness, self._clock = idleness, clock
        self._before = [NEVER]

    def before(self, place: int) -> Mark:
        """Return the watermark before a place of the queue. It is idle if nothing follows."""
        known = self._before
        while len(known) <= place:
            known.append(max(known[-1], self._latest(self._source.fed[len(known) - 1].fixed)))
        empty = place == len(self._source.fed)
        return Mark(known[place], self._idleness.look(self._clock(), empty))


def _times_of(source: _Source, context: TopologyContext) -> _Times | None:
    found = TimePlan(context.topology).spouts.get(context.component)
    if found is None:
        return None

    def latest(fixed: FixedTuple) -> int:
        fields = context.get_component_output_fields(context.component, fixed.stream)
        read = found.latest(context.component, fixed.stream, context.task_id, fields)
        return read([fixed.values])

    clock: Callable[[], float] = context.resources.get(CLOCK, time.time)
    return _Times(source, latest, Idleness(found.idle_ms), clock)
