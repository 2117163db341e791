"""Runs spout tasks: calls `next_tuple` while trees may be begun, tells the spouts how their trees ended.

Task i is partition i of the completions topic: whoever the group gives it runs the task. The completions themselves are
read by a consumer of its own, from where the topic ended when the task came, since news of trees that another process
began would meet nobody who waits. So a task that is being moved can still hear of its trees while the group waits.

A topology that was deactivated emits nothing, and what is in flight goes on: see `kstorm.runtime.zookeeper_watch`.
"""

import asyncio
import copy
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Message

from kstorm.core.ids import random_columns, random_ids
from kstorm.core.outbox import Outbox
from kstorm.core.spout_task import SpoutTask
from kstorm.core.tasks import drive, settle
from kstorm.core.wire import CompletionFrame, decode
from kstorm.errors import FrameError
from kstorm.runtime.completions import CompletionsReader
from kstorm.runtime.delivery import WorkUnit
from kstorm.runtime.executor import Executor
from kstorm.runtime.log import Logger
from kstorm.runtime.metrics import Sample
from kstorm.runtime.resources import Resources
from kstorm.runtime.settings import Settings
from kstorm.runtime.slots import TaskSlot, Totals, log_emits, own_metrics, size_of
from kstorm.runtime.zookeeper_topologies import SpoutReport
from kstorm.runtime.zookeeper_watch import TopologyWatch
from kstorm.topology import Topology, TopologyContext

_CALLS_A_TURN = 100  # of next_tuple, per task, before the loop turns and what was emitted is sent
_STALL_SECONDS = 5.0
_LONGEST_REST = 16  # times topology_sleep_spout_wait_strategy_time_ms


class SpoutExecutor(Executor[SpoutTask]):
    """The spout tasks of one process."""

    reads = False

    def __init__(self, settings: Settings, topology: Topology, component: str, log: Logger) -> None:
        super().__init__(settings, topology, component, log)
        self.topic = topology.completions_topic(component)
        self.group = f"{topology.name}.{component}"
        self.outbox = Outbox(topology)
        self._next_id, self._next_ids = random_ids(), random_columns()
        self._config = topology.component(component).config
        self._template: Any = topology.component(component).component
        self._resources: Resources
        self._completions: CompletionsReader
        self._totals = Totals(self.slots, _counts)
        self._emitting: asyncio.Future[None]
        self._leaving = False
        self._stalled_at: dict[int, tuple[int, float]] = {}
        self._watch = TopologyWatch(settings.zookeeper, settings.zookeeper_auth, topology.name)
        self._watch_problem = ""
        self.exposition.add_latency("spout_complete_latency_seconds", "From emit to ack of a tree", self.latency)

    async def before_join(self) -> None:
        """Starts the watch, the reader of completions and the loop that emits."""
        self._watch.start()
        self._resources = Resources(self.settings)
        self._completions = CompletionsReader(self.settings, self.topic, self._loop, self.deliver, self.fatal)
        self._completions.start()
        self._emitting = self.background(self._emit())

    async def after_leave(self) -> None:
        """Stops what `before_join` started."""
        self._leaving = True
        await self._emitting
        await asyncio.to_thread(self._completions.stop)
        await asyncio.to_thread(self._watch.close)
        await asyncio.to_thread(self._resources.close)

    async def make_task(self, partition: int) -> SpoutTask:
        """Opens a spout, once its completions are being read; the next turn activates it."""
        await self._completions.add(partition)
        spout = copy.deepcopy(self._template)
        task_id = self.topology.task_ids(self.component)[partition]
        task = SpoutTask(
            self.topology,
            self.component,
            partition,
            spout,
            self.outbox,
            self._next_id,
            lambda error, doing: self.report(error, doing, task_id),
            time.monotonic(),
            self._next_ids,
        )
        if self._config.topology_debug:
            log_emits(task.collector, self.log, task_id)
        context = TopologyContext(self.topology, self.component, partition, self._resources.lent)
        await settle(spout.open(self._config, context, task.collector))
        return task

    async def revoked(self, partitions: list[int]) -> None:
        """Stops to emit, and lets open trees finish for a bounded time: their completions are still coming in."""
        going = [self.slots[partition] for partition in partitions if partition in self.slots]
        for slot in going:
            slot.active = False
            await drive(slot.task.deactivate(), self.breath)
        await self._drain(going)
        await super().revoked(partitions)

    async def _drain(self, going: list[TaskSlot[SpoutTask]]) -> None:
        deadline = time.monotonic() + self._config.topology_drain_timeout_secs
        while any(slot.task.in_flight for slot in going) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        left = sum(slot.task.in_flight for slot in going)
        self.log.info("spout_drained", partitions=[slot.partition for slot in going], trees_left=left)

    async def end_task(self, slot: TaskSlot[SpoutTask]) -> None:
        """Closes the spout. Trees that are still open are begun again by the task's next owner."""
        await settle(slot.task.spout.close())
        await self._completions.remove(slot.partition)
        self._totals.keep(slot.task)
        self.outbox.forget(slot.task.task_id)

    async def _handle(self, item: list[tuple[TaskSlot[SpoutTask], list[Message]]]) -> None:
        """Hands news of trees to the tasks, also to those that are being drained. Completions are not committed: a task
        that moves starts at the end of the topic."""
        unit = self.unit()
        for slot, records in item:
            if self.slots.get(slot.partition) is slot:
                self.frames_in += await self.work(slot, records, unit)
        self.consumer.finished(*size_of(item))
        self.flush(unit)
        unit.close()

    async def work(self, slot: TaskSlot[SpoutTask], records: list[Message], unit: WorkUnit) -> int:
        """Takes news of trees."""
        task = slot.task
        for record in records:
            try:
                steps = task.completed(decode(CompletionFrame, record.value()), time.monotonic())
            except FrameError as error:
                self.dead_letter_record(record, str(error), unit)
                continue
            await drive(steps, self.breath)
        if task.latencies:
            self.latency.add_all(task.latencies)
            task.latencies.clear()
        return len(records)

    def flush(self, unit: WorkUnit) -> None:
        """Sends what was emitted, begun and given up."""
        self.send(unit, self.outbox.drain_tuples())
        self.report_too_large(self.outbox)
        self.send(unit, self.outbox.drain_acks())
        letters, self.outbox.letters = self.outbox.letters, []
        for letter in letters:
            self.store_letter(letter, unit)

    async def _emit(self) -> None:
        """The spout's own loop: rests a little, and longer each time, while there is nothing to emit."""
        shortest = self._config.topology_sleep_spout_wait_strategy_time_ms / 1000
        rest = shortest
        while not self._leaving:
            async with self._busy:
                emitted = await self._turn()
            if emitted:
                rest = shortest
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(rest)
                rest = min(2 * rest, _LONGEST_REST * shortest)

    async def _turn(self) -> bool:
        """Lets each task emit for a while; whether any did."""
        await self._obey()
        unit = self.unit()
        emitted = False
        for slot in list(self.slots.values()):
            task = slot.task
            await drive(task.tick(time.monotonic()), self.breath)
            for _ in range(_CALLS_A_TURN):
                before = task.collector.emitted
                if not slot.active:
                    break
                await drive(task.next_tuple(time.monotonic()), self.breath)
                if task.collector.emitted == before:
                    break
                emitted = True
        self.flush(unit)
        unit.close()
        return emitted

    async def _obey(self) -> None:
        """Has every task emit or not, as the topology is to; not one that has to go."""
        wanted = self._watch.active
        for slot in list(self.slots.values()):
            if slot.active and slot.task.active != wanted:
                await drive(slot.task.activate() if wanted else slot.task.deactivate(), self.breath)

    def _tell_watch(self) -> None:
        """What an operator waits for: that nothing is emitted any more, and that nothing is in flight."""
        tasks = [slot.task for slot in self.slots.values()]
        active = any(task.active for task in tasks) if tasks else self._watch.active
        self._watch.tell(
            SpoutReport(
                component=self.component,
                instance=self.settings.instance,
                active=active,
                pending=sum(task.in_flight for task in tasks),
                waiting=0 if active else int(self._own_metrics().get("retries", 0)),
                message_timeout_secs=self._config.topology_message_timeout_secs,
            )
        )
        remark, problem = self._watch.remark, self._watch.problem
        if remark != self.remark:
            self.remark = remark
            self.log.info("control", says=remark or "active")
        if problem != self._watch_problem:
            self._watch_problem = problem
            self.log.warning("control", says=problem or "ZooKeeper is heard again")

    async def periodic(self, now: float) -> None:
        """Says why when a task has been held back for a while."""
        self._tell_watch()
        for slot in self.slots.values():
            acked = slot.task.acked
            if not slot.task.throttled or self._stalled_at.get(slot.partition, (0, now))[0] != acked:
                self._stalled_at[slot.partition] = (acked, now)
            elif now - self._stalled_at[slot.partition][1] > _STALL_SECONDS:
                self._stalled_at[slot.partition] = (acked, now)
                self.log.warning(
                    "spout_stalled",
                    task=slot.task.task_id,
                    why=f"{slot.task.in_flight} of {slot.task.max_pending} allowed trees are in flight and none completed "
                    f"for {_STALL_SECONDS:.0f} s: look for a bolt or an acker that is down or slow",
                )

    def commit(self) -> None:
        """The completions topic is never committed; a spout keeps its own offsets."""

    def samples(self) -> Iterable[Sample]:
        """Storm's spout metrics."""
        yield from super().samples()
        totals = self._totals.now()
        timed_out = totals["timed_out"]
        yield "spout_emitted_total", "Tuples emitted", totals["emitted"], {}
        yield "spout_acked_total", "Trees completed", totals["acked"], {}
        yield "spout_failed_total", "Trees failed", timed_out, {"reason": "timeout"}
        yield "spout_failed_total", "Trees failed", totals["failed"] - timed_out, {"reason": "explicit"}
        yield "spout_unknown_completions_total", "Completions nobody waited for", totals["unknown"], {}
        yield "spout_pending", "Trees in flight", sum(slot.task.in_flight for slot in self.slots.values()), {}
        throttled = sum(slot.task.throttled for slot in self.slots.values())
        yield "spout_throttled", "Tasks held back by topology_max_spout_pending", throttled, {}
        for slot in self.slots.values():
            for name, value in own_metrics(slot.task.spout).items():
                yield f"spout_source_{name}", "As the spout says", value, {"task": str(slot.task.task_id)}

    def status(self) -> dict[str, Any]:
        """Adds the counts to what every executor shows."""
        totals = self._totals.now()
        tasks = [slot.task for slot in self.slots.values()]
        return {
            **super().status(),
            "kind": "spout",
            **{name: totals[name] for name in ("emitted", "acked", "failed", "timed_out", "unknown")},
            "executed": 0,
            "pending": sum(task.in_flight for task in tasks),
            "throttled": sum(task.throttled for task in tasks),
            "source": self._own_metrics(),
            "active": self._watch.active,
            "remark": self.remark,
            "control_problem": self._watch.problem,
        }

    def _own_metrics(self) -> dict[str, float]:
        """What the spouts count themselves, summed over the tasks."""
        own: dict[str, float] = {}
        for slot in self.slots.values():
            for name, value in own_metrics(slot.task.spout).items():
                own[name] = own.get(name, 0) + value
        return own

    @property
    def not_ready(self) -> str:
        """Also not ready while offsets cannot be stored."""
        for slot in self.slots.values():
            problem = getattr(slot.task.spout, "problem", lambda: None)()
            if problem is not None:
                return str(problem)
        return super().not_ready


def _counts(task: SpoutTask) -> dict[str, int]:
    return {
        "emitted": task.collector.emitted,
        "acked": task.acked,
        "failed": task.failed,
        "timed_out": task.timed_out,
        "unknown": task.unknown,
    }
