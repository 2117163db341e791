"""The spout that replaces a user's spout in `simulate`. Its inputs outlive every crash."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kstorm.testing.log_share import LogShare
from kstorm.testing.processes import PROCESS, SpoutProcess
from kstorm.testing.spouts import FixedTuple
from kstorm.topology import (
    Config,
    OutputFieldsDeclarer,
    Positioned,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
)


class _Shared:
    """The inputs of a spout and their outcome. Kept outside the cluster, so it outlives every
    crash."""

    def __init__(self, inputs: Sequence[FixedTuple]) -> None:
        self.inputs = inputs
        self.acked: set[int] = set()
        self.emits: Counter[int] = Counter()

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Shared":
        return self

    @property
    def done(self) -> bool:
        return len(self.acked) == len(self.inputs)

    def missing(self) -> list[int]:
        return [position for position in range(len(self.inputs)) if position not in self.acked]

    @property
    def replays(self) -> int:
        return sum(self.emits.values()) - len(self.emits)


class InputSpout(Positioned, Spout):
    """Emits its task's share of the inputs.

    Each start of a task begins with everything that is not acked, like a spout that reads from a
    stored offset. It does so even while an earlier run of the task is a zombie that also emits.
    With exactly-once processing it emits each input once and starts at the committed position.
    """

    def __init__(self, inputs: Sequence[FixedTuple], streams: Mapping[str, Iterable[str]]) -> None:
        self.shared, self._streams = _Shared(inputs), streams

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the streams of the spout that it replaces."""
        for stream, fields in self._streams.items():
            declarer.declare_stream(stream, fields)

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        super().open(config, context, collector)
        self._share = LogShare(context) if config.exactly_once else None
        every, mine = context.total_tasks, context.task_index
        self._todo = deque(
            (position, 0.0) for position in self.shared.missing() if position % every == mine
        )
        self._process: SpoutProcess = context.resources[PROCESS]

    def next_tuple(self) -> None:
        """Emit the next input, if one is due."""
        if self._share is not None:
            self._emit_share(self._share)
            return
        if self._todo and self._todo[0][1] <= self._process.world.now:
            position, _ = self._todo[0]
            fixed = self.shared.inputs[position]
            self.collector.emit(fixed.values, position, fixed.stream)
            self._todo.popleft()
            self.shared.emits[position] += 1
        else:
            self._todo.rotate(-1)

    def _emit_share(self, share: LogShare) -> None:
        found = share.next(self.shared.inputs)
        if found is not None:
            position, fixed = found
            self.collector.emit(fixed.values, position, fixed.stream)
            self.shared.emits[position] += 1

    def positions(self) -> Mapping[tuple[str, int], int]:
        return {} if self._share is None else self._share.positions

    def positions_committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Do nothing: positions are stored nowhere else."""

    def ack(self, message_id: int) -> None:
        self.shared.acked.add(message_id)

    def fail(self, message_id: int) -> None:
        """Emit it again: immediately the first time, then after growing waits.

        So time passes even if it always fails.
        """
        wait = min(self.shared.emits[message_id] - 1, self.config.topology_message_timeout_secs / 2)
        self._todo.append((message_id, self._process.world.now + wait))
