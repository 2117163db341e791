"""Carries out what an engine wants, with librdkafka, RocksDB and Faust's event loop; and tells it what happened.

A driver is one process's share of a component (Storm's executors). Nothing about *when* something is sent, stored, committed or
let go of is decided here: that is the engine's (`kstorm.core.engine`). Crash-only: an error that leaves work undone ends the
process at once, and the work is done again from what is committed.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from math import inf
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaException, Message

from kstorm.core.engine import Effect, Engine, Record, Slot, Unit
from kstorm.core.engine.effects import (
    Abandon,
    Close,
    Commit,
    End,
    Fetch,
    Keep,
    Open,
    Ready,
    Release,
    Run,
    Send,
    Transact,
)
from kstorm.core.tasks import drive
from kstorm.errors import KstormError
from kstorm.runtime.kafka.checkpoints import CheckpointWriter
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.input import read_again
from kstorm.runtime.kafka.producer import UnitProducer
from kstorm.runtime.kafka.records import record_of
from kstorm.runtime.kafka.refusals import RecordsRefusedError
from kstorm.runtime.kafka.undecodable import Undecodable
from kstorm.runtime.service.app import ChannelApp
from kstorm.runtime.service.journal import ServiceJournal
from kstorm.runtime.service.log import Logger
from kstorm.runtime.service.metrics import Exposition, Latency, Sample
from kstorm.runtime.service.outage import begin_anew_if_cut_off, times_begun_anew
from kstorm.runtime.service.pauses import Pauses
from kstorm.runtime.service.settings import Settings
from kstorm.runtime.service.standby import Standby
from kstorm.runtime.service.workload import Workload
from kstorm.topology import Topology
from kstorm.topology.component import Component

E = TypeVar("E", bound=Engine[Any])

# How often a process looks for what nobody wakes it for. Each look costs some 50 µs, idle or not.
_BUSY_SECONDS, _IDLE_SECONDS = 0.005, 0.025
_HOUSEKEEPING_SECONDS = 0.02
_STOP_SECONDS, _REVOKE_SECONDS = 10.0, 60.0


class Driver(Generic[E]):
    """Base of the spout's, bolt's and acker's drivers."""

    engine: E
    """Made by each kind."""
    group: str
    """The consumer group that spreads the tasks."""
    reads = True
    """Whether the records of the group's topic are the engine's input."""
    topics: Collection[str] = ()
    """The topics that there were when the process began."""
    from_committed = False
    """Whether a task that has no committed offset ends the process."""

    def __init__(self, settings: Settings, topology: Topology, component: str, log: Logger) -> None:
        self.settings, self.topology, self.component, self.log = settings, topology, component, log
        self.latency = Latency()
        """Seconds: of a spout, from emit to ack; of a bolt, from a frame's emit to the end of the poll it was executed in."""
        self.exposition = Exposition({"topology": topology.name, "component": component})
        self.exposition.add(self.samples)
        self.journal = ServiceJournal(log)
        self.remark = ""
        """What to know of a process although nothing is wrong with it."""
        self.workload = Workload(topology, lambda: self.engine.sent)
        self._told_to_stop = self._stopping = False
        self._ending = threading.Lock()
        self._exit_code = 2  # until it has begun: what is wrong before that, somebody has to mend
        self._standby = Standby(log)
        self._begun_at = time.time()
        self._beat = time.monotonic()
        self._planned = inf
        self._feed: Callable[[Any], None]
        self._background: list[asyncio.Future[None]] = []
        self._releases: dict[int, asyncio.Future[None]] = {}
        self._loop: asyncio.AbstractEventLoop
        self._acts: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Open: lambda effect: self._answer(self._open(effect.task)),
            Abandon: lambda effect: self.abandon(effect.task),
            Ready: lambda effect: self.consumer.ready(effect.task),
            Transact: lambda effect: self._answer(self._transact(effect)),
            Fetch: lambda effect: self._answer(self._fetch(effect)),
            Keep: self.keep,
            Commit: self._commit,
            Close: lambda effect: self.close(effect.task),
            Release: lambda effect: self._releases.pop(effect.task).set_result(None),
            End: lambda effect: self.fatal(effect.error),
        }
        self.producer: UnitProducer
        self.consumer: TaskConsumer

    # What each kind defines.

    def use_app(self, app: ChannelApp) -> None:
        """Called before the app starts: for tables."""

    async def before_join(self) -> None:
        """What must be ready before the first task comes."""

    async def after_leave(self) -> None:
        """What must be closed after the last task is gone."""

    async def open(self, task: int) -> Iterable[tuple[Record, str]]:
        """Carries out `Open`; returns the records that were refused."""
        raise NotImplementedError

    def abandon(self, task: int) -> None:
        """Carries out `Abandon`."""

    def close(self, task: int) -> None:
        """Carries out `Close`."""

    async def transact(self, effect: Transact) -> Mapping[int, int]:
        """Carries out `Transact`."""
        raise NotImplementedError

    def keep(self, effect: Keep) -> None:
        """Carries out `Keep`."""
        raise NotImplementedError

    def components(self) -> Iterable[tuple[int, Component]]:
        """The user's components that run here, with the ids of their tasks."""
        return ()

    def by_task(self) -> Mapping[int, Mapping[str, int]]:
        """Counts of each task that runs here, by its topology-wide id."""
        return {}

    def after_runs(self) -> None:
        """The user's code ran: takes note of what it left to count."""

    def samples(self) -> Iterable[Sample]:
        """What to show at `/metrics`."""
        yield "errors_total", "Errors reported or raised by user code", self.journal.errors, {}
        yield "dead_letters_total", "Messages put into the dead letters", self.engine.dead_letters, {}
        yield "frames_received_total", "Records read from the input topic", self.engine.frames_in, {}
        yield "records_sent_total", "Records produced", self.producer.records, {}
        yield "sent_bytes_total", "Bytes produced", self.producer.bytes, {}
        yield "begun_anew_total", "Times that this process was cut off and began anew", times_begun_anew(), {}
        yield "tasks", "Tasks that this process runs", len(self.engine.slots), {}
        hangs = self.consumer.transactions.longest_secs
        yield "open_transaction_seconds", "Seconds that a transaction hangs for which this input waits", hangs, {}
        yield "throttled", "Whether input is paused since too much is in flight", float(self.consumer.throttled), {}
        yield from self.workload.samples()

    def status(self) -> dict[str, Any]:
        """What to show at `/status`."""
        return {
            "topology": self.topology.name,
            "component": self.component,
            "instance": self.settings.instance,
            "pid": os.getpid(),
            "begun_at": self._begun_at,
            "tasks": sorted(self.engine.slots),
            "num_tasks": self.topology.topics()[self.engine.topic],
            "frames_in": self.engine.frames_in,
            "records_out": self.producer.records,
            **self.journal.status(),
            "dead_letters": self.engine.dead_letters,
            "input_waits": self.consumer.transactions.problem(),
            "latency_counts": self.latency.counts,
            **self.workload.status(),
            "by_task": {str(task): dict(counts) for task, counts in self.by_task().items()},
        }

    # The life of a process.

    async def start(self, feed: Callable[[Any], None]) -> None:
        """Joins the group; tasks come when the group has spread them."""
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        config = self.topology.config
        self.producer = UnitProducer(self.settings, self.fatal)
        self._pauses = Pauses(self.engine.pace, self.producer.poll)
        self.consumer = TaskConsumer(
            self.settings,
            topic=self.engine.topic,
            group=self.group,
            session_timeout_ms=config.topology_session_timeout_ms,
            revoke_secs=_REVOKE_SECONDS + config.topology_drain_timeout_secs,
            owner=self,
            loop=self._loop,
            fatal=self.fatal,
            log=self.log,
            reads=self.reads,
            from_committed=self.from_committed,
        )
        self.workload.watch("input_throttled", lambda: self.consumer.throttled)
        self.workload.watch("epoch", lambda: self.engine.held_back)
        self.workload.count("producer_queue", lambda: self.producer.waited)
        self.engine.sends_as(self.settings.instance)
        try:
            await self.before_join()
        except KstormError as error:
            self.fatal(error)
        self._exit_code = 1
        self.consumer.start()
        self._background = [self.background(self._pump()), self.background(self._housekeeping())]
        self.log.info("started", instance=self.settings.instance, pid=os.getpid())

    async def stop(self) -> None:
        """Finishes what is in flight, commits, leaves."""
        if self._stopping:
            return
        self._told_to_stop = True
        self.log.info("stopping")
        await asyncio.to_thread(self.consumer.stop)
        await self.after_leave()
        self._stopping = True
        await asyncio.gather(*self._background)
        if not await asyncio.to_thread(self.producer.flush, _STOP_SECONDS):
            self.log.warning("stopped_with_records_undelivered", seconds=_STOP_SECONDS)
        self.log.info("stopped")

    def fatal(self, error: Exception) -> None:
        """Ends the process now, or has it begin anew if that is all it takes; callable from any thread. Its tasks move, or come
        back with it, and nothing is lost."""
        self._ending.acquire()  # for good: one thread is enough
        if isinstance(error, KstormError | KafkaException) and not self._told_to_stop:
            begin_anew_if_cut_off(error, self.settings, self.log)
        if isinstance(error, KstormError):
            self.log.error("fatal", error=str(error))
        else:
            self.log.error("fatal", exc_info=error)
        os._exit(self._exit_code)

    async def open_writer(self) -> CheckpointWriter:
        """Opens what writes the process's checkpoints."""
        count = self.producer.count
        writer = CheckpointWriter(self.settings, self.engine.topic, self.group, self.consumer, count)
        await writer.open()
        return writer

    # Events: see `TaskOwner` and `kstorm.runtime.service.app.Service`.

    async def assigned(self, committed: Mapping[int, int]) -> None:
        """See `TaskOwner.assigned`."""
        await self.perform(self.engine.assigned(committed, time.monotonic()))

    async def revoked(self, partitions: Sequence[int]) -> None:
        """See `TaskOwner.revoked`."""
        here = [partition for partition in partitions if partition in self.engine.slots]
        waiting = [self._releases.setdefault(partition, self._loop.create_future()) for partition in here]
        await self.perform(self.engine.revoked(here, time.monotonic()))
        await asyncio.gather(*waiting)

    async def lost(self, partitions: Sequence[int]) -> None:
        """See `TaskOwner.lost`."""
        await self.perform(self.engine.lost(partitions, time.monotonic()))

    def deliver(self, records: list[Message]) -> None:
        """See `TaskOwner.deliver`: one item for the agent, the records by task."""
        by_task: dict[int, list[Record]] = {}
        size = 0
        for record in records:
            size += len(record)
            by_task.setdefault(record.partition() or 0, []).append(record_of(record))
        slots = self.engine.slots
        item = [(slots[partition], found) for partition, found in by_task.items() if partition in slots]
        if item:
            count = len(records)
            self.consumer.took(count, size)
            self._feed((item, Unit(lambda: self.consumer.finished(count, size))))

    def pass_over(self, partition: int, batch: Undecodable) -> None:
        """See `TaskOwner.pass_over`: for the engine it is a record."""
        slot = self.engine.slots.get(partition)
        if slot is not None:
            record = Record(batch.first, None, undecodable=batch.reason, offsets=batch.end - batch.first)
            self._feed(([(slot, [record])], Unit()))

    async def handle(self, polled: tuple[list[tuple[Slot[Any], list[Record]]], Unit]) -> None:
        """Works on one poll: called by the agent."""
        item, unit = polled
        try:
            with self.workload.busy:
                await self.perform(self.engine.polled(item, unit, time.monotonic()))
        except Exception as error:  # noqa: BLE001 - whatever it is: the offset must not move past work that was not done
            self.fatal(error)
        self.producer.poll()

    # Effects.

    async def perform(self, effects: list[Effect]) -> None:
        """Carries out effects, and waits for the user's code among them."""
        await self._run_all(self._act(effects))

    async def _run_all(self, runs: list[Run]) -> None:
        """Runs pieces of the user's code, and those that follow from their ends: in a loop, as there may be a thousand."""
        while runs:
            following = [await self._run(runs[0])] if len(runs) == 1 else await asyncio.gather(*map(self._run, runs))
            runs = [run for some in following for run in some]

    def perform_beside(self, effects: list[Effect]) -> None:
        """Carries out effects; the user's code among them runs beside whatever calls this."""
        if runs := self._act(effects):
            self.background(self._run_all(runs))

    def _act(self, effects: list[Effect]) -> list[Run]:
        """Carries out all but the runs, which are returned."""
        runs = []
        for effect in effects:
            if type(effect) is Run:
                runs.append(effect)
            else:
                self._acts[type(effect)](effect)
        if self.engine.due < self._planned:
            self._plan(self.engine.due)
        return runs

    def _plan(self, due: float) -> None:
        """Has the engine's tick at the moment that it wants, which may be before that of the housekeeping."""
        self._planned = due
        self._loop.call_later(max(0.0, due - time.monotonic()), self._tick_as_planned)

    def _tick_as_planned(self) -> None:
        self._planned = inf
        if not self._stopping:
            self.perform_beside(self.engine.tick(time.monotonic()))

    async def _run(self, run: Run) -> list[Run]:
        with self.workload.busy:
            await drive(run.steps, self._pauses)
        self.after_runs()
        return self._act(self.engine.ran(run, time.monotonic()))

    def _send(self, effect: Send) -> None:
        self.producer.send(effect.unit, effect.records)

    def _commit(self, effect: Commit) -> None:
        if effect.waits:
            self._answer(self._commit_and_wait(effect))
        else:
            self.consumer.commit(effect.offsets)

    async def _commit_and_wait(self, effect: Commit) -> list[Effect]:
        await self.consumer.commit_and_wait(effect.offsets)
        return self.engine.committed(effect, {}, time.monotonic())

    async def _transact(self, effect: Transact) -> list[Effect]:
        try:
            reached = await self.transact(effect)
        except RecordsRefusedError as error:
            return self.engine.refused(effect, error.refused, time.monotonic())
        return self.engine.committed(effect, reached, time.monotonic())

    async def _fetch(self, effect: Fetch) -> list[Effect]:
        reading = (self.settings, self.engine.topic, effect.task, effect.offsets)
        records = await asyncio.to_thread(read_again, *reading)
        return self.engine.fetched(effect, records, time.monotonic())

    async def _open(self, task: int) -> list[Effect]:
        refused = await self.open(task)
        return self.engine.opened(task, refused, time.monotonic())

    def _answer(self, answering: Coroutine[Any, Any, list[Effect]]) -> None:
        """Carries out an effect beside the work, and what its answer leads to."""
        self.background(self._perform_answer(answering))

    async def _perform_answer(self, answering: Coroutine[Any, Any, list[Effect]]) -> None:
        await self.perform(await answering)

    # What is done beside the work.

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
            if self.producer.poll():
                self.perform_beside(self.engine.confirmed(time.monotonic()))
            self._beat = time.monotonic()
            await asyncio.sleep(_BUSY_SECONDS if self.producer.waiting else _IDLE_SECONDS)

    async def _housekeeping(self) -> None:
        while not self._stopping:
            now = time.monotonic()
            self.perform_beside(self.engine.tick(now))
            self.periodic()
            self.workload.look()
            self._standby.look(now, idle=self.consumer.joined and not self.engine.slots)
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)

    def periodic(self) -> None:
        """Called every few milliseconds."""

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
        for task, component in self.components():
            problem = component.problem()
            if problem is not None:
                return self.journal.trouble(problem, task)
        return ""
