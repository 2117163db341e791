"""The rules of exactly-once processing, and kstorm without each.

The mutants remove the rules from the production code. The exceptions are Kafka's own rules. Clients
read committed records and stable offsets. A changelog is read to an end below which no transaction
is open. A group checks generations.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kstorm.core import task_state
from kstorm.core.engine import InputProgress, TaskTenure
from kstorm.core.engine.effects import ApplyToStore, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.epochs import Epochs
from kstorm.core.engine.exact_bolt import BoltEpochs
from kstorm.core.engine.exact_spout import SpoutEpochs
from kstorm.core.engine.tenure import Phase
from kstorm.core.engine.transaction import Answer, Request, TransactionalWrite, Transactions
from kstorm.core.engine.units import Unit
from kstorm.core.exactly_once import UndoableState
from kstorm.core.exactly_once.exact_bolt_task import ExactBoltTask
from kstorm.core.exactly_once.exact_collector import ExactCollector
from kstorm.core.exactly_once.exact_ledger import ExactLedger
from kstorm.core.exactly_once.exact_spout_task import ExactSpoutTask
from kstorm.core.exactly_once.unfinished import UnfinishedTuple, UnfinishedTuples
from kstorm.core.ledger import Ledger
from kstorm.core.spout_task import SpoutTask
from kstorm.testing.logs import BrokerLogs
from kstorm.testing.process import SimulatedProcess
from kstorm.testing.processes import BoltProcess
from kstorm.testing.world import SimulatedWorld
from tests.sim.engine_mutants import (
    earlier_tenures,
    lives_on,
    offsets_first,
    unstable_offsets,
)
from tests.sim.exactly_once.small_world import explore_small_world
from tests.sim.exactly_once.world import explore_exactly_once
from tests.sim.finished_mutants import range_mutants
from tests.sim.mutant import Mutant

Off = Callable[[], AbstractContextManager[object]]


def _epochs_with(change: Callable[[Any, Any, Any, Any], Transact]) -> Off:
    """Build epochs differently from changes, offsets, records and positions."""
    return lambda: patch("kstorm.core.engine.epochs.Transact", change)


def _no_changes() -> AbstractContextManager[object]:
    return patch.object(UndoableState, "take_changes", lambda self: [])


def _forgets_what_hangs_on_them() -> AbstractContextManager[object]:
    return patch(
        "kstorm.core.exactly_once.unfinished.UnfinishedTuple",
        lambda row, attempts, waits, ack_val: UnfinishedTuple(row, attempts, waits, 0),
    )


def _sends_at_once() -> AbstractContextManager[object]:
    return patch.object(
        BoltEpochs, "send", lambda self, unit, records: self._engine.send_now(unit, records)
    )


def _reads_everything() -> AbstractContextManager[object]:
    return patch.object(BrokerLogs, "stable_end", lambda self, place: len(self.records(place)))


def _keeps_effects() -> AbstractContextManager[object]:
    def take_back(self: ExactCollector) -> list[Any]:
        if self.state is not None:
            self.state.take_back()
        self.emitted = self._emitted_before
        failing, self.failing = self.failing, []
        self.end()
        self.failing = failing
        return []

    return patch.object(ExactCollector, "take_back", take_back)


def _keeps_emits_of_basic_bolts() -> AbstractContextManager[object]:
    return patch.object(ExactCollector, "drop_emits_at", lambda self, position: None)


def _keeps_state() -> AbstractContextManager[object]:
    return patch.object(UndoableState, "take_back", lambda self: None)


def _keeps_what_is_changed_in_place() -> AbstractContextManager[object]:
    def read(self: task_state._Encoded) -> Any:
        if self.ready is None:
            self.ready = task_state.value_of("", self.data)
        return self.ready

    return patch.object(task_state._Encoded, "read", read)


def _forgets_the_unfinished() -> AbstractContextManager[object]:
    return patch.object(UnfinishedTuples, "changes", lambda self: ())


def _counts_held_ones_in_full() -> AbstractContextManager[object]:
    return patch.object(ExactCollector, "acks_any", property(lambda self: True))


def _never_tries_again() -> AbstractContextManager[object]:
    return patch.object(ExactBoltTask, "retry_is_due", lambda self, now: False)


def _lets_go_before_the_commit() -> AbstractContextManager[object]:
    def settle(self: Any) -> Routine:
        yield from self._engine._in_turn(list)

    def take_out(self: BoltEpochs, tenure: TaskTenure[Any]) -> Routine:
        tenure.phase = Phase.CLOSING
        yield from ()

    return patch.multiple(BoltEpochs, _settle=settle, _take_out=take_out)


def _positions_before() -> AbstractContextManager[object]:
    cut = SpoutEpochs.cut

    def without(self: SpoutEpochs) -> Any:
        changes, offsets, _ = cut(self)
        return changes, offsets, {}

    return patch.object(SpoutEpochs, "cut", without)


# The transaction.


def _gives_up_asking() -> AbstractContextManager[object]:
    def asked(request: Request) -> Generator[Request, Answer, Answer]:
        answer = yield request
        return Answer.TAKEN_BACK if answer is Answer.NONE else answer

    return patch.object(TransactionalWrite, "_asked", staticmethod(asked))


def _keeps_its_producer() -> AbstractContextManager[object]:
    never = property(lambda self: False, lambda self, value: None)
    return patch.object(Transactions, "doubtful", never, create=True)


def _forgets_what_is_refused() -> AbstractContextManager[object]:
    def once(self: TransactionalWrite) -> Generator[Request, Answer, None]:
        yield Request.BEGIN
        if (yield from self._in_order()) is Answer.REFUSED:
            yield Request.ABORT

    return patch.object(TransactionalWrite, "_all", once)


def _offsets_that_moved() -> AbstractContextManager[object]:
    cut = BoltEpochs.cut

    def moved(self: BoltEpochs) -> Any:
        tenures = self._engine.tenures
        before = {tenure.index: tenure.progress.committed for tenure in tenures.values()}
        changes, offsets, positions = cut(self)
        return changes, {task: at for task, at in offsets.items() if at != before[task]}, positions

    return patch.object(BoltEpochs, "cut", moved)


def _never_looks_at_generations() -> AbstractContextManager[object]:
    return patch.object(SimulatedWorld, "fence", False)


def _reads_open_changelogs() -> AbstractContextManager[object]:
    return patch.object(SimulatedProcess, "_has_ended", lambda *_: True)


@contextmanager
def _offsets_first_and_read_last() -> Iterator[None]:
    """Both guards are off.

    Offsets are sent before the records are written. A new owner looks up the end of the changelog
    before it knows the offset, for which it then waits.
    """
    with offsets_first(), _offsets_read_last():
        yield


@contextmanager
def _offsets_read_last() -> Iterator[None]:
    """A new owner of a bolt's task looks up the end of the changelog before it knows the offset."""
    has_ended, recover = BoltProcess._has_ended, BoltProcess._open

    def ended(self: Any, task: int, high: int) -> bool:
        return has_ended(self, task, high) and self._is_stable_now(task)

    def late(self: Any, task: int) -> None:
        offset = self.world.logs.committed(self._place(task))
        self.engine.tenures[task].progress = InputProgress(offset)
        recover(self, task)

    with (
        patch.object(BoltProcess, "_is_stable_now", SimulatedProcess._is_stable, create=True),
        patch.object(BoltProcess, "_is_stable", lambda *_: True),
        patch.object(BoltProcess, "_has_ended", ended),
        patch.object(BoltProcess, "_open", late),
    ):
        yield


def _disk_first() -> AbstractContextManager[object]:
    written_as = Epochs._written_as

    def ahead(self: Any, transact: Transact) -> Routine:
        self._engine._effects.append(
            ApplyToStore(transact.changes, dict.fromkeys(transact.changes, -1))
        )
        yield from written_as(self, transact)

    return patch.object(Epochs, "_written_as", ahead)


def _letters_at_once() -> AbstractContextManager[object]:
    drain = Epochs._drain

    def early(self: Any) -> None:
        engine = self._engine
        letters, engine.outbox.letters = engine.outbox.letters, []
        engine.send_now(Unit(), [engine.letters.record(letter.letter) for letter in letters])
        drain(self)

    return patch.object(Epochs, "_drain", early)


def _cuts_amid_executions() -> AbstractContextManager[object]:
    def hasty(self: Any) -> None:
        if not self._writing and self.is_cut_due:
            self._engine._go_on(self._epoch())

    return patch.object(Epochs, "before_turn", hasty)


# The tasks.


def _takes_all_for_held() -> AbstractContextManager[object]:
    return patch(
        "kstorm.core.exactly_once.unfinished.UnfinishedTuple",
        lambda row, attempts, waits, ack_val: UnfinishedTuple(row, attempts, False, ack_val),
    )


def _replays() -> AbstractContextManager[object]:
    return patch.object(ExactSpoutTask, "_expire", SpoutTask._expire)


def _forgets_old_trees() -> AbstractContextManager[object]:
    return patch.object(ExactLedger, "rotate", Ledger.rotate)


def mutants() -> list[Mutant]:
    """Every rule, in the world that reveals it."""
    rules: list[tuple[str, Off]] = [
        ("outputs: frames are sent in the transaction", _sends_at_once),
        ("committed: consumers read only committed records", _reads_everything),
        ("state: changes are in the transaction", _no_changes),
        (
            "offsets: input offsets are in the transaction",
            _epochs_with(lambda c, o, r, p: Transact(c, {}, r, p)),
        ),
        ("position: a spout's position is in the transaction", _positions_before),
        ("rollback: the emits and acks of a failed execution are undone", _keeps_effects),
        ("rollback: the emits of a basic bolt are undone too", _keeps_emits_of_basic_bolts),
        ("rollback: its state changes are undone", _keeps_state),
        ("rollback: its changes to stored objects are undone", _keeps_what_is_changed_in_place),
        ("retry: a failed tuple is retried by its bolt", _never_tries_again),
        ("unfinished: held and waiting tuples are stored", _forgets_the_unfinished),
        ("unfinished: the tuples anchored to them are stored too", _forgets_what_hangs_on_them),
        (
            "held: the second execution of a held tuple has no effects",
            _counts_held_ones_in_full,
        ),
        ("release: a task is released after the commit", _lets_go_before_the_commit),
        ("clock: a timeout replays nothing", _replays),
        ("outage: ackers keep a tree until it ends", _forgets_old_trees),
        ("whole: an epoch contains only complete executions", _cuts_amid_executions),
    ]
    small: list[tuple[str, Off]] = [
        (
            "request: an unanswered request is repeated, and its records are not written again",
            _gives_up_asking,
        ),
        (
            "producer: it is replaced after a request without an immediate response",
            _keeps_its_producer,
        ),
        ("same: a refused epoch is written again unchanged", _forgets_what_is_refused),
        (
            "tenure: records fetched in an earlier tenure of a task are not executed",
            earlier_tenures,
        ),
        ("dead: a process exits once another process has its tasks", lives_on),
        (
            "flush: records arrive before offsets are added, or offsets are read before the changelog (either would do)",
            _offsets_first_and_read_last,
        ),
        ("fence: each transaction has the offsets of all tasks", _offsets_that_moved),
        (
            "generation: offsets come with their process's generation and name",
            _never_looks_at_generations,
        ),
        ("changelog: a new owner waits for its open transactions", _reads_open_changelogs),
        ("stable: a new owner waits for offsets in open transactions", unstable_offsets),
        ("disk: an epoch is stored locally after the commit", _disk_first),
        ("letters: dead letters are in the transaction", _letters_at_once),
        (
            "fresh: a tuple that was never executed completely is executed in full",
            _takes_all_for_held,
        ),
    ]
    return [
        *(Mutant(f"exactly once, {rule}", off, explore_exactly_once, 1000) for rule, off in rules),
        *(Mutant(f"exactly once, {rule}", off, explore_small_world, 4000) for rule, off in small),
        *range_mutants(),
    ]
