"""The word count without Kafka: the services' engines, with frames passed on in memory.

It shows the cost of the core alone, by stage, and counts its work: records, bytes, rows.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from kstorm.core.engine import (
    AckerEngine,
    BoltEngine,
    Effect,
    Engine,
    InputRecord,
    SpoutEngine,
)
from kstorm.core.engine.effects import CommitOffsets, Open, RunUserCode, Send, StartDelivery
from kstorm.core.ids import columns_of, random_columns, random_ids
from kstorm.core.ledger import Ledger
from kstorm.core.outgoing import OutgoingRecord
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
# Duration of a run by the engines' clock, so that commits and checkpoints occur from time to time.
_RUN_SECS = 0.01


class Lines(Spout):
    """Emits the given lines, in batches or one by one."""

    def __init__(self, batches: bool = True) -> None:
        self.batches = batches
        self.lines: list[str] = []
        self.begun = self.finished = 0

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("str")

    def next_tuple(self) -> None:
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
        self.finished += 1


class Swallow(Bolt):
    """The end of the topology: only acks."""

    def execute(self, tuple: Tuple) -> None:
        self.collector.ack(tuple)

    def execute_batch(self, batch: TupleBatch) -> None:
        self.collector.ack_batch(batch)


class SplitOneByOne(Split):
    """`Split` without its `execute_batch`."""

    execute_batch = BasicBolt.execute_batch


class CountOneByOne(Count):
    """`Count` without its `execute_batch`."""

    execute_batch = BasicBolt.execute_batch


class SwallowOneByOne(Swallow):
    """`Swallow` without its `execute_batch`."""

    execute_batch = Bolt.execute_batch


@dataclass
class StageWork:
    """The work done, by stage."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    records: Counter[str] = field(default_factory=Counter)
    """Records sent."""
    sent_bytes: Counter[str] = field(default_factory=Counter)


class InProcess:
    """Spout, split, count, sink and acker, `tasks` of each. `next_id` makes runs repeatable."""

    def __init__(
        self,
        tasks: int = 1,
        batches: bool = True,
        ackers: int = 1,
        next_id: Callable[[], int] | None = None,
    ) -> None:
        self.topology = topology = _topology(tasks, batches, ackers)
        self.work = StageWork()
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
        self.ledgers: list[Ledger] = engines["acker"].tasks

    @property
    def finished(self) -> int:
        """Number of trees whose completion a spout has received."""
        return sum(cast("Lines", task.spout).finished for task in self.spouts)

    def run(self, lines: list[str]) -> None:
        """Process lines until their completions. A poll takes all records waiting for a bolt."""
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
        """Deliver all sent records. Return True if there were any."""
        anything = False
        for stage in self._stages:
            for record in stage.confirm(self._now):
                self._stage_of[record.topic].take(record)
                anything = True
        return anything


class _Stage:
    """The driver of one component's engine. Records are in memory, and arrive at `confirm`."""

    def __init__(self, name: str, engine: Engine[Any], tasks: int, work: StageWork) -> None:
        self.name, self.engine, self._work = name, engine, work
        self._sends: list[Send] = []
        self._offsets = [0] * tasks
        self._polled: dict[int, list[InputRecord]] = {}
        self._carry_out(engine.assigned(dict.fromkeys(range(tasks), 0), 0.0), 0.0)

    def take(self, sent: OutgoingRecord) -> None:
        """Add a record to the next poll."""
        offset = self._offsets[sent.partition]
        self._offsets[sent.partition] = offset + 1
        self._polled.setdefault(sent.partition, []).append(InputRecord(offset, sent.value))

    def poll(self, now: float) -> None:
        """Process the added records."""
        if self._polled:
            item = [(self.engine.tenures[task], records) for task, records in self._polled.items()]
            self._polled = {}
            self.timed(lambda: self.engine.arrived(item, now), now)

    def confirm(self, now: float) -> Iterable[OutgoingRecord]:
        """Confirm all sent records to the engine, and return them."""
        if not self._sends:
            return ()
        sends, self._sends = self._sends, []
        self.timed(lambda: self._confirmed(sends, now), now)
        return [record for send in sends for record in send.records]

    def timed(self, event: Callable[[], list[Effect]], now: float) -> None:
        """Pass an event to the engine, and apply its effects."""
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
                elif kind is RunUserCode:
                    for _ in effect.steps:
                        pass
                    follows += self.engine.ran(effect, now)
                elif kind is Open:
                    follows += self.engine.opened(effect.task, (), now)
                else:
                    assert kind in (StartDelivery, CommitOffsets), (
                        f"{effect}: no bolt has state, and each run ends its trees"
                    )
            effects = follows

    def _send(self, send: Send) -> None:
        self._sends.append(send)
        self._work.records[self.name] += len(send.records)
        self._work.sent_bytes[self.name] += sum([len(record.value) for record in send.records])


class _Loud:
    """A journal that raises every error."""

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
