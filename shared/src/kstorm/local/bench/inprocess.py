"""The word count without Kafka: the very objects of the services, frames handed from one to the next in memory.

So the cost of the core alone is seen, stage by stage, and what it does can be counted: records, bytes, rows.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kstorm.core.bolt_task import BoltTask
from kstorm.core.ids import columns_of, random_columns, random_ids
from kstorm.core.ledger import Ledger
from kstorm.core.outbox import CompletionBox, Outbox, Outgoing
from kstorm.core.spout_task import SpoutTask
from kstorm.core.tasks import Steps
from kstorm.core.wire import AckFrame, CompletionFrame, TupleFrame, decode
from kstorm.local.bench.wordcount import Count, Split
from kstorm.topology import (
    BasicBolt,
    Bolt,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    TupleBatch,
)

STAGES = ("spout", "split", "count", "sink", "acker")


class Lines(Spout):
    """Emits what it is given, in batches or one by one."""

    def __init__(self, batches: bool = True) -> None:
        self.batches = batches
        self.lines: list[str] = []
        self.begun = self.finished = 0

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The line."""
        declarer.declare("str")

    def next_tuple(self) -> None:
        """All of them."""
        ids = range(self.begun, self.begun + len(self.lines))
        self.begun += len(self.lines)
        if self.batches:
            self.collector.emit_batch([self.lines], ids)
        else:
            for line, message_id in zip(self.lines, ids, strict=True):
                self.collector.emit([line], message_id)
        self.lines = []

    def ack(self, message_id: int) -> None:
        """Counts."""
        self.finished += 1


class Swallow(Bolt):
    """The end: acks."""

    def execute(self, tuple: Tuple) -> None:
        """Acks one."""
        self.collector.ack(tuple)

    def execute_batch(self, batch: TupleBatch) -> None:
        """Acks all."""
        self.collector.ack_batch(batch)


class SplitOneByOne(Split):
    """As `Split`, but for its `execute_batch`."""

    execute_batch = BasicBolt.execute_batch


class CountOneByOne(Count):
    """As `Count`, but for its `execute_batch`."""

    execute_batch = BasicBolt.execute_batch


class SwallowOneByOne(Swallow):
    """As `Swallow`, but for its `execute_batch`."""

    execute_batch = Bolt.execute_batch


@dataclass
class Work:
    """What was done, by stage."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    records: Counter[str] = field(default_factory=Counter)
    """Records sent."""
    sent_bytes: Counter[str] = field(default_factory=Counter)


class InProcess:
    """Spout, split, count, sink and acker, with so many tasks each. `next_id` makes a run repeatable."""

    def __init__(
        self, tasks: int = 1, batches: bool = True, ackers: int = 1, next_id: Callable[[], int] | None = None
    ) -> None:
        self.topology = _topology(tasks, batches, ackers)
        self.work = Work()
        self._queue: deque[Outgoing] = deque()
        self._outboxes = {stage: Outbox(self.topology) for stage in STAGES[:4]}
        self._bolts = {stage: [self._bolt(stage, i, next_id) for i in range(tasks)] for stage in STAGES[1:4]}
        self._spouts = [self._spout(i, next_id) for i in range(tasks)]
        self._box = CompletionBox(self.topology)
        self.ledgers = [Ledger(self._box) for _ in range(ackers)]
        self._offset = 0
        self._stage_of = {self.topology.bolt_topic(stage): stage for stage in STAGES[1:4]}

    @property
    def finished(self) -> int:
        """Trees that a spout was told of."""
        return sum(task.spout.finished for task in self._spouts)  # type: ignore[attr-defined]

    def run(self, lines: list[str]) -> None:
        """Takes lines through to their completions; each task's share of what waits is one poll."""
        tasks = len(self._spouts)
        for number, task in enumerate(self._spouts):
            task.spout.lines = lines[number::tasks]  # type: ignore[attr-defined]
            self._timed("spout", partial(_next, task))
        self._drain("spout")
        while self._queue:
            waiting, self._queue = self._queue, deque()
            for record in waiting:
                self._deliver(record)
            for stage in STAGES[1:4]:
                self._drain(stage)
            self._timed("acker", lambda: self._send("acker", self._box.drain(0)))

    def _deliver(self, record: Outgoing) -> None:
        stage = self._stage_of.get(record.topic)
        if stage is not None:
            task = self._bolts[stage][record.partition]
            self._timed(stage, lambda: _finish(task.receive(decode(TupleFrame, record.value))))
        elif record.topic == self.topology.acker_topic:
            self._offset += 1
            ledger, offset = self.ledgers[record.partition], self._offset
            self._timed("acker", lambda: ledger.apply(decode(AckFrame, record.value), offset))
        else:
            spout = self._spouts[record.partition]
            self._timed("spout", lambda: _finish(spout.completed(decode(CompletionFrame, record.value), 0.0)))

    def _drain(self, stage: str) -> None:
        outbox = self._outboxes[stage]
        self._timed(stage, lambda: self._send(stage, [*outbox.drain_tuples(), *outbox.drain_acks()]))

    def _send(self, stage: str, sends: Iterable[Outgoing]) -> None:
        for send in sends:
            self.work.records[stage] += 1
            self.work.sent_bytes[stage] += len(send.value)
            self._queue.append(send)

    def _timed(self, stage: str, act: Callable[[], None]) -> None:
        began = time.perf_counter()
        act()
        self.work.seconds[stage] += time.perf_counter() - began

    def _bolt(self, stage: str, index: int, next_id: Callable[[], int] | None) -> BoltTask:
        bolt: Any = _copy(self.topology, stage)
        ids = _ids(next_id)
        task = BoltTask(self.topology, stage, index, bolt, self._outboxes[stage], ids[0], _raise, ids[1])
        context = TopologyContext(self.topology, stage, index)
        bolt.prepare(task.config, context, *((task.collector,) if isinstance(bolt, Bolt) else ()))
        return task

    def _spout(self, index: int, next_id: Callable[[], int] | None) -> SpoutTask:
        spout: Any = _copy(self.topology, "spout")
        ids = _ids(next_id)
        outbox = self._outboxes["spout"]
        task = SpoutTask(self.topology, "spout", index, spout, outbox, ids[0], _raise, 0.0, ids[1])
        spout.open(task.config, TopologyContext(self.topology, "spout", index), task.collector)
        _finish(task.activate())
        return task


def _topology(tasks: int, batches: bool, ackers: int) -> Topology:
    config = Config(
        topology_acker_executors=min(1, ackers), topology_acker_tasks=max(1, ackers), topology_max_spout_pending=10**9
    )
    split, count, sink = (
        (Split(), Count(), Swallow()) if batches else (SplitOneByOne(), CountOneByOne(), SwallowOneByOne())
    )
    builder = TopologyBuilder("bench", config)
    builder.set_spout("spout", Lines(batches)).set_num_tasks(tasks)
    builder.set_bolt("split", split).set_num_tasks(tasks).shuffle_grouping("spout")
    builder.set_bolt("count", count).set_num_tasks(tasks).fields_grouping("split", Fields("word"))
    builder.set_bolt("sink", sink).set_num_tasks(tasks).fields_grouping("count", Fields("key"))
    return builder.build()


def _copy(topology: Topology, component: str) -> Any:
    return deepcopy(topology.component(component).component)


def _ids(next_id: Callable[[], int] | None) -> tuple[Any, Any]:
    return (random_ids(), random_columns()) if next_id is None else (next_id, columns_of(next_id))


def _finish(steps: Steps) -> None:
    for _ in steps:
        pass


def _next(task: SpoutTask) -> None:
    _finish(task.next_tuple(0.0))


def _raise(error: BaseException, doing: str) -> None:
    raise error
