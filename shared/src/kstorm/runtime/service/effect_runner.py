"""Execute the effects of an engine and report their results to it. This module never chooses or
omits effects."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from math import inf
from typing import Any, Generic, TypeVar

from kstorm.core.engine import Effect, Engine, InputRecord
from kstorm.core.engine.effects import (
    AbandonOpen,
    ApplyToStore,
    Close,
    CommitOffsets,
    FetchRecords,
    Open,
    Release,
    RunUserCode,
    Send,
    StartDelivery,
    Terminate,
    Transact,
)
from kstorm.core.user_code import drive
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.input_records import reread
from kstorm.runtime.kafka.producer import UnitProducer
from kstorm.runtime.kafka.refusals import RecordsRefusedError
from kstorm.runtime.service.idle_rest import IdleRest
from kstorm.runtime.service.loop_yield import LoopYielder
from kstorm.runtime.service.workload import WorkloadMeter
from kstorm.topology import Topology

E = TypeVar("E", bound=Engine[Any])


class EffectRunner(Generic[E]):
    """The part of a driver that executes effects."""

    engine: E
    """Created by the subclass."""
    settings: Settings
    idle: IdleRest
    """Created when the event loop runs."""
    producer: UnitProducer
    consumer: TaskConsumer

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.workload = WorkloadMeter(topology, lambda: self.engine.sent)
        self._stopping = False
        self._planned = inf
        self._timer: asyncio.TimerHandle | None = None
        self._feed: Callable[[list[RunUserCode]], None]
        self._pauses: LoopYielder
        self._loop: asyncio.AbstractEventLoop
        self._releases: dict[int, asyncio.Future[None]] = {}
        self._acts: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Open: lambda effect: self._answer(self._open(effect.task)),
            AbandonOpen: lambda effect: self.abandon(effect.task),
            StartDelivery: lambda effect: self.consumer.ready(effect.task),
            Transact: lambda effect: self._answer(self._transact(effect)),
            FetchRecords: lambda effect: self._answer(self._fetch(effect)),
            ApplyToStore: self.keep,
            CommitOffsets: self._commit,
            Close: lambda effect: self.close(effect.task),
            Release: lambda effect: self._releases.pop(effect.task).set_result(None),
            Terminate: lambda effect: self.fatal(effect.error),
        }

    # Overridden by the drivers.

    async def open(self, task: int) -> Iterable[tuple[InputRecord, str]]:
        """Execute `Open`. Return the rejected records with the reason."""
        raise NotImplementedError

    def abandon(self, task: int) -> None:
        """Execute `AbandonOpen`."""

    def close(self, task: int) -> None:
        """Execute `Close`."""

    async def transact(self, effect: Transact) -> Mapping[int, int]:
        raise NotImplementedError

    def keep(self, effect: ApplyToStore) -> None:
        """Execute `ApplyToStore`."""
        raise NotImplementedError

    def after_runs(self) -> None:
        """Collect measurements. Called after user code has run."""

    def fatal(self, error: Exception) -> None:
        """End the process now, or re-execute it. Thread-safe."""
        raise NotImplementedError

    # Effects.

    def perform(self, effects: list[Effect]) -> None:
        """Execute effects. The agent runs the user code."""
        if runs := self._act(effects):
            self._feed(runs)

    def perform_event(self, event: Callable[[float], list[Effect]]) -> None:
        """Report an event to the engine, and execute the effects. It is for callbacks of the event
        loop, which have no caller to handle an error."""
        try:
            self.perform(event(time.monotonic()))
        except Exception as error:  # noqa: BLE001 - on any error: the offset must not pass unfinished work
            self.fatal(error)

    async def work(self, runs: list[RunUserCode]) -> None:
        """Run the user code of a job, and then that of the jobs that follow. The agent calls this."""
        # This is a loop and not a recursion, because a thousand runs may follow one another.
        while True:
            following = (
                [await self._run(runs[0])]
                if len(runs) == 1
                else await asyncio.gather(*map(self._run, runs))
            )
            self.producer.poll()
            runs = [run for some in following for run in some]
            if not runs:
                return
            # Let the event loop process input, timers and requests between two jobs.
            await asyncio.sleep(0)

    def _act(self, effects: list[Effect]) -> list[RunUserCode]:
        """Execute all effects except the runs, and return those."""
        runs = []
        for effect in effects:
            if type(effect) is RunUserCode:
                runs.append(effect)
            else:
                self._acts[type(effect)](effect)
        if self.engine.due < self._planned:
            self._plan(self.engine.due)
        return runs

    def _plan(self, due: float) -> None:
        """Schedule the call of `wake`."""
        if self._timer is not None:
            self._timer.cancel()
        self._planned = due
        self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), self._wake)

    def _wake(self) -> None:
        self._planned, self._timer = inf, None
        if not self._stopping:
            self.perform_event(self.engine.wake)

    async def _run(self, run: RunUserCode) -> list[RunUserCode]:
        with self.workload.busy:
            await drive(run.steps, self._pauses)
        self.after_runs()
        return self._act(self.engine.ran(run, time.monotonic()))

    def _send(self, effect: Send) -> None:
        self.idle.wake()
        self.producer.send(effect.unit, effect.records)

    def _commit(self, effect: CommitOffsets) -> None:
        if effect.waits:
            self._answer(self._commit_and_wait(effect))
        else:
            self.consumer.commit(effect.offsets)

    async def _commit_and_wait(self, effect: CommitOffsets) -> list[Effect]:
        await self.consumer.commit_and_wait(effect.offsets)
        return self.engine.committed(effect, {}, time.monotonic())

    async def _transact(self, effect: Transact) -> list[Effect]:
        try:
            reached = await self.transact(effect)
        except RecordsRefusedError as error:
            return self.engine.refused(effect, error.refused, time.monotonic())
        return self.engine.committed(effect, reached, time.monotonic())

    async def _fetch(self, effect: FetchRecords) -> list[Effect]:
        reading = (self.settings, self.engine.topic, effect.task, effect.offsets)
        records = await asyncio.to_thread(reread, *reading)
        return self.engine.fetched(effect, records, time.monotonic())

    async def _open(self, task: int) -> list[Effect]:
        refused = await self.open(task)
        return self.engine.opened(task, refused, time.monotonic())

    def _answer(self, answering: Coroutine[Any, Any, list[Effect]]) -> None:
        """Execute an effect in the background, and then the effects that its result leads to."""
        self.background(self._perform_answer(answering))

    async def _perform_answer(self, answering: Coroutine[Any, Any, list[Effect]]) -> None:
        self.perform(await answering)

    # Background work.

    def background(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Future[None]":
        """Run a coroutine in the background. If it fails, the process ends."""
        future = asyncio.ensure_future(coroutine)
        future.add_done_callback(self._background_ended)
        return future

    def _background_ended(self, future: "asyncio.Future[None]") -> None:
        if not future.cancelled() and isinstance(error := future.exception(), Exception):
            self.fatal(error)
