"""The factories that make the engines of services and of the testing kit."""

import ast
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import kstorm
from kstorm.core.engine import BoltEngine, ExactBoltEngine, ExactSpoutEngine, SpoutEngine
from kstorm.core.engine.bolt_engine import UnobservedWork
from kstorm.core.engine.units import Unit
from kstorm.core.exactly_once.unfinished import MARK
from kstorm.engine_factories import make_acker_engine, make_bolt_engine, make_spout_engine
from kstorm.kafka.ports import KafkaPorts
from kstorm.kafka.unit_writer import UnitWriter, for_sinks
from kstorm.topology import Config, KeyValueState, StatefulBasicBolt, TopologyBuilder
from kstorm.topology.config import EXACTLY_ONCE
from tests.unit.core.engines import Driven, Journal
from tests.unit.core.epoch_harness import Words

HOME = Path(kstorm.__file__).parent


class Counts(StatefulBasicBolt):
    states: list[KeyValueState]

    def init_state(self, state: KeyValueState) -> None:
        self.states.append(state)

    def execute(self, tuple: Any, collector: Any) -> None: ...


class Stored:
    """The rows of one task: a state value, and an unfinished tuple of an exactly-once run."""

    rows: tuple[tuple[bytes, bytes], ...] = ((b"key", b"\x07"), (MARK + b"offset", b"left"))

    def get(self, task: int, key: bytes) -> bytes | None:
        return dict(self.rows).get(key)

    def items(self, task: int, start: bytes = b"") -> Iterable[tuple[bytes, bytes]]:
        return [row for row in self.rows if row[0] >= start]


def bolt_engine(guarantee: str | None = None, **more: Any) -> tuple[BoltEngine, list[Any]]:
    """Make the engine of a stateful bolt, and the list of its tasks' states."""
    bolt = Counts()
    states = bolt.states = []
    settings: dict[str, Any] = {"topology_acker_tasks": 1}
    if guarantee:
        settings["topology_processing_guarantee"] = guarantee
    builder = TopologyBuilder("t", Config(**settings))
    builder.set_spout("words", Words())
    builder.set_bolt("counts", bolt).fields_grouping("words", "word")
    engine = make_bolt_engine(
        builder.build(),
        "counts",
        Journal(),
        next_id=count(1).__next__,
        rows=Stored,
        resources={},
        **more,
    )
    return engine, states


@pytest.mark.parametrize(
    ("guarantee", "spout", "bolt"),
    [(None, SpoutEngine, BoltEngine), (EXACTLY_ONCE, ExactSpoutEngine, ExactBoltEngine)],
)
def test_guarantee_chooses_the_engine(guarantee: str | None, spout: type, bolt: type) -> None:
    engine, _ = bolt_engine(guarantee)
    made = make_spout_engine(
        engine.topology, "words", Journal(), next_id=count(1).__next__, resources={}
    )
    assert (type(engine), type(made)) == (bolt, spout)


def test_tuples_that_would_be_lost_are_refused() -> None:
    """At-least-once processing replays none of them. The state itself does not show them."""
    refused: list[Any] = []
    engine, states = bolt_engine(refuse=lambda task, left: refused.append((task, left)))
    states_of = engine._load_state
    assert states_of is not None
    state = states_of(0)
    assert refused == [(0, {MARK + b"offset": b"left"})]
    assert list(state.items()) == [("key", 7)]
    assert states == []


def test_acker_restores_its_rows() -> None:
    class Empty(Stored):
        rows = ()

    engine, _ = bolt_engine()
    acker = Driven(make_acker_engine(engine.topology, Journal(), rows=Empty, now=0.0))
    acker.assign(t0=0)
    assert [len(ledger) for ledger in acker.engine.tasks] == [0]


class Writer:
    """Keeps the callbacks of its records."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def write(self, topic: str, key: Any, value: Any, done: Any, headers: Any = None) -> None:
        self.waiting.append(done)

    def write_batch(
        self, topic: str, keys: Any, values: Any, done: Any, headers: Any = None
    ) -> None:
        self.waiting.append(done)


def test_work_waits_for_records_of_sinks() -> None:
    nothing: Any = None
    writer: Any = Writer()
    work = UnobservedWork()
    ports = for_sinks(
        KafkaPorts(nothing, nothing, lambda: writer, lambda _: writer), work, exactly_once=False
    )
    sink = ports.open_shared_writer()
    assert isinstance(sink, UnitWriter)
    unit = work.unit = Unit()
    sink.write("t", None, b"v", lambda *_: None)
    sink.write_batch("t", [None], [b"v"], lambda _: None)
    unit.close()
    assert not unit.done
    writer.waiting[0](None, None)
    assert not unit.done
    writer.waiting[1]([])
    assert unit.done


def test_engines_are_made_in_one_place() -> None:
    """Otherwise the services could run other engines than the simulation."""
    kinds = {"BoltEngine", "SpoutEngine", "AckerEngine", "ExactBoltEngine", "ExactSpoutEngine"}
    makers = set()
    for path in HOME.rglob("*.py"):
        text = path.read_text()
        if "Engine" in text:
            makers |= {
                path.name
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in kinds
            }
    assert makers == {"engine_factories.py"}
