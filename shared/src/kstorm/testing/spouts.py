"""Spouts for tests: one that is fed while the cluster runs, and one with a fixed list of tuples."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kstorm.testing.share import Share
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
    """Emits what a test feeds to it (Storm's `FeederSpout`).

        feeder = FeederSpout("word")
        builder.set_spout("words", feeder)
        …
        feeder.feed(["apple"], message_id=1)
        cluster.run_until_idle()

    What is fed lies outside of the cluster, as in a message queue: all tasks share it and a crash of the spout does not
    lose it. With `replay`, what failed, or was in flight when its task died, is emitted again. In a topology that is
    processed exactly once it is like a topic: each task has a share of it, emits it once, and goes on where it is committed.
    """

    def __init__(
        self,
        *fields: str | Iterable[str],
        streams: Mapping[str, Iterable[str]] | None = None,
        replay: bool = False,
    ) -> None:
        """`fields` are those of the default stream; or `streams` gives those of every stream by its id."""
        self._streams = {
            stream: Fields(names)
            for stream, names in (streams or {DEFAULT_STREAM: Fields(*fields)}).items()
        }
        self._source = _Source(replay)

    def feed(
        self, values: Sequence[Any], message_id: Any = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Adds a tuple to emit; with a `message_id` it is tracked. Give each message an id of its own."""
        self._source.fed.append((message_id, FixedTuple(values, stream)))
        self._source.waiting.append(self._source.fed[-1])

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares the streams."""
        for stream, fields in self._streams.items():
            declarer.declare_stream(stream, fields)

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Takes back what an earlier life of this task left unfinished."""
        super().open(config, context, collector)
        self._share = Share(context) if config.exactly_once else None
        if self._share is None:
            self._source.reopened(context.task_id)

    def next_tuple(self) -> None:
        """Emits the next tuple, if there is one."""
        if self._share is None:
            taken = self._source.take(self.context.task_id)
        else:
            found = self._share.next(self._source.fed)
            taken = None if found is None else found[1]
        if taken is not None:
            message_id, fixed = taken
            self.collector.emit(fixed.values, message_id, fixed.stream)

    def positions(self) -> Mapping[tuple[str, int], int]:
        """See `Positioned.positions`."""
        return {} if self._share is None else self._share.positions

    def positions_committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        """See `Positioned.positions_committed`: nobody else keeps them."""

    def ack(self, message_id: Any) -> None:
        """The message is done."""
        self._source.finished(self.context.task_id, message_id)

    def fail(self, message_id: Any) -> None:
        """The message is fed again if this spout replays, and is done otherwise."""
        self._source.failed(self.context.task_id, message_id)


class FixedTupleSpout(FeederSpout):
    """Emits a list of tuples, with their positions as message ids (Storm's `FixedTupleSpout`).

    `streams` names the fields of each stream: `FixedTupleSpout([["a"], ["b"]], {"default": ["word"]})`.
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
    """A queue outside of the cluster: shared by the copies of a spout, and by its lives before and after a crash."""

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
