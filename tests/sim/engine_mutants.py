"""The rules of the engine (when to store, send, commit and release), and the engine without each.

The mutants remove the rules from the production code: `kstorm.core.engine`, `kstorm.core.recovery`.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import inf
from typing import Any
from unittest.mock import patch

from kstorm.core import recovery
from kstorm.core.engine import (
    AckerEngine,
    BoltEngine,
    Engine,
    InputProgress,
    TaskTenure,
    Unit,
    transaction,
)
from kstorm.core.engine.checkpoints import Checkpoints
from kstorm.core.engine.effects import ApplyToStore, CommitOffsets, Effect, Release, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.intake import Intake
from kstorm.core.engine.spout_engine import SpoutEngine, SpoutSends
from kstorm.core.engine.tenure import Phase
from kstorm.core.engine.transaction import Request
from kstorm.core.user_code import Steps
from kstorm.testing.consumer_group import FENCED, ConsumerGroup, GroupMember
from kstorm.testing.logs import BrokerLogs
from kstorm.testing.process import SimulatedProcess
from kstorm.testing.world import SimulatedWorld
from tests.sim.mutant import Mutant, far_handover, gentle, handover, orderly, takeover, untracked

# The acker's checkpoint.


def _offset_before_buckets() -> AbstractContextManager[object]:
    def store(self: AckerEngine, changes: Any, offsets: Any) -> Routine:
        commit = CommitOffsets(
            {tenure.index: offset for tenure, offset in offsets.items()}, waits=True
        )
        self._effects.append(commit)
        yield lambda: commit.answer is not None
        if changes:
            transact = Transact(
                changes, {tenure.index: offset for tenure, offset in offsets.items()}
            )
            self._effects.append(transact)
            yield lambda: transact.answer is not None
            self._effects.append(ApplyToStore(changes, transact.answer or {}))

    return patch.object(AckerEngine, "_store", store)


def _rows_before_news() -> AbstractContextManager[object]:
    return patch.object(InputProgress, "finished", property(lambda self: self.begun))


# Transactions.


def _no_offsets() -> AbstractContextManager[object]:
    make = Transact
    return patch(
        "kstorm.core.engine.checkpoints.Transact", lambda changes, offsets: make(changes, {})
    )


def offsets_first() -> AbstractContextManager[object]:
    """Offsets are sent before the records are written."""
    return patch.object(
        transaction, "REQUEST_ORDER", (Request.OFFSETS, Request.WRITE, Request.COMMIT)
    )


def unstable_offsets() -> AbstractContextManager[object]:
    """A new owner does not wait for offsets in open transactions."""
    return patch.object(BrokerLogs, "is_stable", lambda *_: True)


@contextmanager
def _offsets_before_records() -> Iterator[None]:
    """Both guards are off."""
    with offsets_first(), unstable_offsets():
        yield


@contextmanager
def _offsets_after_the_changelog() -> Iterator[None]:
    """Both guards are off.

    The offset is read after the state is recovered, and open transactions are not awaited.
    """
    read = SimulatedProcess._read

    def late(self: Any, task: int) -> None:
        read(self, task)
        if isinstance(self.engine, BoltEngine):
            self._position[task] = max(
                self._position[task], self.world.logs.committed(self._place(task))
            )

    with (
        patch.object(SimulatedProcess, "_has_ended", lambda *_: True),
        patch.object(SimulatedProcess, "_read", late),
        unstable_offsets(),
    ):
        yield


def lives_on() -> AbstractContextManager[object]:
    """A process whose tasks were assigned to another stays a member."""
    return patch.object(Engine, "lost", lambda *_: [])


@contextmanager
def _no_namesakes() -> Iterator[None]:
    """Both guards are off.

    Neither the group nor the transaction coordinator checks which process with a name is the
    newest.
    """
    refusal = ConsumerGroup.refusal

    def blind(self: ConsumerGroup, member: GroupMember, generation: int) -> str:
        refused = refusal(self, member, generation)
        return "" if refused == FENCED else refused

    with (
        patch.object(ConsumerGroup, "refusal", blind),
        patch.object(BrokerLogs, "newest", lambda *_: True),
    ):
        yield


def _any_topic() -> AbstractContextManager[object]:
    distrust = recovery._distrust

    def trusting(copy: Any, log: Any, now: float) -> str:
        return "" if copy is None else distrust(copy._replace(topic=log.topic), log, now)

    return patch.object(recovery, "_distrust", trusting)


# The bolt's checkpoint.


def _state_last() -> AbstractContextManager[object]:
    def end_poll(self: Checkpoints, unit: Unit) -> None:
        self.send(unit, self._engine.outbox.drain_acks())
        unit.close()

    return patch.object(Checkpoints, "end_poll", end_poll)


def _offset_of_all_that_was_executed() -> AbstractContextManager[object]:
    return patch.object(InputProgress, "arrived", property(lambda self: self.begun))


def _offset_of_all_that_was_polled() -> AbstractContextManager[object]:
    return patch.object(InputProgress, "finished", property(lambda self: self.begun))


# Tasks that come and go.


def _revoked_unseen() -> AbstractContextManager[object]:
    revoked = Engine.revoked

    def blind(self: Engine[Any], tasks: Any, now: float) -> list[Effect]:
        opening = [
            task
            for task in tasks
            if task in self.tenures and self.tenures[task].phase is Phase.OPENING
        ]
        left = revoked(self, [task for task in tasks if task not in opening], now)
        return [*left, *map(Release, opening)]

    return patch.object(Engine, "revoked", blind)


@contextmanager
def _executes_on() -> Iterator[None]:
    work = BoltEngine._work

    def on(self: BoltEngine, share: Any, poll: Any) -> Steps:
        leaving = [tenure for tenure, _ in share if tenure.leaving]
        for tenure in leaving:
            tenure.leaving = False
        yield from work(self, share, poll)
        for tenure in leaving:
            tenure.leaving = True

    with (
        patch.object(
            TaskTenure, "works", property(lambda self: self.phase in (Phase.WORKING, Phase.CLOSING))
        ),
        patch.object(BoltEngine, "_work", on),
    ):
        yield


def _leaves_uncommitted() -> AbstractContextManager[object]:
    def let_go(self: Checkpoints, tenure: Any) -> Routine:
        unit: Any = None
        yield from self._engine._run(lambda: self._engine._cleanup(tenure, unit))
        if self._engine.stateful:
            yield from self._checkpoint()

    return patch.object(Checkpoints, "let_go", let_go)


def earlier_tenures() -> AbstractContextManager[object]:
    """Records fetched in an earlier tenure of a task are executed."""
    begin = BoltEngine.begin_poll

    def by_number(self: BoltEngine, poll: Any) -> Any:
        poll.frames = {
            self.tenures.get(tenure.index, tenure): frames for tenure, frames in poll.frames.items()
        }
        return begin(self, poll)

    return patch.object(BoltEngine, "begin_poll", by_number)


def _no_drain() -> AbstractContextManager[object]:
    def let_go(self: SpoutSends, tenure: Any) -> Routine:
        yield from self._engine._run(tenure.task.deactivate)
        yield from self._engine._run(lambda: self._engine._close(tenure.task))
        self._engine._flush(Unit())

    return patch.object(SpoutSends, "let_go", let_go)


def _no_next_turn() -> AbstractContextManager[object]:
    end = SpoutEngine._end_turn

    def last(self: SpoutEngine, before: int, began: float) -> None:
        end(self, before, began)
        if self.rest:
            self.next_turn = inf

    return patch.object(SpoutEngine, "_end_turn", last)


def engine_mutants() -> list[Mutant]:
    """Every rule of the engine, by topic."""
    return [
        Mutant("acker: the buckets are stored before the offset", _offset_before_buckets),
        Mutant(
            "acker: rows are stored only after their completions have arrived",
            _rows_before_news,
            gentle,
        ),
        Mutant(
            "fence: a zombie's checkpoint is refused",
            lambda: patch.object(SimulatedWorld, "fence", False),
            handover,
        ),
        Mutant("fence: a process exits once another process has its tasks", lives_on, handover),
        Mutant(
            "fence: the predecessor of a namesake is refused, by the group or as a producer (either would do)",
            _no_namesakes,
            handover,
        ),
        Mutant(
            "fence: every transaction contains the offsets of its tasks, from their assignment on",
            _no_offsets,
            handover,
        ),
        Mutant(
            "transaction: records arrive before offsets are added, or stable offsets are read (either would do)",
            _offsets_before_records,
            far_handover,
            within=12_000,
        ),
        Mutant(
            "takeover: offsets are read before the changelog, or its open transactions end first (either would do)",
            _offsets_after_the_changelog,
            takeover,
        ),
        Mutant("recovery: a copy of another topic is emptied", _any_topic, within=6000),
        Mutant(
            "bolt: the state is stored before the acks or the offset (either would do)", _state_last
        ),
        Mutant(
            "bolt: a checkpoint's offset includes only tuples whose results have arrived",
            _offset_of_all_that_was_executed,
            untracked,
        ),
        Mutant(
            "bolt: a committed offset includes only tuples whose results have arrived",
            _offset_of_all_that_was_polled,
            untracked,
        ),
        Mutant("task: a task that is revoked during its recovery never starts", _revoked_unseen),
        Mutant("task: a leaving task executes nothing more", _executes_on, orderly),
        Mutant("task: a leaving task commits its executed input", _leaves_uncommitted, orderly),
        Mutant("task: records of an earlier tenure are not executed", earlier_tenures, orderly),
        Mutant("spout: its open trees may end before the task is released", _no_drain, gentle),
        Mutant("spout: a turn without a tuple is followed by another", _no_next_turn),
        Mutant(
            "intake: finished input makes room",
            lambda: patch.object(Intake, "_finish", lambda *_: None),
        ),
    ]
