"""Transactions of checkpoints on a simulated Kafka. Each request is a step, and so is each record's
arrival.

Requests can get lost (`SimulatedWorld.unanswered`). An unanswered request was either carried out, or a copy
of it is still in transit and arrives at any later time. As in Kafka, the copy carries its
producer's epoch and not its transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, isinf
from typing import Any, Protocol

from kstorm.core.engine import Engine
from kstorm.core.engine.effects import Transact
from kstorm.core.engine.transaction import Answer, Request, Transactions
from kstorm.core.outgoing import OutgoingRecord
from kstorm.errors import BrokerError
from kstorm.testing.consumer_group import FENCED, GroupMember
from kstorm.testing.external_topics import AT_COMMIT, PermanentRefusal
from kstorm.testing.logs import Change, TopicPartition, Transaction, TransactionFate
from kstorm.testing.world import SimulatedWorld, position_partition

TRANSACTION_SECS = 15.0
"""Age at which the broker aborts an open transaction. A real broker checks every 10 s for
transactions older than 10 s."""

LATEST_COPY = 300
"""Maximum delay of a request's copy, in steps of others while anything else happens."""

PATIENCE_SECS = 60.0
"""Time for which refused records are retried before the process ends, as in the services."""
_PAUSE_SECS = 0.1


class RefusedError(Exception):
    """Another process has taken the name, or the transaction was ended meanwhile because it took
    too long."""

    what = "transaction timed out"
    """Event to count for a process that is not a zombie."""


class GivenUpError(RefusedError):
    """A record was refused for too long."""

    what = "epoch given up"


class TransactionalProcess(Protocol):
    """The process whose transaction it is."""

    world: SimulatedWorld
    name: str
    component: str
    member: GroupMember
    transactions: Transactions
    epoch: int
    zombie: bool

    @property
    def engine(self) -> Engine[Any]: ...


class SimulatedTransaction:
    """A transaction in progress.

    It is aborted if the group rejects its generation, and begun again with a newer one.
    """

    def __init__(self, process: TransactionalProcess, effect: Transact) -> None:
        self.effect = effect
        self.reached: dict[int, int] = {}
        """Last changelog offset by task."""
        self.refused: dict[int, str] = {}
        """Reasons by number of the records that are refused permanently. The transaction is then
        over."""
        self._process = process
        self._logs, self._world = process.world.logs, process.world
        self._writing = process.transactions.begin()
        self._waiting: list[tuple[TopicPartition, Change | bytes]] = []  # written, but not arrived
        self._transaction: Transaction
        self._refused = ""
        self._generation = 0  # the member's generation when the transaction began
        self._outside = process.world.outside
        self._outward = [out for out in effect.records if self._leaves(out)]
        self._again_at = 0.0
        self._give_up_at = inf

    def _leaves(self, out: OutgoingRecord) -> bool:
        """Return True if a record goes outside the cluster, as the records of a replay's end do."""
        return out.topic == AT_COMMIT or (self._outside is not None and not self._world.stores(out))

    @property
    def _next(self) -> Request | None:
        return self._writing.next

    def can_go_on(self) -> bool:
        """Return True if a step can be taken."""
        if self._next is Request.BEGIN:
            process = self._process
            if self._world.now < self._again_at or not self._logs.may_begin(process.name):
                return False
            return not (
                self._refused and self._world.refusal(process.member, process.member.generation)
            )
        if self._arrives() is not None:
            return True
        if self._next in (Request.FLUSH, Request.COMMIT):
            return not (self._waiting or self._has_to_wait_outside)
        return True

    @property
    def _has_to_wait_outside(self) -> bool:
        return bool(self._outward and self._outside is not None and self._outside.away)

    @property
    def handed_in(self) -> bool:
        """True once its offsets are accepted."""
        return self._next is Request.COMMIT

    def go_on(self) -> bool:
        """Take any possible step. Return True once the transaction is committed. Raises
        `RefusedError`."""
        try:
            arrives = self._arrives()
            blocked = self._next in (Request.FLUSH, Request.COMMIT) and bool(self._waiting)
            if arrives is not None and (blocked or self._world.random.random() < 0.5):
                self._arrived(self._transaction, *self._waiting.pop(arrives))
                return False
            self._make_next()
            # Without lost requests an abort is answered immediately.
            while self._next is Request.ABORT and not self._world.unanswered:
                self._make_next()
        except ValueError as error:  # the transaction was ended meanwhile
            raise RefusedError(str(error)) from None
        return self._next is None

    def _make_next(self) -> None:
        """Make the next request. Kafka may leave it unanswered."""
        request = self._next
        match request:
            case Request.REPLACE:
                self._process.epoch = self._logs.begin_epoch(self._process.name)
            case Request.BEGIN:
                self._begin()
            case Request.WRITE:
                self._write()
            case Request.FLUSH:
                if self._is_refused_outside():
                    if not self.refused:
                        self._writing.answered(Answer.TAKEN_BACK)
                    return
            case Request.OFFSETS | Request.COMMIT | Request.ABORT:
                self._writing.answered(self._ask(request))
                return
        self._writing.answered(Answer.DONE)

    def _begin(self) -> None:
        process = self._process
        self._transaction = self._logs.begin(process.name, process.epoch, self._world.now)
        self._waiting, self._refused = [], ""
        self._generation = process.member.generation
        self.reached.clear()

    def _write(self) -> None:
        self._waiting = [
            (self._place(task), change)
            for task, some in self.effect.changes.items()
            for change in some
        ]
        inward = (out for out in self.effect.records if not self._leaves(out))
        self._waiting += [
            ((out.topic, max(out.partition, 0)), _as_bytes(out.value)) for out in inward
        ]
        for out in self._outward:
            self._write_outward(out)

    def _write_outward(self, out: OutgoingRecord) -> None:
        if out.topic == AT_COMMIT:
            self._logs.take_part(self._transaction, (AT_COMMIT, 0), out.value)
        elif self._outside is not None:
            partition = self._outside.partition(out)
            self._logs.take_part(
                self._transaction,
                (out.topic, partition),
                partial(self._outside.take, out, partition),
            )

    def _ask(self, request: Request) -> Answer:
        """Send a request to a coordinator. The request or its response may get lost."""
        world = self._world
        if not world.unanswered or world.random.random() >= world.unanswered:
            return self._carry_out(request)
        if world.random.random() < 0.5:
            self._carry_out(request)
            world.count("answer lost")
        else:
            world.later(self._late_copy(request), LATEST_COPY)
            world.count("request late")
        return Answer.NONE

    def _carry_out(self, request: Request) -> Answer:
        if request is Request.OFFSETS:
            return self._hand_in()
        fate = TransactionFate.COMMITTED if request is Request.COMMIT else TransactionFate.ABORTED
        if self._transaction.fate is not fate:
            self._logs.end(self._transaction, fate)
        return Answer.DONE

    def _hand_in(self) -> Answer:
        offsets = self._offsets()
        if offsets and (refusal := self._world.refusal(self._process.member, self._generation)):
            self._note_refusal(refusal)
            self._waiting = []
            return Answer.REFUSED
        self._logs.hand_in(self._transaction, offsets)
        return Answer.DONE

    def _offsets(self) -> dict[TopicPartition, int]:
        component = self._process.component
        offsets = {
            (self._process.engine.topic, task): at for task, at in self.effect.offsets.items()
        }
        return offsets | {
            position_partition(component, place): at for place, at in self.effect.positions.items()
        }

    def _late_copy(self, request: Request) -> Callable[[], None]:
        """Return the action of a late copy.

        It applies to the producer's open transaction at that time, if the producer's epoch is still
        the same.
        """
        logs, world, name, epoch = self._logs, self._world, self._process.name, self._process.epoch
        member, generation, offsets = self._process.member, self._generation, self._offsets()

        def come() -> None:
            hit = logs.open_of(name, epoch)
            if hit is None:
                return
            if hit is not self._transaction:
                world.count("late request in another transaction")
            if request is not Request.OFFSETS:
                logs.end(
                    hit,
                    TransactionFate.COMMITTED
                    if request is Request.COMMIT
                    else TransactionFate.ABORTED,
                )
            elif not world.refusal(member, generation):
                logs.hand_in(hit, offsets)

        return come

    def _is_refused_outside(self) -> bool:
        """Return True if it was aborted because one of its records is refused outside."""
        reasons = {}
        for number, out in enumerate(self.effect.records):
            if out.topic != AT_COMMIT and self._outside is not None and self._leaves(out):
                reasons[number] = self._outside.refusal(out)
        found = {number: reason for number, reason in reasons.items() if reason}
        self.refused = {
            number: f"a record for the topic {self.effect.records[number].topic!r} is refused: "
            f"{reason}"
            for number, reason in found.items()
            if isinstance(reason, PermanentRefusal)
        }
        if self.refused:
            self._logs.end(self._transaction, TransactionFate.ABORTED)
            self._world.count("record refused for good")
        elif found:
            number, reason = next(iter(found.items()))
            self._write_again(f"a record for topic {self.effect.records[number].topic!r}: {reason}")
        return bool(found)

    def _write_again(self, reason: str) -> None:
        """Retry the whole transaction after a pause, because it must not lack a record."""
        now, process = self._world.now, self._process
        self._logs.end(self._transaction, TransactionFate.ABORTED)
        self._world.count("record refused")
        self._again_at = now + _PAUSE_SECS
        first = isinf(self._give_up_at)
        self._give_up_at = min(self._give_up_at, now + PATIENCE_SECS)
        error = BrokerError(f"an epoch of {process.component!r} is not written: {reason}")
        if first or now >= self._give_up_at:
            process.engine.journal.error(error, "writing an epoch repeatedly", -1)
        if now >= self._give_up_at:
            raise GivenUpError

    def _note_refusal(self, refusal: str) -> None:
        """Note the refusal, to retry with the group's next generation. Raises `RefusedError` if the
        member is fenced."""
        self._world.count(f"transaction refused: {refusal}")
        if refusal == FENCED:
            self._logs.end(self._transaction, TransactionFate.ABORTED)
            raise RefusedError(refusal)
        if self._process.zombie:
            self._world.count("zombie refused")
        self._refused = refusal

    def _arrives(self) -> int | None:
        """Return the index of the first record whose partition is available."""
        for number, (place, _) in enumerate(self._waiting):
            if place not in self._logs.stalled:
                return number
        return None

    def _arrived(
        self, transaction: Transaction, place: TopicPartition, record: Change | bytes
    ) -> None:
        if isinstance(record, tuple):
            self.reached[place[1]] = self._logs.write(transaction, place, record, self._world.now)
        else:
            self._logs.append_in(transaction, place, record)

    def _place(self, task: int) -> TopicPartition:
        return self._process.engine.changelog, task


def _as_bytes(value: Any) -> bytes:
    found: bytes = value.encode() if isinstance(value, str) else value or b""
    return found
