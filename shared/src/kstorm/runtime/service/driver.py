"""Execute the effects of an engine with librdkafka, RocksDB and Faust's event loop, and report
events to the engine.

A driver is one process's share of a component (Storm's executors). It does not decide *when*
something is sent, stored, committed or released. The engine decides that (`kstorm.core.engine`).
The driver is crash-only: an error that leaves work undone ends the process at once. The work is
then repeated from the last commit.
"""

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from confluent_kafka import KafkaException, Message

from kstorm.core.dead_letters import LetterStamp
from kstorm.core.engine import InputRecord
from kstorm.core.engine.effects import RunUserCode
from kstorm.core.engine.intake import gathering_secs
from kstorm.errors import KstormError
from kstorm.runtime.base import open_port
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.metrics import Exposition, Latency, Sample
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.checkpoint_writer import CheckpointWriter
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.open_transactions import OpenTransactions
from kstorm.runtime.kafka.producer import UnitProducer
from kstorm.runtime.kafka.records import record_of
from kstorm.runtime.kafka.undecodable import UndecodableRange
from kstorm.runtime.service.app import ChannelApp
from kstorm.runtime.service.effect_runner import E, EffectRunner
from kstorm.runtime.service.idle_rest import IdleRest
from kstorm.runtime.service.loop_yield import LoopYielder
from kstorm.runtime.service.outage import (
    BEGUN_AT,
    exit_code_before_start,
    restart_count,
    restart_if_cut_off,
)
from kstorm.runtime.service.service_journal import ServiceJournal
from kstorm.runtime.store.stored_state import StoredState
from kstorm.topology import Topology
from kstorm.topology.component import Component

# Polling intervals for events that do not wake the event loop. Each poll costs about 50 µs. See
# `IdleRest` for an idle process.
_BUSY_SECONDS, _IDLE_SECONDS = 0.005, 0.025
_HOUSEKEEPING_SECONDS = 0.02
_STOP_SECONDS, _REVOKE_SECONDS = 10.0, 60.0
_STANDBY_SECONDS = 10.0
_BEAT_SECONDS = 30.0


class Driver(EffectRunner[E]):
    """Base of the drivers of spouts, bolts and ackers."""

    group: str
    """The consumer group that distributes the tasks."""
    reads = True
    """True if this process's consumer reads the records of the group's topic as the engine's input."""
    topics: Collection[str] = ()
    """The topics that existed when the process started."""
    from_committed = False
    """True if a task without a committed offset ends the process."""
    stored: StoredState | None = None
    """Read access to the stored state of the user's component. None if it has no state."""

    def __init__(self, settings: Settings, topology: Topology, component: str, log: Logger) -> None:
        super().__init__(topology)
        self.settings, self.component, self.log = settings, component, log
        self.latency = Latency()
        """Seconds. For a spout, from emit to ack. For a bolt, from a frame's emit to the end of the
        run of user code that executed it."""
        self.exposition = Exposition({"topology": topology.name, "component": component})
        self.exposition.add(self.samples)
        self.journal = ServiceJournal(log)
        self.remark = ""
        """A remark for operators about a healthy process."""
        self._told_to_stop = False
        self._ending = threading.Lock()
        self._started = False
        self._standby = _Standby(log)
        self._beat = time.monotonic()
        self._background: list[asyncio.Future[None]] = []

    # Overridden by the drivers.

    def use_app(self, app: ChannelApp) -> None:
        """Create tables. Called before the app starts."""

    async def before_join(self) -> None:
        """Prepare for the first task."""

    async def after_leave(self) -> None:
        """Clean up after the last task has left."""

    def components(self) -> Iterable[tuple[int, Component]]:
        """Return the user's components in this process, with their task IDs."""
        return ()

    def by_task(self) -> Mapping[int, Mapping[str, int]]:
        """Return the counters of the tasks in this process, by topology-wide ID."""
        return {}

    def samples(self) -> Iterable[Sample]:
        """Yield the metrics for `/metrics`."""
        yield "errors_total", "Errors reported or raised by user code", self.journal.errors, {}
        yield (
            "dead_letters_total",
            "Messages that became dead letters",
            self.engine.letters.count,
            {},
        )
        yield (
            "frames_received_total",
            "Records read from the input topic",
            self.engine.frames_in,
            {},
        )
        yield "records_sent_total", "Records produced", self.producer.records, {}
        yield "sent_bytes_total", "Bytes produced", self.producer.bytes, {}
        yield (
            "begun_anew_total",
            "Times that this process was cut off and restarted in place",
            restart_count(),
            {},
        )
        yield "tasks", "Tasks that this process runs", len(self.engine.tenures), {}
        hangs = self._hangs()
        yield (
            "open_transaction_seconds",
            "Seconds that a stuck transaction has blocked this input",
            hangs,
            {},
        )
        yield (
            "throttled",
            "1 if input is paused because too much is in flight, else 0",
            float(self.consumer.throttled),
            {},
        )
        yield from self.workload.samples()

    def status(self) -> dict[str, Any]:
        return {
            "topology": self.topology.name,
            "component": self.component,
            "instance": self.settings.instance,
            "pid": os.getpid(),
            "begun_at": BEGUN_AT,
            "tasks": sorted(self.engine.tenures),
            "num_tasks": self.topology.topics()[self.engine.topic],
            "frames_in": self.engine.frames_in,
            "records_out": self.producer.records,
            **self.journal.status(),
            "dead_letters": self.engine.letters.count,
            "input_waits": "; ".join(
                filter(None, (each.problem() for each in self.open_transactions()))
            ),
            "input_waits_since": time.time() - hangs if (hangs := self._hangs()) else None,
            "latency_counts": self.latency.counts,
            **self.workload.status(),
            "by_task": {str(task): dict(counts) for task, counts in self.by_task().items()},
        }

    # Life cycle.

    async def start(self, feed: Callable[[list[RunUserCode]], None]) -> None:
        """Join the consumer group. Tasks arrive when the group has assigned them."""
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        self.idle = IdleRest()
        self.engine.letters.stamp = _letter_stamper(self.settings)
        config = self.topology.config
        self.producer = UnitProducer(self.settings, self.fatal)
        self._pauses = LoopYielder(self.engine.pace, self.producer.poll)
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
            full=lambda: self.engine.intake.full,
            gathering=partial(gathering_secs, targets=max(self.topology.topics().values())),
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
        self._started = True
        self.consumer.start()
        self._background = [self.background(self._pump()), self.background(self._housekeeping())]
        self.log.info("started", instance=self.settings.instance, pid=os.getpid())

    async def stop(self) -> None:
        """Finish the work in flight, commit, and leave the group."""
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
        """End the process immediately, or re-execute it if that suffices. Thread-safe.

        The tasks move to other processes, or this process gets them back. No work is lost.
        """
        # Never released: only one thread ends the process.
        self._ending.acquire()
        if isinstance(error, KstormError | KafkaException) and not self._told_to_stop:
            restart_if_cut_off(error, self.settings, self.log)
        if isinstance(error, KstormError):
            self.log.error("fatal", error=str(error))
        else:
            self.log.error("fatal", exc_info=error)
        os._exit(1 if self._started else exit_code_before_start(error))

    async def open_writer(self) -> CheckpointWriter:
        """Open the writer of the process's checkpoints."""
        count = self.producer.count
        writer = CheckpointWriter(
            self.settings, self.engine.topic, self.group, self.consumer, count
        )
        await writer.open()
        return writer

    # Events: see `TaskOwner` and `kstorm.runtime.service.app.Service`.

    async def assigned(self, committed: Mapping[int, int]) -> None:
        self.idle.wake()
        self.perform(self.engine.assigned(committed, time.monotonic()))

    async def revoked(self, partitions: Sequence[int]) -> None:
        self.idle.wake()
        here = [partition for partition in partitions if partition in self.engine.tenures]
        waiting = [
            self._releases.setdefault(partition, self._loop.create_future()) for partition in here
        ]
        self.perform(self.engine.revoked(here, time.monotonic()))
        await asyncio.gather(*waiting)

    async def lost(self, partitions: Sequence[int]) -> None:
        self.perform(self.engine.lost(partitions, time.monotonic()))

    def deliver(self, records: list[Message]) -> None:
        self.idle.wake()
        by_task: dict[int, list[InputRecord]] = {}
        for record in records:
            by_task.setdefault(record.partition() or 0, []).append(record_of(record))
        tenures = self.engine.tenures
        item = [
            (tenures[partition], found)
            for partition, found in by_task.items()
            if partition in tenures
        ]
        if item:
            self.perform_event(partial(self.engine.arrived, item))

    def pass_over(self, partition: int, batch: UndecodableRange) -> None:
        # The engine treats the batch as one record.
        tenure = self.engine.tenures.get(partition)
        if tenure is not None:
            record = InputRecord(
                batch.first, None, undecodable=batch.reason, offsets=batch.end - batch.first
            )
            self.perform_event(partial(self.engine.arrived, [(tenure, [record])]))

    async def handle(self, work: list[RunUserCode]) -> None:
        try:
            await self.work(work)
        except Exception as error:  # noqa: BLE001 - on any error: the offset must not pass unfinished work
            self.fatal(error)

    # Background work.

    async def _pump(self) -> None:
        """Serve delivery reports. This must never wait for a delivery report."""
        while not self._stopping:
            if self.producer.poll():
                self.perform(self.engine.confirmed(time.monotonic()))
            self._beat = time.monotonic()
            if self.producer.waiting:
                await asyncio.sleep(_BUSY_SECONDS)
            else:
                await self.idle.rest(_IDLE_SECONDS)

    async def _housekeeping(self) -> None:
        while not self._stopping:
            now = time.monotonic()
            self.perform(self.engine.tick(now))
            self.periodic()
            self.workload.look()
            self._standby.look(now, idle=self.consumer.joined and not self.engine.tenures)
            await self.idle.rest(_HOUSEKEEPING_SECONDS)

    def open_transactions(self) -> list[OpenTransactions]:
        """Return the open transactions that block this process's input."""
        return [self.consumer.transactions]

    def _hangs(self) -> float:
        """Return the age of the oldest stuck transaction in seconds, or 0."""
        return max(each.longest_secs for each in self.open_transactions())

    def periodic(self) -> None:
        """Called every few milliseconds."""

    # Health.

    @property
    def alive(self) -> bool:
        """True while the event loop runs. A start may take as long as that of a pod."""
        return time.monotonic() - self._beat < (
            _BEAT_SECONDS if self._background else open_port.START_SECS
        )

    @property
    def not_ready(self) -> str:
        """Reason why this process is not ready, or ""."""
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


class _Standby:
    """Logs once that a process has no task, because there are more processes than tasks."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._said = False
        self._since = time.monotonic()

    def look(self, now: float, *, idle: bool) -> None:
        """Check the process. Called every few milliseconds."""
        if not idle:
            self._since = now
        elif now - self._since > _STANDBY_SECONDS and not self._said:
            self._said = True
            self._log.warning(
                "standing_by",
                why="the group has more processes than tasks, or they are still being moved",
            )


def _letter_stamper(settings: Settings) -> Callable[[], LetterStamp]:
    """Return a function that stamps a dead letter with the time, the version and a unique id."""
    try:
        release = f"kstorm {version('kstorm')}"
    except PackageNotFoundError:
        # running from source
        release = "kstorm"
    return partial(
        _stamp, f"{settings.topology_id}, {release}" if settings.topology_id else release
    )


def _stamp(code: str) -> LetterStamp:
    return LetterStamp(at=int(time.time() * 1000), version=code, unique=uuid.uuid4().hex)
