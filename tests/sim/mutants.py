"""The rules that the guarantee depends on, each with a way to switch it off.

This shows that the simulation notices their absence. The rules of the ledger, the spouts, their
offsets and ZooKeeper are here, those of the engine in `tests.sim.engine_mutants`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kazoo.exceptions import NoNodeError

from kstorm.core import ledger
from kstorm.core.ledger import BUCKETS, Ledger
from kstorm.core.spout_collector import SpoutCollector
from kstorm.core.spout_task import SpoutTask
from kstorm.kafka.message_id import KafkaMessageId
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import Ownership
from kstorm.runtime.zookeeper.lease import NOTHING, Lease
from tests.sim.at_most_once import explore_at_most_once
from tests.sim.engine_mutants import engine_mutants
from tests.sim.finished_mutants import finished_mutants
from tests.sim.leases import explore_leases
from tests.sim.ledger_schedules import explore
from tests.sim.mutant import Mutant, crashing, gentle, storm
from tests.sim.user_code_mutants import user_code_mutants
from tests.sim.zookeeper import SimulatedZooKeeper

# The ledger.


def _init_counts_each_time() -> AbstractContextManager[object]:
    apply_inits = Ledger._apply_inits

    def forgetful(self: Ledger, task: int, pairs: Iterable[tuple[int, int]]) -> None:
        inits = list(pairs)
        for root, _ in inits:
            rows = self._buckets[root % BUCKETS]
            if root in rows:
                rows[root] &= ~ledger._INIT
        apply_inits(self, task, inits)

    return patch.object(Ledger, "_apply_inits", forgetful)


def _replays_are_applied_again() -> AbstractContextManager[object]:
    restore = Ledger.restore

    def forgetful(self: Ledger, stored: Iterable[tuple[bytes, bytes]]) -> None:
        restore(self, stored)
        self._stamps = [-1] * BUCKETS
        self._replay_until = -1

    return patch.object(Ledger, "restore", forgetful)


@contextmanager
def _neither_of_both() -> Iterator[None]:
    with _init_counts_each_time(), _replays_are_applied_again():
        yield


def _stamp_of_the_replay() -> AbstractContextManager[object]:
    checkpoint = Ledger.checkpoint

    def careless(self: Ledger) -> dict[bytes, bytes]:
        stamps, self._stamps = self._stamps, [-1] * BUCKETS
        try:
            return checkpoint(self)
        finally:
            self._stamps = stamps

    return patch.object(Ledger, "checkpoint", careless)


def _early_fail_is_forgotten() -> AbstractContextManager[object]:
    apply_fails = Ledger._apply_fails

    def only_known(self: Ledger, roots: Iterable[int]) -> None:
        apply_fails(self, [root for root in roots if root in self._buckets[root % BUCKETS]])

    return patch.object(Ledger, "_apply_fails", only_known)


def _same_root_again() -> AbstractContextManager[object]:
    emit = SpoutCollector.emit
    roots: dict[Any, int] = {}

    def one_root_a_message(
        self: Any, values: Sequence[Any], message_id: Any = None, *rest: Any, **more: Any
    ) -> Any:
        if not isinstance(message_id, tuple):
            return emit(self, values, message_id, *rest, **more)
        draw = self._next_id
        first = [roots.setdefault((id(self._task.topology), message_id[0]), draw())]
        self._next_id = lambda: first.pop() if first else draw()
        try:
            return emit(self, values, message_id, *rest, **more)
        finally:
            self._next_id = draw

    return patch.object(SpoutCollector, "emit", one_root_a_message)


# The spout.


def _news_is_believed_twice() -> AbstractContextManager[object]:
    def peek(self: SpoutTask, root: int) -> Any:
        return next((bucket[root] for bucket in self._pending._buckets if root in bucket), None)

    return patch.object(SpoutTask, "_pop", peek)


def _attempt_ignored() -> AbstractContextManager[object]:
    ack = PartitionManager.ack

    def trusting(self: PartitionManager, id: KafkaMessageId) -> None:
        pending = self._pending.get(id.offset)
        attempt = id.attempt if pending is None else pending.attempt
        ack(self, KafkaMessageId(id.partition, id.offset, id.epoch, attempt))

    return patch.object(PartitionManager, "ack", trusting)


def _letter_not_awaited() -> AbstractContextManager[object]:
    give_up = PartitionManager._give_up

    def hasty(self: PartitionManager, pending: Any, offset: int, reason: str, cause: Any) -> None:
        give_up(self, pending, offset, reason, cause)
        self._finish(offset)

    return patch.object(PartitionManager, "_give_up", hasty)


def _no_retry_at_the_limit() -> AbstractContextManager[object]:
    retry = PartitionManager.retry
    return patch.object(
        PartitionManager, "retry", lambda self, now: not self.at_limit and retry(self, now)
    )


def _emitted_before_it_is_stored() -> AbstractContextManager[object]:
    grant = PartitionManager.grant
    return patch.object(PartitionManager, "grant", lambda self, stored: grant(self, self.claimed))


# The lock and the versions in ZooKeeper.


def _resumed_unseen() -> AbstractContextManager[object]:
    def trusting(self: Lease, client: Any) -> Ownership:
        if not self._lock(client):
            return Ownership.WAITING
        self._remember(self.data, client.get(self.path)[1])
        return Ownership.HELD

    return patch.object(Lease, "_resume", trusting)


def _taken_without_a_write() -> AbstractContextManager[object]:
    def reading(self: Lease, client: Any) -> Ownership:
        if not self._lock(client):
            return Ownership.WAITING
        try:
            self._remember(*client.get(self.path))
        except NoNodeError:
            client.create(self.path, NOTHING)
            return reading(self, client)
        self._taken = True
        return Ownership.HELD

    return patch.object(Lease, "_take_over", reading)


def _lost_answers_mean_fenced() -> AbstractContextManager[object]:
    return patch.object(Lease, "_wrote", lambda *_: False)


def _own_writes_known_by_content() -> AbstractContextManager[object]:
    return patch.object(Lease, "_wrote", lambda self, found, stat: found in self._unsure)


def _writes_again() -> AbstractContextManager[object]:
    write = Lease._write

    def again(self: Lease, client: Any, data: bytes) -> Ownership:
        self._unsure.add(data)
        return write(self, client, data)

    return patch.object(Lease, "_write", again)


def mutants() -> list[Mutant]:
    """Every rule, by topic."""
    return [
        Mutant("ledger: init counts once", _init_counts_each_time),
        Mutant(
            "ledger: a bucket skips the records that it includes",
            _replays_are_applied_again,
            gentle,
        ),
        Mutant("ledger: both of these rules (without them, a naive ledger)", _neither_of_both),
        Mutant(
            "ledger: a bucket's stamp never goes back during replay", _stamp_of_the_replay, crashing
        ),
        Mutant("ledger: a fail may come before its init", _early_fail_is_forgotten, explore),
        Mutant(
            "ledger: rows outlive the longest timeout of a spout",
            lambda: patch.object(ledger, "_LIFE", 1),
            explore,
        ),
        Mutant("ledger: rows expire", lambda: patch.object(Ledger, "rotate", lambda self: None)),
        Mutant("spout: a new attempt is a new root", _same_root_again),
        Mutant(
            "spout: its clock fails trees that take too long",
            lambda: patch.object(SpoutTask, "tick", lambda *_: iter(())),
        ),
        Mutant("spout: each tree ends once", _news_is_believed_twice),
        Mutant(
            "offsets: an offset never passes the oldest unfinished message",
            lambda: patch.object(
                PartitionManager,
                "last_completed_offset",
                property(lambda manager: manager.next_offset),
            ),
        ),
        Mutant("offsets: a tree counts for its attempt only", _attempt_ignored, storm),
        Mutant(
            "offsets: a dead letter is stored before the offset passes its message",
            _letter_not_awaited,
        ),
        Mutant(
            "offsets: retries are emitted at the limit of uncommitted ones", _no_retry_at_the_limit
        ),
        Mutant(
            "at most once: a message is stored before it is emitted",
            _emitted_before_it_is_stored,
            explore_at_most_once,
        ),
        Mutant(
            "at most once: claimed messages that were not emitted are given back",
            lambda: patch.object(PartitionManager, "give_back", lambda _: None),
            explore_at_most_once,
        ),
        Mutant(
            "ZooKeeper: writes name the version",
            lambda: patch.object(SimulatedZooKeeper, "versioned", False),
            explore_leases,
        ),
        Mutant(
            "ZooKeeper: the new holder of a lock writes the node",
            _taken_without_a_write,
            explore_leases,
        ),
        Mutant(
            "ZooKeeper: one lock has one holder",
            lambda: patch.object(Lease, "_lock", lambda *_: True),
            explore_leases,
        ),
        Mutant(
            "ZooKeeper: a holder that gets its lock back checks for other holders in between",
            _resumed_unseen,
            explore_leases,
        ),
        Mutant(
            "ZooKeeper: a write is recognised although its response was lost",
            _lost_answers_mean_fenced,
            explore_leases,
        ),
        Mutant(
            "ZooKeeper: such a write is recognised by its version too",
            _own_writes_known_by_content,
            explore_leases,
        ),
        Mutant(
            "ZooKeeper: a release that is repeated does not repeat the last write",
            _writes_again,
            explore_leases,
        ),
        Mutant(
            "ZooKeeper: a lock is taken from a former process of the same name only",
            lambda: patch.object(Lease, "_is_predecessors", lambda *_: True),
            explore_leases,
        ),
        *finished_mutants(),
        *user_code_mutants(),
        *engine_mutants(),
    ]
