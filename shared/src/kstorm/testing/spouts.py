"""Spouts for tests: one that a test feeds while the cluster runs, and one with a fixed list of
tuples."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class FixedTuple:
    """A tuple to emit on a stream."""

    values: Sequence[Any]
    stream: str = DEFAULT_STREAM


class FeederSpout(Positioned, Spout):
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
    """

    def __init__(
        self,
        *fields: str | Iterable[str],
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

    def feed(
        self, values: Sequence[Any], message_id: Any = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Add a tuple to emit. With a `message_id`, unique per message, it is tracked."""
        self._source.fed.append((message_id, FixedTuple(values, stream)))
        self._source.waiting.append(self._source.fed[-1])

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

    def next_tuple(self) -> None:
        if self._share is None:
            taken = self._source.take(self.context.task_id)
        else:
            found = self._share.next(self._source.fed)
            taken = None if found is None else found[1]
        if taken is not None:
            message_id, fixed = taken
            self.collector.emit(fixed.values, message_id, fixed.stream)

    def positions(self) -> Mapping[tuple[str, int], int]:
        return {} if self._share is None else self._share.positions

    def positions_committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Do nothing: positions are stored nowhere else."""

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


class _Source:
    """A queue outside the cluster, shared by the copies of a spout before and after a crash."""

    def __init__(self, replay: bool) -> None:
        self.waiting: deque[tuple[Any, FixedTuple]] = deque()
        self.fed: list[tuple[Any, FixedTuple]] = []
        self._replay = replay
        self._open: dict[tuple[int, Any], FixedTuple] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Source":
        return self

    def take(self, task: int) -> tuple[Any, FixedTuple] | None:
        if not self.waiting:
            return None
        message_id, fixed = self.waiting.popleft()
        if message_id is not None:
            self._open[task, message_id] = fixed
        return message_id, fixed

    def finished(self, task: int, message_id: Any) -> None:
        self._open.pop((task, message_id), None)

    def failed(self, task: int, message_id: Any) -> None:
        fixed = self._open.pop((task, message_id), None)
        if fixed is not None and self._replay:
            self.waiting.append((message_id, fixed))

    def reopened(self, task: int) -> None:
        for owner, message_id in [key for key in self._open if key[0] == task]:
            self.failed(owner, message_id)
