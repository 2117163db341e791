"""Engines driven by hand: a test triggers each event, and inspects the effects."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, TypeVar

from kstorm.core.engine import (
    AckerEngine,
    BoltEngine,
    Effect,
    Engine,
    ExactBoltEngine,
    ExactSpoutEngine,
    InputRecord,
    SpoutEngine,
    Unit,
)
from kstorm.core.engine.effects import Open, RunUserCode, Send
from kstorm.core.exactly_once import UndoableState
from kstorm.core.task_state import TaskState
from kstorm.core.user_code import drive
from kstorm.core.wire import VERSION, TupleFrame, encode
from kstorm.topology import Topology

T = TypeVar("T")


class Journal:
    """Records the errors and events of an engine."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []
        self.events: list[str] = []
        self.fields: list[dict[str, Any]] = []
        """The fields of each event."""

    def error(self, error: BaseException, doing: str, task: int) -> None:
        self.errors.append((str(error), doing))

    def info(self, event: str, **fields: Any) -> None:
        self.events.append(event)
        self.fields.append(fields)

    warning = info

    def made(self, task: Any, task_id: int) -> None:
        self.info("made")


class Driven:
    """Runs an engine's user code at once, delivers sends on demand, and records all other effects."""

    def __init__(self, engine: Engine[Any]) -> None:
        self.engine = engine
        self.effects: list[Effect] = []
        """The recorded effects: every kind except `RunUserCode` and `Open`."""
        self.units: list[Unit] = []
        """One unit per record in flight."""
        self.now = 0.0
        self.opens = True
        """True if `Open` is answered at once."""

    def do(self, effects: Sequence[Effect]) -> list[Effect]:
        """Carries out effects. Returns the remaining and the resulting ones."""
        before = len(self.effects)
        waiting = list(effects)
        while waiting:
            effect = waiting.pop(0)
            if isinstance(effect, RunUserCode):
                asyncio.run(drive(effect.steps))
                waiting += self.engine.ran(effect, self.now)
            elif isinstance(effect, Open) and self.opens:
                waiting += self.engine.opened(effect.task, (), self.now)
            else:
                if isinstance(effect, Send):
                    self.units += [effect.unit] * len(effect.records)
                self.effects.append(effect)
        return self.effects[before:]

    def assign(self, **committed: int) -> list[Effect]:
        """Assigns tasks: `assign(t0=7)` gives the engine task 0, whose input resumes at offset 7."""
        return self.do(
            self.engine.assigned(
                {int(name[1:]): offset for name, offset in committed.items()}, self.now
            )
        )

    def poll(self, task: int, *records: InputRecord) -> list[Effect]:
        return self.do(self.engine.arrived([(self.engine.tenures[task], records)], self.now))

    def tick(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self.do(self.engine.tick(self.now))

    def deliver(self) -> list[Effect]:
        """Delivers all sent records."""
        units, self.units = self.units, []
        for unit in units:
            unit.delivered()
        return self.do(self.engine.confirmed(self.now))

    def take(self, kind: type[T]) -> list[T]:
        """Removes and returns the recorded effects of a kind."""
        found: list[Any] = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found


def bolt_engine(topology: Topology, component: str, journal: Journal | None = None) -> BoltEngine:
    """Builds a bolt engine with the ids 1, 2, 3 and so on, and with state in memory."""
    return BoltEngine(
        topology,
        component,
        journal or Journal(),
        next_id=count(1).__next__,
        load_state=lambda task: TaskState(lambda key: None, lambda start: ()),
    )


def spout_engine(topology: Topology, component: str, journal: Journal | None = None) -> SpoutEngine:
    """Builds a spout engine with the ids 1, 2, 3 and so on."""
    return SpoutEngine(topology, component, journal or Journal(), next_id=count(1).__next__)


def exact_bolt_engine(
    topology: Topology,
    component: str,
    left: Iterable[tuple[bytes, bytes]] = (),
    journal: Journal | None = None,
) -> ExactBoltEngine:
    """Builds an exactly-once bolt engine.

    `left`: the unfinished tuples of the former owner of any task.
    """
    return ExactBoltEngine(
        topology,
        component,
        journal or Journal(),
        next_id=count(1).__next__,
        load_state=lambda task: UndoableState(lambda key: None, lambda: ()),
        load_unfinished=lambda task: left,
    )


def exact_spout_engine(
    topology: Topology, component: str, journal: Journal | None = None
) -> ExactSpoutEngine:
    """Builds an exactly-once spout engine with the ids 1, 2, 3 and so on."""
    return ExactSpoutEngine(topology, component, journal or Journal(), next_id=count(1).__next__)


def acker_engine(
    topology: Topology, journal: Journal | None = None, stored: Iterable[tuple[bytes, bytes]] = ()
) -> AckerEngine:
    """Builds an acker engine whose tasks all load the `stored` rows."""
    return AckerEngine(topology, journal or Journal(), load_rows=lambda task: stored, now=0.0)


def topics(sends: Iterable[Send]) -> list[str]:
    """Returns the topics of the sent records, in order."""
    return [record.topic for send in sends for record in send.records]


def frame(offset: int, *words: str, component: str = "words", task: int = 1) -> InputRecord:
    """Builds a frame of one-field tuples with one tree each."""
    ids = b"".join((100 * offset + at + 1).to_bytes(8, "little") for at in range(len(words)))
    return InputRecord(
        offset,
        encode(
            TupleFrame(VERSION, component, task, "default", len(words), ids, ids, {}, [list(words)])
        ),
    )
