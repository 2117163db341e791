"""Create the engine of a process, with one factory for each kind of component.

The services (`kstorm.runtime.service`) and the testing kit (`kstorm.testing`) create their engines
here. They pass different ports, and carry out the engine's effects in different ways. Everything
else is the same in both.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from kstorm.core.engine import (
    AckerEngine,
    BoltEngine,
    ExactBoltEngine,
    ExactSpoutEngine,
    SpoutEngine,
)
from kstorm.core.engine.bolt_engine import CurrentWork, UnobservedWork
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.spout_engine import CALLS_A_TURN
from kstorm.core.exactly_once import UndoableState
from kstorm.core.exactly_once.unfinished import MARK, is_unfinished_key
from kstorm.core.ids import NextId, NextIds
from kstorm.core.ledger import NO_LOG
from kstorm.core.task_state import TaskState
from kstorm.kafka.ports import KAFKA, KafkaPorts
from kstorm.kafka.unit_writer import for_exact_spouts, for_sinks
from kstorm.topology import Topology

Pairs = Iterable[tuple[bytes, bytes]]


class Rows(Protocol):
    """The local copy of a component's changelog, for the tasks that are open in this process."""

    def get(self, task: int, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""

    def items(self, task: int, start: bytes = b"") -> Pairs:
        """Return the pairs with keys from `start` on, in the order of their keys."""


OpenRows = Callable[[], Rows]
"""Returns the local copy. Called whenever a task is created, which is after its state was opened."""

Refuse = Callable[[int, Mapping[bytes, bytes]], None]
"""Called with a task and those pairs of its changelog that contradict its guarantee."""


def make_spout_engine(
    topology: Topology,
    component: str,
    journal: Journal,
    *,
    next_id: NextId,
    next_ids: NextIds | None = None,
    resources: Mapping[str, Any],
    calls_a_turn: int = CALLS_A_TURN,
) -> SpoutEngine:
    """Return the engine of a process that runs tasks of a spout."""
    kind = ExactSpoutEngine if topology.config.exactly_once else SpoutEngine
    engine = kind(
        topology,
        component,
        journal,
        next_id=next_id,
        next_ids=next_ids,
        resources=resources,
        calls_a_turn=calls_a_turn,
    )
    if topology.config.exactly_once and isinstance(ports := resources.get(KAFKA), KafkaPorts):
        engine.lend(KAFKA, for_exact_spouts(ports, engine.outbox))
    return engine


def make_bolt_engine(
    topology: Topology,
    component: str,
    journal: Journal,
    *,
    next_id: NextId,
    next_ids: NextIds | None = None,
    rows: OpenRows,
    resources: Mapping[str, Any],
    work: CurrentWork | None = None,
    refuse: Refuse | None = None,
) -> BoltEngine:
    """Return the engine of a process that runs tasks of a bolt.

    `work` gives other resources access to the work in progress. `refuse` receives the unfinished
    tuples of an exactly-once run, which at-least-once processing would lose.
    """
    exactly_once = topology.config.exactly_once
    at_hand = UnobservedWork() if work is None else work
    resources = dict(resources)
    if isinstance(ports := resources.get(KAFKA), KafkaPorts):
        resources[KAFKA] = for_sinks(ports, at_hand, exactly_once=exactly_once)

    def load_state(task: int) -> TaskState:
        stored = rows()
        if not exactly_once and refuse is not None and (left := dict(stored.items(task, MARK))):
            refuse(task, left)
        kind = UndoableState if exactly_once else TaskState
        return kind(
            partial(stored.get, task), lambda start: _without_tuples(stored.items(task, start))
        )

    own: dict[str, Any] = {
        "next_id": next_id,
        "next_ids": next_ids,
        "load_state": load_state,
        "resources": resources,
        "work": at_hand,
    }
    if not exactly_once:
        return BoltEngine(topology, component, journal, **own)
    return ExactBoltEngine(
        topology, component, journal, load_unfinished=lambda task: rows().items(task, MARK), **own
    )


def make_acker_engine(
    topology: Topology, journal: Journal, *, rows: OpenRows, now: float, log_id: bytes = NO_LOG
) -> AckerEngine:
    """Return the engine of a process that runs acker tasks.

    `log_id` identifies the topic of acks, in case it is deleted and created again.
    """
    return AckerEngine(
        topology, journal, load_rows=lambda task: rows().items(task), now=now, log_id=log_id
    )


def _without_tuples(pairs: Pairs) -> Pairs:
    return (pair for pair in pairs if not is_unfinished_key(pair[0]))
