"""The word count without Kafka: the engines of the services, frames handed from one to the next in memory.

So the cost of the core alone is seen, stage by stage, and what it does can be counted: records, bytes, rows.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from kstorm.core.engine import AckerEngine, BoltEngine, Effect, Engine, Record, SpoutEngine, Unit
from kstorm.core.engine.effects import Commit, Open, Ready, Run, Send
from kstorm.core.ids import columns_of, random_columns, random_ids
from kstorm.core.ledger import Ledger
from kstorm.core.outgoing import Outgoing
from kstorm.core.spout_task import SpoutTask
from kstorm.topology import (
    BasicBolt,
    Bolt,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Spout,
    Topology,
    TopologyBuilder,
    Tuple,
    TupleBatch,
)
from tests.bench.wordcount import Count, Split

STAGES = ("spout", "split", "count", "sink", "acker")
_RUN_SECS = 0.01  # what a run takes by the engines' clock, so that commits and checkpoints come now and then


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
        if not self.lines:
            return
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
        self,
        tasks: int = 1,
        batches: bool = True,
        ackers: int = 1,
        next_id: Callable[[], int] | None = None,
    ) -> None:
        self.topology = topology = _topology(tasks, batches, ackers)
        self.work = Work()
        self._now = 0.0
        ids = (
            (random_ids(), random_columns()) if next_id is None else (next_id, columns_of(next_id))
        )
        journal = _Loud()
        self._spout = SpoutEngine(topology, "spout", journal, next_id=ids[0], next_ids=ids[1])
        engines: dict[str, Engine[Any]] = {"spout": self._spout}
        for stage in STAGES[1:4]:
            engines[stage] = BoltEngine(topology, stage, journal, next_id=ids[0], next_ids=ids[1])
        engines["acker"] = AckerEngine(topology, journal, load_rows=lambda task: (), now=0.0)
        shares = {stage: ackers if stage == "acker" else tasks for stage in STAGES}
        self._stages = [_Stage(stage, engines[stage], shares[stage], self.work) for stage in STAGES]
        self._stage_of = {stage.engine.topic: stage for stage in self._stages}
        self.spouts: list[SpoutTask] = self._spout.tasks
        """The spout's tasks."""
        self.ledgers: list[Ledger] = engines["acker"].tasks
        """The acker's tasks."""

    @property
    def finished(self) -> int:
        """Trees that a spout was told of."""
        return sum(cast("Lines", task.spout).finished for task in self.spouts)

    def run(self, lines: list[str]) -> None:
        """Takes lines through to their completions; what waits for a component is one poll of it."""
        self._now += _RUN_SECS
        for number, task in enumerate(self.spouts):
            cast("Lines", task.spout).lines = lines[number :: len(self.spouts)]
        self._stages[0].timed(lambda: self._spout.emit(self._now), self._now)
        while self._hand_over():
            for stage in self._stages:
                stage.poll(self._now)
        for stage in self._stages:
            stage.timed(partial(stage.engine.tick, self._now), self._now)
        assert not self._hand_over(), "something was sent by a tick"

    def _hand_over(self) -> bool:
        """Whatever was sent arrives; whether there was anything."""
        anything = False
        for stage in self._stages:
            for record in stage.confirm(self._now):
                self._stage_of[record.topic].take(record)
                anything = True
        return anything


class _Stage:
    """The driver of one component's engine: its records are in memory, and arrive when `confirm` is called."""

    def __init__(self, name: str, engine: Engine[Any], tasks: int, work: Work) -> None:
        self.name, self.engine, self._work = name, engine, work
        self._sends: list[Send] = []
        self._offsets = [0] * tasks
        self._polled: dict[int, list[Record]] = {}
        self._carry_out(engine.assigned(dict.fromkeys(range(tasks), 0), 0.0), 0.0)

    def take(self, sent: Outgoing) -> None:
        """A record that the next poll brings."""
        offset = self._offsets[sent.partition]
        self._offsets[sent.partition] = offset + 1
        self._polled.setdefault(sent.partition, []).append(Record(offset, sent.value))

    def poll(self, now: float) -> None:
        """Works on what was taken."""
        if self._polled:
            item = [(self.engine.slots[task], records) for task, records in self._polled.items()]
            self._polled = {}
            self.timed(lambda: self.engine.polled(item, Unit(), now), now)

    def confirm(self, now: float) -> Iterable[Outgoing]:
        """All that it sent has arrived; returns it."""
        if not self._sends:
            return ()
        sends, self._sends = self._sends, []
        self.timed(lambda: self._confirmed(sends, now), now)
        return [record for send in sends for record in send.records]

    def timed(self, event: Callable[[], list[Effect]], now: float) -> None:
        """Tells the engine of an event, and carries out what follows from it."""
        began = time.perf_counter()
        self._carry_out(event(), now)
        self._work.seconds[self.name] += time.perf_counter() - began

    def _confirmed(self, sends: list[Send], now: float) -> list[Effect]:
        for send in sends:
            for _ in send.records:
                send.unit.delivered()
        return self.engine.confirmed(now)

    def _carry_out(self, effects: list[Any], now: float) -> None:
        while effects:
            follows: list[Effect] = []
            for effect in effects:
                kind = type(effect)
                if kind is Send:
                    self._send(effect)
                elif kind is Run:
                    for _ in effect.steps:
                        pass
                    follows += self.engine.ran(effect, now)
                elif kind is Open:
                    follows += self.engine.opened(effect.task, (), now)
                else:
                    assert kind in (Ready, Commit), (
                        f"{effect}: no bolt has state, and each run ends its trees"
                    )
            effects = follows

    def _send(self, send: Send) -> None:
        self._sends.append(send)
        self._work.records[self.name] += len(send.records)
        self._work.sent_bytes[self.name] += sum([len(record.value) for record in send.records])


class _Loud:
    """The journal: what goes wrong ends the run."""

    def error(self, error: BaseException, doing: str, task: int) -> None:
        raise error

    def info(self, event: str, **fields: Any) -> None:
        pass

    def warning(self, event: str, **fields: Any) -> None:
        raise AssertionError(f"{event}: {fields}")

    def made(self, task: Any, task_id: int) -> None:
        pass


def _topology(tasks: int, batches: bool, ackers: int) -> Topology:
    config = Config(
        topology_acker_executors=min(1, ackers),
        topology_acker_tasks=max(1, ackers),
        topology_max_spout_pending=10**9,
    )
    split, count, sink = (
        (Split(), Count(), Swallow())
        if batches
        else (SplitOneByOne(), CountOneByOne(), SwallowOneByOne())
    )
    builder = TopologyBuilder("bench", config)
    builder.set_spout("spout", Lines(batches)).set_num_tasks(tasks)
    builder.set_bolt("split", split).set_num_tasks(tasks).shuffle_grouping("spout")
    builder.set_bolt("count", count).set_num_tasks(tasks).fields_grouping("split", Fields("word"))
    builder.set_bolt("sink", sink).set_num_tasks(tasks).fields_grouping("count", Fields("key"))
    return builder.build()
