"""What the three kinds of executor share: a consumer that brings tasks and records, a producer, a pump, an end.

An executor is one process's share of a component (Storm's word): it runs the tasks that the consumer group gives it.
Crash-only: an error that leaves work undone ends the process at once, and the work is done again from what is committed.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic

from confluent_kafka import Message

from kstorm.core.dead_letters import DeadLetter, LetterToStore, encode_letter, readable
from kstorm.core.outbox import Outbox, Outgoing
from kstorm.errors import FencedError, KstormError
from kstorm.runtime.consumer import TaskConsumer
from kstorm.runtime.delivery import Delivery, WorkUnit
from kstorm.runtime.log import Logger
from kstorm.runtime.metrics import Exposition, Latency, Sample
from kstorm.runtime.settings import Settings
from kstorm.runtime.slots import T, TaskSlot, size_of
from kstorm.topology import Topology

# How often a process looks for what nobody wakes it for. Each look costs some 50 µs, idle or not.
_BUSY_SECONDS, _IDLE_SECONDS = 0.005, 0.025
_HOUSEKEEPING_SECONDS = 0.02
_BREATH_SECONDS = 0.02
_STOP_SECONDS = 10.0
_STANDBY_SECONDS = 10.0


class Executor(Generic[T]):
    """Base of the spout's, bolt's and acker's executors: see `kstorm.runtime.app.Executor` for the calls."""

    topic: str
    group: str
    reads = True

    def __init__(self, settings: Settings, topology: Topology, component: str, log: Logger) -> None:
        self.settings, self.topology, self.component, self.log = settings, topology, component, log
        self.slots: dict[int, TaskSlot[T]] = {}
        self.latency = Latency()
        """Seconds: of a spout, from emit to ack; of a bolt, from a frame's emit to its execution."""
        self.exposition = Exposition({"topology": topology.name, "component": component})
        self.exposition.add(self.samples)
        self.errors = self.dead_letters = self.frames_in = 0
        self.last_error = self.remark = ""  # a remark is what to know of a process although nothing is wrong with it
        self._last_error_at = 0.0
        self._busy = asyncio.Lock()
        self._stopping = False
        self._said_idle = False
        self._idle_since = time.monotonic()
        self._beat = time.monotonic()
        self._last_breath = 0.0
        self._feed: Callable[[Any], None]
        self._background: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop
        self.delivery: Delivery
        self.consumer: TaskConsumer

    # What each kind defines.

    async def make_task(self, partition: int) -> T:
        """Builds and prepares the task of a partition."""
        raise NotImplementedError

    async def end_task(self, slot: TaskSlot[T]) -> None:
        """Lets go of a task; nothing of it is being executed."""
        raise NotImplementedError

    async def work(self, slot: TaskSlot[T], records: list[Message], unit: WorkUnit) -> int:
        """Handles records of one task; what they cause is sent on behalf of `unit`. Returns how many it handled: all, unless
        the task has to go meanwhile."""
        raise NotImplementedError

    def flush(self, unit: WorkUnit) -> None:
        """Sends what has been collected."""
        raise NotImplementedError

    async def periodic(self, now: float) -> None:
        """Called every few milliseconds."""

    def samples(self) -> Iterable[Sample]:
        """What to show at `/metrics`."""
        yield "errors_total", "Errors reported or raised by user code", self.errors, {}
        yield "dead_letters_total", "Messages put into the dead letters", self.dead_letters, {}
        yield "frames_received_total", "Records read from the input topic", self.frames_in, {}
        yield "records_sent_total", "Records produced", self.delivery.records, {}
        yield "sent_bytes_total", "Bytes produced", self.delivery.bytes, {}
        yield "tasks", "Tasks that this process runs", len(self.slots), {}
        yield "throttled", "Whether input is paused since too much is in flight", float(self.consumer.throttled), {}

    def status(self) -> dict[str, Any]:
        """What to show at `/status`."""
        return {
            "topology": self.topology.name,
            "component": self.component,
            "instance": self.settings.instance,
            "pid": os.getpid(),
            "tasks": sorted(self.slots),
            "num_tasks": self.topology.topics()[self.topic],
            "frames_in": self.frames_in,
            "records_out": self.delivery.records,
            "errors": self.errors,
            "last_error": self.last_error,
            "last_error_age": time.monotonic() - self._last_error_at if self.last_error else None,
            "dead_letters": self.dead_letters,
            "latency_counts": self.latency.counts,
        }

    # The life of a process.

    async def start(self, feed: Callable[[Any], None]) -> None:
        """Joins the group; tasks come when the group has spread them."""
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        self.delivery = Delivery(self.settings, self.fatal)
        self.consumer = TaskConsumer(
            self.settings,
            topic=self.topic,
            group=self.group,
            session_timeout_ms=self.topology.config.topology_session_timeout_ms,
            owner=self,
            loop=self._loop,
            fatal=self.fatal,
            log=self.log,
            reads=self.reads,
        )
        await self.before_join()
        self.consumer.start()
        self._background = [self.background(self._pump()), self.background(self._housekeeping())]
        self.log.info("started", instance=self.settings.instance, pid=os.getpid())

    async def before_join(self) -> None:
        """What must be ready before the first task comes."""

    async def stop(self) -> None:
        """Finishes what is in flight, commits, leaves."""
        if self._stopping:
            return
        self.log.info("stopping")
        await asyncio.to_thread(self.consumer.stop)
        await self.after_leave()
        self._stopping = True
        await asyncio.gather(*self._background)
        if not await asyncio.to_thread(self.delivery.flush, _STOP_SECONDS):
            self.log.warning("stopped_with_records_undelivered", seconds=_STOP_SECONDS)
        self.log.info("stopped")

    async def after_leave(self) -> None:
        """What must be closed after the last task went."""

    def fatal(self, error: Exception) -> None:
        """Ends the process now; callable from any thread. Its tasks move, or come back with it, and nothing is lost."""
        if isinstance(error, KstormError):
            self.log.error("fatal", error=str(error))
        else:
            self.log.error("fatal", exc_info=error)
        os._exit(1)

    # Tasks.

    async def assigned(self, partitions: list[int]) -> None:
        """See `TaskOwner.assigned`."""
        for partition in partitions:
            self.slots[partition] = TaskSlot(partition, await self.make_task(partition))

    async def lost(self, partitions: list[int]) -> None:
        """See `TaskOwner.lost`."""
        self.fatal(
            FencedError(
                f"{self.settings.instance!r} was paused or cut off for longer than its session, and its tasks {partitions} are "
                "another process's now: it ends, and starts anew"
            )
        )

    async def revoked(self, partitions: list[int]) -> None:
        """See `TaskOwner.revoked`."""
        slots = [self.slots[partition] for partition in partitions if partition in self.slots]
        for slot in slots:
            slot.active = False
        async with self._busy:
            for slot in slots:
                await self.end_task(slot)
                del self.slots[slot.partition]

    async def settled(self, slots: Iterable[TaskSlot[T]], seconds: float) -> bool:
        """Waits until everything that these tasks have sent by now has arrived; False if it did not in time."""
        deadline = time.monotonic() + seconds
        waiting = [(slot.progress, slot.progress.begun) for slot in slots]
        while True:
            for progress, _ in waiting:
                progress.advance()
            if all(progress.next_offset >= begun for progress, begun in waiting):
                return True
            if time.monotonic() > deadline:
                return False
            self.delivery.poll()
            await asyncio.sleep(_BUSY_SECONDS)

    # Work.

    def deliver(self, records: list[Message]) -> None:
        """See `TaskOwner.deliver`: one item for the agent, the records by task."""
        by_task: dict[int, list[Message]] = {}
        for record in records:
            by_task.setdefault(record.partition() or 0, []).append(record)
        item = [(self.slots[partition], found) for partition, found in by_task.items() if partition in self.slots]
        if item:
            self.consumer.took(*size_of(item))
            self._feed(item)

    async def handle(self, item: list[tuple[TaskSlot[T], list[Message]]]) -> None:
        """Works on one poll: see `kstorm.runtime.app.Executor.handle`."""
        try:
            async with self._busy:
                await self._handle(item)
        except Exception as error:  # noqa: BLE001 - whatever it is: the offset must not move past work that was not done
            self.fatal(error)

    async def _handle(self, item: list[tuple[TaskSlot[T], list[Message]]]) -> None:
        active = [(slot, records) for slot, records in item if slot.active]
        size = size_of(item)
        unit = self.unit(lambda: self.consumer.finished(*size))
        handled = await self.work_on(active, unit)
        for (slot, records), count in zip(active, handled, strict=True):
            if slot.first_offset < 0:
                slot.first_offset = records[0].offset() or 0
            if count:  # the others stay uncommitted for the next owner, which would execute these again
                slot.progress.begin(unit, records[count - 1].offset() or 0)
            self.frames_in += count
        self.flush(unit)
        self.close_unit(unit)
        self.delivery.poll()

    async def work_on(self, active: list[tuple[TaskSlot[T], list[Message]]], unit: WorkUnit) -> list[int]:
        """One task after the other; an executor whose tasks wait for something may run them side by side. Returns what
        `work` does, for each."""
        return [await self.work(slot, records, unit) for slot, records in active]

    def unit(self, on_done: Callable[[], Any] = lambda: None) -> WorkUnit:
        """A new unit of work."""
        return WorkUnit(on_done)

    def close_unit(self, unit: WorkUnit) -> None:
        """A unit has sent all it will send."""
        unit.close()

    def send(self, unit: WorkUnit, sends: Iterable[Outgoing]) -> None:
        """Produces frames on behalf of a unit."""
        self.delivery.send(unit, sends)

    def breath(self) -> "asyncio.Future[None] | Any":
        """At a pause in user code: lets the event loop turn if it has not for a while (probes, heartbeats, deliveries)."""
        now = time.monotonic()
        if now - self._last_breath < _BREATH_SECONDS:
            return None
        self._last_breath = now
        return self._breathe()

    async def _breathe(self) -> None:
        self.delivery.poll()
        await asyncio.sleep(0)

    # What goes wrong, short of the end.

    def report(self, error: BaseException, doing: str, task: int) -> None:
        """An error in user code: counted and logged; the task goes on."""
        self.errors += 1
        self.last_error, self._last_error_at = f"{type(error).__name__}: {error}", time.monotonic()
        trace = None if isinstance(error, KstormError) else error
        self.log.error("component_error", doing=doing, task=task, error=self.last_error, exc_info=trace)

    def report_too_large(self, outbox: Outbox) -> None:
        """Tuples that no record can hold: their trees were failed."""
        for found in outbox.too_large:
            self.report(found.error(), "emitting", found.task)
        outbox.too_large.clear()

    def dead_letter_record(self, record: Message, reason: str, unit: WorkUnit) -> None:
        """Puts a record of an internal topic that cannot be used into the dead letters."""
        letter = DeadLetter(
            topology=self.topology.name,
            component=self.component,
            task=0,
            reason=reason,
            topic=record.topic() or "",
            partition=record.partition() or 0,
            offset=record.offset() or 0,
            key=_as_bytes(record.key()),
            value=_as_bytes(record.value()),
        )
        self.store_letter(LetterToStore(letter), unit)

    def dead_letter_changes(self, refused: Iterable[tuple[Message, str]]) -> None:
        """Puts records of a changelog that nothing of ours can have written into the dead letters."""
        unit = self.unit()
        for record, reason in refused:
            self.dead_letter_record(record, reason, unit)
        self.close_unit(unit)

    def store_letter(self, to_store: LetterToStore, unit: WorkUnit) -> None:
        """Sends a dead letter; the unit is done no earlier than the broker has it."""
        letter = to_store.letter
        self.dead_letters += 1
        value = encode_letter(letter)
        self.log.warning(
            "dead_letter",
            reason=readable(letter.reason),
            topic=letter.topic,
            partition=letter.partition,
            offset=letter.offset,
        )
        inner = WorkUnit(lambda: self._stored(to_store, unit))
        unit.add()
        self.send(inner, [Outgoing(self.topology.dead_letters_topic, 0, value)])
        inner.close()

    @staticmethod
    def _stored(to_store: LetterToStore, unit: WorkUnit) -> None:
        if to_store.on_stored is not None:
            to_store.on_stored()
        unit.delivered()

    # What goes on beside the work.

    def background(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Future[None]":
        """Runs something beside the work; if it fails, the process ends."""
        future = asyncio.ensure_future(coroutine)
        future.add_done_callback(self._background_ended)
        return future

    def _background_ended(self, future: "asyncio.Future[None]") -> None:
        if not future.cancelled() and isinstance(error := future.exception(), Exception):
            self.fatal(error)

    async def _pump(self) -> None:
        """Serves delivery reports, always: whatever waits for one must not be what serves them."""
        while not self._stopping:
            self.delivery.poll()
            self._beat = time.monotonic()
            await asyncio.sleep(_BUSY_SECONDS if len(self.delivery.producer) else _IDLE_SECONDS)

    async def _housekeeping(self) -> None:
        next_commit = 0.0
        while not self._stopping:
            now = time.monotonic()
            await self.periodic(now)
            self._say_if_idle(now)
            if now >= next_commit:
                next_commit = now + self.topology.config.topology_commit_interval_ms / 1000
                self.commit()
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)

    def _say_if_idle(self, now: float) -> None:
        """A process beyond the number of tasks has nothing to do; it takes over when another dies."""
        if self.slots or not self.consumer.joined:
            self._idle_since = now
        elif now - self._idle_since > _STANDBY_SECONDS and not self._said_idle:
            self._said_idle = True
            self.log.warning(
                "standing_by", why="the group has more processes than tasks, or they are still being moved"
            )

    def commit(self) -> None:
        """Commits what is finished, without waiting."""
        offsets = {slot.partition: slot.progress.to_commit() for slot in self.slots.values() if slot.active}
        self.consumer.commit({partition: offset for partition, offset in offsets.items() if offset is not None})

    async def commit_now(self, slots: Iterable[TaskSlot[T]]) -> None:
        """Commits what is finished of some tasks, and waits for the broker."""
        for slot in slots:
            slot.progress.advance()
        offsets = {slot.partition: slot.progress.next_offset for slot in slots if slot.progress.next_offset >= 0}
        await self.consumer.commit_and_wait(offsets)

    # Health.

    @property
    def alive(self) -> bool:
        """Whether the event loop turns."""
        return time.monotonic() - self._beat < 30

    @property
    def not_ready(self) -> str:
        """Why this process does not do its share; empty if it does."""
        if not self.consumer.joined:
            return f"has not joined the group {self.group!r} yet"
        if not self.consumer.assignment and not self.consumer.stands_by:
            return "waits for its share of the tasks"
        if self.consumer.preparing:
            return f"tasks {sorted(self.consumer.preparing)} are being recovered"
        return ""


def _as_bytes(data: Any) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
