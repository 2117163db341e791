"""A process's work around its engine: the pump, background tasks, and the timeout of a revocation."""

import asyncio
import os
import time
from collections.abc import Iterable
from concurrent.futures import Future
from math import inf
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import structlog

from kstorm.core.engine import BoltEngine, Effect, InputRecord
from kstorm.core.engine.effects import RunUserCode
from kstorm.core.user_code import Steps
from kstorm.errors import TasksLostError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka import consumer as consumer_module
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.service import driver as driver_module
from kstorm.runtime.service import outage
from kstorm.runtime.service.driver import Driver
from kstorm.testing import FeederSpout
from kstorm.topology import Bolt, Config, Topology, TopologyBuilder, Tuple
from tests.unit.core.engines import Journal, bolt_engine

SETTINGS = Settings(topology="a:b", instance="sink-0")


class Sink(Bolt):
    def execute(self, tuple: Tuple) -> None:
        pass


class FakeProducer:
    """Returns one report per poll, and counts the polls."""

    def __init__(self, *_: Any) -> None:
        self.waiting = 0
        self.waited = 0.0
        self.polls = 0
        self.polled_again = asyncio.Event()

    def poll(self) -> int:
        self.polls += 1
        if self.polls > 3:
            self.polled_again.set()
        return 1

    def flush(self, seconds: float) -> bool:
        return True


class FakeConsumer:
    """Records its options."""

    made: ClassVar[dict[str, Any]] = {}
    joined = throttled = False

    def __init__(self, settings: Settings, **options: Any) -> None:
        FakeConsumer.made = options

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


class BareDriver(Driver[BoltEngine]):
    """A driver of a bolt whose tasks cannot be opened. It records fatal errors instead of exiting."""

    group = "t.sink"

    def __init__(self, topology: Topology) -> None:
        super().__init__(SETTINGS, topology, "sink", Journal())
        self.engine = bolt_engine(topology, "sink", self)  # type: ignore[arg-type]
        self.ended: list[Exception] = []
        self.has_ended = asyncio.Event()

    def fatal(self, error: Exception) -> None:
        self.ended.append(error)
        self.has_ended.set()

    async def open(self, task: int) -> Iterable[tuple[InputRecord, str]]:
        raise RuntimeError("the disk is gone")


def topology(**settings: Any) -> Topology:
    builder = TopologyBuilder("t", Config(**settings))
    builder.set_spout("words", FeederSpout("word"))
    builder.set_bolt("sink", Sink()).shuffle_grouping("words")
    return builder.build()


@pytest.fixture(autouse=True)
def without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "UnitProducer", FakeProducer)
    monkeypatch.setattr(driver_module, "TaskConsumer", FakeConsumer)


def test_an_error_in_the_background_ends_the_process() -> None:
    """Otherwise a process that looks healthy would wait forever for a task whose recovery failed."""

    async def run() -> list[Exception]:
        driver = BareDriver(topology())
        await driver.start(lambda item: None)
        await driver.assigned({0: 0})
        await asyncio.wait_for(driver.has_ended.wait(), 10)
        await driver.stop()
        return driver.ended

    (error,) = asyncio.run(run())
    assert str(error) == "the disk is gone"


def test_a_start_has_the_patience_of_a_startup_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts again in place gets no startup probe. Afterwards, liveness counts."""

    async def run() -> None:
        driver = BareDriver(topology())
        begun = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: begun + 599)
        assert driver.alive
        monkeypatch.setattr(time, "monotonic", lambda: begun + 601)
        assert not driver.alive
        monkeypatch.undo()
        await driver.start(lambda item: None)
        beat = time.monotonic()
        assert driver.alive
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: beat + 31)
            assert not driver.alive
        await driver.stop()

    asyncio.run(run())


class Gone(BaseException):
    """The process has exited or was replaced."""


@pytest.mark.parametrize(("told", "what"), [(False, "begun anew"), (True, "ended with code 1")])
def test_process_that_lost_its_tasks_restarts_unless_it_is_stopping(
    monkeypatch: pytest.MonkeyPatch, told: bool, what: str
) -> None:
    """The group does not assign these tasks to it again."""

    def goes(how: str) -> None:
        raise Gone(how)

    monkeypatch.setattr(os, "execv", lambda *_: goes("begun anew"))
    monkeypatch.setattr(os, "_exit", lambda code: goes(f"ended with code {code}"))
    monkeypatch.setattr(outage, "_leave_nothing_open", lambda: None)
    for name in ("KSTORM_BEGUN_ANEW", "KSTORM_KAFKA_AWAY_SINCE"):
        monkeypatch.setenv(name, "0")  # it is set, and reset at the end

    async def run() -> None:
        driver = BareDriver(topology())
        driver.log = structlog.get_logger()
        await driver.start(lambda item: None)
        if told:
            await driver.stop()
        try:
            Driver.fatal(driver, TasksLostError("others have them"))
        finally:
            await driver.stop()

    with pytest.raises(Gone, match=what):
        asyncio.run(run())


def test_reports_are_served_while_user_code_waits() -> None:
    """User code may wait for a later report. A pump that waited for the user code would deadlock."""

    async def run() -> int:
        driver = BareDriver(topology())
        waiting: list[RunUserCode] = []
        agents: list[asyncio.Future[None]] = []
        served = asyncio.Event()

        def user_code() -> Steps:
            producer: Any = driver.producer
            yield producer.polled_again.wait()

        def confirmed(now: float) -> list[Effect]:
            if not waiting:
                waiting.append(RunUserCode(user_code()))
                return [waiting[0]]
            return []

        def ran(_run: RunUserCode, now: float) -> list[Effect]:
            served.set()
            return []

        driver.engine.confirmed = confirmed  # type: ignore[method-assign]
        driver.engine.ran = ran  # type: ignore[method-assign]
        await driver.start(lambda work: agents.append(asyncio.ensure_future(driver.handle(work))))
        await asyncio.wait_for(served.wait(), 10)
        await driver.stop()
        assert driver.ended == []
        producer: Any = driver.producer
        return int(producer.polls)

    assert asyncio.run(run()) > 3


def test_an_engine_is_ticked_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for the next housekeeping round."""
    monkeypatch.setattr(driver_module, "_HOUSEKEEPING_SECONDS", 3600)

    async def run() -> None:
        driver = BareDriver(topology())
        ticked, times = asyncio.Event(), {"due": inf}
        monkeypatch.setattr(type(driver.engine), "due", property(lambda _: times["due"]))

        def tick(now: float) -> list[Effect]:
            if now >= due:
                times["due"] = inf
                ticked.set()
            return []

        await driver.start(lambda item: None)
        await asyncio.sleep(0)  # after the first housekeeping round
        due = time.monotonic() + 0.01
        driver.engine.wake = tick  # type: ignore[method-assign]
        times["due"] = due
        driver.perform([])
        await asyncio.wait_for(ticked.wait(), 10)
        monkeypatch.setattr(driver, "_background", [])  # the next housekeeping round is in an hour
        await driver.stop()

    asyncio.run(run())


# Timeouts at a revocation.


class Clock:
    """A clock that moves during sleeps, and resolves a future at its time."""

    def __init__(self, done: "Future[None]", ends_at: float) -> None:
        self.now, self._done, self._ends_at = 0.0, done, ends_at

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.5)
        if self.now >= self._ends_at and not self._done.done():
            self._done.set_result(None)


def revoke_secs(**settings: Any) -> float:
    """Returns the revocation timeout that a driver gives its consumer."""

    async def start() -> None:
        driver = BareDriver(topology(**settings))
        await driver.start(lambda item: None)
        await driver.stop()

    asyncio.run(start())
    return float(FakeConsumer.made["revoke_secs"])


@pytest.mark.parametrize("drain", [20.0, 90.0, 600.0])
def test_a_consumer_waits_for_a_task_that_drains_as_long_as_it_may(
    monkeypatch: pytest.MonkeyPatch, drain: float
) -> None:
    """The spout drains first. Storing and closing need extra time."""
    patience = revoke_secs(topology_drain_timeout_secs=drain)
    assert patience > drain + 10
    done: Future[None] = Future()
    monkeypatch.setattr(consumer_module, "time", Clock(done, drain + 10))
    _consumer(monkeypatch, patience)._wait_for(done)
    assert done.done()


def test_consumer_wait_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = revoke_secs(topology_drain_timeout_secs=5)
    done: Future[None] = Future()
    monkeypatch.setattr(consumer_module, "time", Clock(done, float("inf")))
    with pytest.raises(TimeoutError, match=rf"within {patience:.0f} s"):
        _consumer(monkeypatch, patience)._wait_for(done)


@pytest.mark.parametrize("drain", [20.0, 90.0, 600.0])
def test_consumer_is_not_expelled_during_a_revocation(
    monkeypatch: pytest.MonkeyPatch, drain: float
) -> None:
    """It does not poll meanwhile, and the group expels members beyond `max.poll.interval.ms`."""
    patience = revoke_secs(topology_drain_timeout_secs=drain)
    made: list[dict[str, Any]] = []
    _consumer(monkeypatch, patience, made)
    assert made[0]["max.poll.interval.ms"] > patience * 1000


def _consumer(
    monkeypatch: pytest.MonkeyPatch, patience: float, made: list[dict[str, Any]] | None = None
) -> TaskConsumer:
    """Builds a consumer. `made` gets the settings of its client."""

    def client(config: dict[str, Any]) -> SimpleNamespace:
        if made is not None:
            made.append(config)
        return SimpleNamespace()

    monkeypatch.setattr(consumer_module, "Consumer", client)
    nobody: Any = None
    return TaskConsumer(
        SETTINGS,
        topic="t.sink",
        group="t.sink",
        session_timeout_ms=6000,
        revoke_secs=patience,
        owner=nobody,
        loop=nobody,
        fatal=nobody,
        log=Journal(),
    )
