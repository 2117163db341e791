"""Runs bolt tasks: frames in, `execute`, frames and acks out, offsets committed behind what has arrived.

A stateful bolt has checkpoints, every `topology_state_checkpoint_interval_ms`, in this order: (1) the changes of the
state and the input offsets go to Kafka in one transaction; (2) when it is committed, the changes go into RocksDB; (3) the
acks of the tuples that made them are sent. A crash between any two steps repeats work and loses none: an acked tuple
has its change in the state. The tuples that the bolt emitted do not wait; they went out at once.
"""

import asyncio
import copy
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Message

from kstorm.core.bolt_task import BoltTask
from kstorm.core.ids import random_columns, random_ids
from kstorm.core.outbox import Outbox
from kstorm.core.state import TaskState, check_pair
from kstorm.core.tasks import drive, settle
from kstorm.core.wire import TupleFrame, decode
from kstorm.errors import FrameError
from kstorm.runtime.app import ChannelApp
from kstorm.runtime.checkpoints import CheckpointWriter
from kstorm.runtime.delivery import WorkUnit
from kstorm.runtime.executor import Executor
from kstorm.runtime.log import Logger
from kstorm.runtime.metrics import Sample
from kstorm.runtime.resources import Resources
from kstorm.runtime.settings import Settings
from kstorm.runtime.slots import TaskSlot, Totals, log_emits, own_metrics
from kstorm.runtime.tables import RecoveringTable
from kstorm.topology import Bolt, Stateful, Topology, TopologyContext

_SETTLE_SECONDS = 10.0


class BoltExecutor(Executor[BoltTask]):
    """The bolt tasks of one process."""

    def __init__(self, settings: Settings, topology: Topology, component: str, log: Logger) -> None:
        super().__init__(settings, topology, component, log)
        self.topic = topology.bolt_topic(component)
        self.group = f"{topology.name}.{component}"
        self.outbox = Outbox(topology)
        self._next_id, self._next_ids = random_ids(), random_columns()
        self._template = topology.component(component).component
        self._waits = inspect.iscoroutinefunction(self._template.execute)  # type: ignore[union-attr]
        self._stateful = isinstance(self._template, Stateful)
        self._table: RecoveringTable | None = None
        self._writer: CheckpointWriter
        self._states: dict[int, TaskState] = {}
        self._held: list[WorkUnit] = []
        self._checkpointing = asyncio.Lock()
        self._next_checkpoint = 0.0
        self._resources: Resources
        self._totals = Totals(self.slots, _counts)
        self.exposition.add_latency("bolt_process_seconds", "From a frame's emit to its execution", self.latency)

    def use_table(self, app: ChannelApp) -> None:
        """Gives a stateful bolt its table; called before the app starts."""
        if self._stateful:
            name, tasks = self.topology.state_topic(self.component), self.topology.component(self.component).num_tasks
            self._table = RecoveringTable(
                app, f"{self.component}-state", name, tasks, self.settings, self.log, check_pair
            )

    async def before_join(self) -> None:
        """Lends clients to the bolts, and opens the writer of checkpoints if they have state."""
        self._resources = Resources(self.settings)
        if self._table is not None:
            self._writer = CheckpointWriter(self.settings, self.topic, self.group, self.consumer)
            await self._writer.open()

    async def after_leave(self) -> None:
        """Closes it."""
        if self._table is not None:
            self._writer.close()

    async def make_task(self, partition: int) -> BoltTask:
        """Recovers the state, copies the template, prepares it."""
        bolt: Any = copy.deepcopy(self._template)
        task_id = self.topology.task_ids(self.component)[partition]
        task = BoltTask(
            self.topology,
            self.component,
            partition,
            bolt,
            self.outbox,
            self._next_id,
            self._on_error(task_id),
            self._next_ids,
        )
        if task.config.topology_debug:
            log_emits(task.collector, self.log, task_id)
        context = TopologyContext(self.topology, self.component, partition, self._resources.lent)
        await settle(bolt.prepare(task.config, context, *((task.collector,) if isinstance(bolt, Bolt) else ())))
        if self._table is not None:
            started = time.monotonic()
            records, refused = await self._table.open(partition)
            self.dead_letter_changes(refused)
            self.log.info(
                "state_recovered", task=task_id, records=records, seconds=round(time.monotonic() - started, 3)
            )
            table = self._table
            state = TaskState(lambda key: table.get(partition, key), lambda: table.items(partition))
            self._states[partition] = state
            await settle(bolt.init_state(state))
        return task

    async def end_task(self, slot: TaskSlot[BoltTask]) -> None:
        """Lets the bolt clean up, what was sent arrive, and commits. What the bolt still holds is replayed elsewhere."""
        task = slot.task
        try:
            await settle(task.bolt.cleanup())
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the task goes all the same
            self.report(error, "in cleanup", task.task_id)
        self._flush_late()
        await self._checkpoint()
        if not await self.settled([slot], _SETTLE_SECONDS):
            self.log.warning("task_left_unsettled", partition=slot.partition)
        self._flush_late()  # acks of records that a sink has confirmed meanwhile
        await self._checkpoint()
        await self.commit_now([slot])
        self._totals.keep(task)
        self.outbox.forget(task.task_id)
        if self._table is not None:
            self._table.close(slot.partition)
            del self._states[slot.partition]

    async def work_on(self, active: list[tuple[TaskSlot[BoltTask], list[Message]]], unit: WorkUnit) -> list[int]:
        """Tasks of an async bolt run side by side: while one waits, another goes on."""
        if self._waits and len(active) > 1:
            return await asyncio.gather(*(self.work(slot, records, unit) for slot, records in active))
        return await super().work_on(active, unit)

    async def work(self, slot: TaskSlot[BoltTask], records: list[Message], unit: WorkUnit) -> int:
        """Executes the frames of one task, until it has to go."""
        for number, record in enumerate(records):
            if not slot.active:
                return number
            try:
                steps = slot.task.receive(decode(TupleFrame, record.value()))
            except FrameError as error:
                self.dead_letter_record(record, str(error), unit)
                continue
            self._resources.unit = unit
            await drive(steps, self._pause(slot))
            self.latency.add(max(0.0, time.time() - record.timestamp()[1] / 1000))
        return len(records)

    def _pause(self, slot: TaskSlot[BoltTask]) -> Callable[[], Any]:
        """Offered between tuples. Slow bolts are paused after each tuple, quick ones after 64."""
        last = time.monotonic()

        def pause() -> Any:
            nonlocal last
            now = time.monotonic()
            slot.task.pause_every = 64 if now - last < 0.005 else 1
            last = now
            return self.breath()

        return pause

    def flush(self, unit: WorkUnit) -> None:
        """Sends tuples, and acks unless they wait for a checkpoint."""
        self.send(unit, self.outbox.drain_tuples())
        self.report_too_large(self.outbox)
        if not self._stateful:
            self.send(unit, self.outbox.drain_acks())

    def close_unit(self, unit: WorkUnit) -> None:
        """A stateful bolt's units stay open until the checkpoint has sent their acks."""
        if self._stateful:
            self._held.append(unit)
        else:
            unit.close()

    async def periodic(self, now: float) -> None:
        """Ticks, late acks, checkpoints."""
        if self._busy.locked():
            return
        async with self._busy:
            for slot in list(self.slots.values()):
                if slot.active:
                    await drive(slot.task.tick(now), self.breath)
            self._flush_late()
        if self._stateful and now >= self._next_checkpoint:
            self._next_checkpoint = now + self.topology.config.topology_state_checkpoint_interval_ms / 1000
            await self._checkpoint()

    def _flush_late(self) -> None:
        """Sends what was emitted or acked outside of `execute`: in a tick, or when a sink confirmed."""
        unit = self.unit()
        self.flush(unit)
        self.close_unit(unit)

    async def _checkpoint(self) -> None:
        async with self._checkpointing:
            table = self._table
            if table is None:
                return
            changes = {partition: state.take_changes() for partition, state in self._states.items()}
            acks, held, self._held = self.outbox.drain_acks(), self._held, []
            known = {partition: self.slots[partition].safe_offset for partition in changes if partition in self.slots}
            offsets = {partition: offset for partition, offset in known.items() if offset >= 0}
            await table.write(self._writer, changes, offsets)
            for state in self._states.values():
                state.stored()
            unit = held[-1] if held else self.unit()
            self.send(unit, acks)
            for each in held:
                each.close()
            unit.close()

    def _on_error(self, task: int) -> Callable[[BaseException, str], None]:
        return lambda error, doing: self.report(error, doing, task)

    def samples(self) -> Iterable[Sample]:
        """Storm's bolt metrics."""
        yield from super().samples()
        totals = self._totals.now()
        yield "bolt_emitted_total", "Tuples emitted", totals["emitted"], {}
        yield "bolt_executed_total", "Tuples executed", totals["executed"], {}
        yield "bolt_acked_total", "Tuples acked", totals["acked"], {}
        yield "bolt_failed_total", "Tuples failed", totals["failed"], {}
        if self._table is not None:
            yield from self._writer.samples()
        open_tuples = sum(slot.task.unfinished for slot in self.slots.values())
        yield "bolt_unfinished", "Tuples executed that the bolt neither acked nor failed", open_tuples, {}
        for slot in self.slots.values():
            for name, value in own_metrics(slot.task.bolt).items():
                yield f"bolt_own_{name}", "As the bolt says", value, {"task": str(slot.task.task_id)}

    def status(self) -> dict[str, Any]:
        """Adds the counts to what every executor shows."""
        totals = self._totals.now()
        pending = sum(slot.task.unfinished for slot in self.slots.values())
        counts = {name: totals[name] for name in ("emitted", "executed", "acked", "failed")}
        own: Counter[str] = Counter()
        for slot in self.slots.values():
            own.update(own_metrics(slot.task.bolt))
        return {**super().status(), "kind": "bolt", **counts, "pending": pending, "own": own}


def _counts(task: BoltTask) -> dict[str, int]:
    done = task.collector
    return {"emitted": done.emitted, "executed": task.executed, "acked": done.acked, "failed": done.failed}
