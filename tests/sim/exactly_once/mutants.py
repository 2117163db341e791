"""The rules of exactly once, and the engine, the tasks or the simulated readers without each.

But for "committed" the mutants take them out of what production runs. That a transaction has the offsets of all tasks is held by
the unit tests of the engine: who is refused by it has mostly other offsets in it too.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from kstorm.core.engine import ExactBoltEngine, ExactSpoutEngine, Slot
from kstorm.core.engine.effects import Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.epochs import EpochEngine
from kstorm.core.engine.slot import Phase
from kstorm.core.exact import UndoableState
from kstorm.core.exact.collector import ExactCollector
from kstorm.core.exact.task import ExactBoltTask
from kstorm.core.exact.unfinished import Left, Unfinished
from kstorm.testing.logs import Logs
from tests.sim.exactly_once.world import explore_exactly_once
from tests.sim.mutant import Mutant

Off = Callable[[], AbstractContextManager[object]]


def _epochs_with(change: Callable[[Any, Any, Any, Any], Transact]) -> Off:
    """Epochs that are made in another way of changes, offsets, records and positions."""
    return lambda: patch("kstorm.core.engine.epochs.Transact", change)


def _no_changes() -> AbstractContextManager[object]:
    return patch.object(UndoableState, "take_changes", lambda self: [])


def _forgets_what_hangs_on_them() -> AbstractContextManager[object]:
    return patch(
        "kstorm.core.exact.unfinished.Left", lambda row, attempts, waits, ack_val: Left(row, attempts, waits, 0)
    )


def _sends_at_once() -> AbstractContextManager[object]:
    return patch.object(
        ExactBoltEngine, "_send", lambda self, unit, records: super(EpochEngine, self)._send(unit, records)
    )


def _reads_everything() -> AbstractContextManager[object]:
    return patch.object(Logs, "stable_end", lambda self, place: len(self.records(place)))


def _keeps_effects() -> AbstractContextManager[object]:
    def take_back(self: ExactCollector) -> list[Any]:
        self.end()
        return []

    return patch.object(ExactCollector, "take_back", take_back)


def _keeps_emits_of_basic_bolts() -> AbstractContextManager[object]:
    return patch.object(ExactCollector, "drop_emits_at", lambda self, position: None)


def _keeps_state() -> AbstractContextManager[object]:
    return patch.object(UndoableState, "take_back", lambda self: None)


def _keeps_what_is_changed_in_place() -> AbstractContextManager[object]:
    return patch.object(UndoableState, "_read_anew", lambda self, key: None)


def _forgets_the_unfinished() -> AbstractContextManager[object]:
    return patch.object(Unfinished, "changes", lambda self: ())


def _counts_held_ones_in_full() -> AbstractContextManager[object]:
    return patch.object(ExactCollector, "acks_any", property(lambda self: True))


def _never_tries_again() -> AbstractContextManager[object]:
    return patch.object(ExactBoltTask, "retry_is_due", lambda self, now: False)


def _lets_go_before_the_commit() -> AbstractContextManager[object]:
    def settle(self: Any) -> Routine:
        yield from self._in_turn(list)

    def take_out(self: ExactBoltEngine, slot: Slot[Any]) -> Routine:
        slot.phase = Phase.CLOSING
        yield from ()

    return patch.multiple(ExactBoltEngine, _settle=settle, _take_out=take_out)


def _positions_before() -> AbstractContextManager[object]:
    return patch.object(ExactSpoutEngine, "_now_at", lambda self: {})


def mutants() -> list[Mutant]:
    """Every rule that the small world can show."""
    rules: list[tuple[str, Off]] = [
        ("outputs: what is sent leaves in the transaction", _sends_at_once),
        ("committed: everybody reads what is committed", _reads_everything),
        ("state: changes are in the transaction", _no_changes),
        ("offsets: input offsets are in the transaction", _epochs_with(lambda c, o, r, p: Transact(c, {}, r, p))),
        ("position: a spout's position is in the transaction", _positions_before),
        ("rollback: what a failed execution emitted and acked is taken back", _keeps_effects),
        ("rollback: what a basic bolt emitted, too", _keeps_emits_of_basic_bolts),
        ("rollback: and what it has put into the state", _keeps_state),
        ("rollback: and what it has changed in place", _keeps_what_is_changed_in_place),
        ("here: a failed tuple is tried again by its bolt", _never_tries_again),
        ("unfinished: what is held or waits is written down", _forgets_the_unfinished),
        ("unfinished: with what was anchored to it", _forgets_what_hangs_on_them),
        ("held: a held tuple that is executed again only reminds the bolt", _counts_held_ones_in_full),
        ("release: a task is let go of after the commit", _lets_go_before_the_commit),
    ]
    return [Mutant(f"exactly once, {rule}", off, explore_exactly_once, 1000) for rule, off in rules]
