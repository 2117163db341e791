"""Epochs: all work of a process since the last cut, which is written later in one short
transaction.

The sends of every unit of work stay in memory. A cut happens between two executions. It turns all
of this into one value: frames, records of sinks, dead letters, acks, state changes, unfinished
tuples and input offsets. The value is written while the next epoch is executed, and it never
changes. If Kafka refuses it, the driver writes the same value again, without executing anything
again. So each effect of a task happens once or not at all. A reader of committed records sees an
execution without any failure.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from msgspec.structs import replace

from kstorm.core.dead_letters import (
    REFUSED,
    TOO_LARGE,
    DeadLetter,
    LetterToStore,
    roots_of,
    text_of,
)
from kstorm.core.engine.effects import ApplyToStore, Changes, Effect, Positions, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.leaving import Leaving
from kstorm.core.engine.tenure import Phase, T, TaskTenure
from kstorm.core.engine.units import Unit
from kstorm.core.outgoing import EpochRecords, OutgoingRecord, Part
from kstorm.core.tuple_sends import OversizedTuple
from kstorm.errors import BrokerError
from kstorm.topology.event_time import Mark

MOST_UNITS = 64
"""An epoch is cut early after this number of units of work, which limits its memory."""
MOST_BYTES = 16 * 1024 * 1024
"""An epoch is cut early after this number of input bytes, because its output must be written before
the transaction times out."""


class Epochs(Leaving[T]):
    """The policy of exactly-once processing: sends wait for the next epoch."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.epochs = 0
        """Committed epochs."""
        self.interval: float = engine.topology.config.topology_epoch_interval_ms / 1000
        self.units: list[Unit] = []
        """Units of work that wait for the next epoch."""
        self.bytes = 0  # input executed since the last cut
        self._next_cut = 0.0
        self._writing = False
        self._cuts = 0
        self._records: list[Part] = []
        self._sent: list[tuple[Unit, int]] = []
        self._hurry = 0  # routines that wait for the end of an epoch

    # Defined by each kind of engine.

    def has_news(self) -> bool:
        """Return True if an epoch cut now would contain anything besides sends."""
        raise NotImplementedError

    def cut(self) -> tuple[Changes, Mapping[int, int], Positions]:
        """Return the tasks' changes, their input offsets and their positions in a source."""
        raise NotImplementedError

    def interval_from_now(self) -> float:
        """Return the seconds from this cut to the next."""
        return self.interval

    def before_cut(self) -> Routine:
        """Run user code before a cut."""
        yield from ()

    def before_records(self) -> None:
        """Called at a cut, when the tuples that do not fit into a record are known."""

    def after_commit(self, transact: Transact) -> Routine:
        """Called when an epoch is committed and its changes are in the local copy."""
        yield from ()

    # The epoch.

    def send(self, unit: Unit, records: Sequence[Part]) -> None:
        if records:
            unit.add(len(records))
            self._records += records
            self._sent.append((unit, len(records)))

    def flush(self, unit: Unit) -> None:
        """Keep a unit open until the epoch that contains its emits and acks is committed."""
        unit.add()
        self.units.append(unit)

    def before_turn(self) -> None:
        """Cut an epoch if one is due, between two executions."""
        engine = self._engine
        if engine._job is None and not self._writing and self.is_cut_due:
            engine._go_on(self._epoch())

    def checkpoint(self, now: float) -> list[Effect]:
        """Cut an epoch before it is due."""
        self._next_cut = now
        effects: list[Effect] = self._engine.tick(now)
        return effects

    @property
    def due(self) -> float:
        """Time of the next cut, or infinity if none is possible or necessary."""
        possible = self._engine._job is None and not self._writing and self.has_any
        return self._next_cut if possible else inf

    @property
    def held_back(self) -> bool:
        return len(self.units) >= MOST_UNITS or self.bytes >= MOST_BYTES

    @property
    def is_cut_due(self) -> bool:
        early = self._hurry or self.held_back
        return bool((early or self._engine.now >= self._next_cut) and self.has_any)

    @property
    def has_any(self) -> bool:
        """True if there is anything to write."""
        outbox = self._engine.outbox
        return bool(
            self._records
            or self.units
            or outbox.letters
            or outbox.records
            or self.has_news()
            or (self._engine.time.sends and self._engine.time.is_due)
        )

    def _epoch(self) -> Routine:
        """Write all work since the last epoch, in four steps:
        1. At one moment, take the emits, acks, dead letters, changes, and the offsets of **all**
           tasks, moved or not. Kafka fences a transaction by these offsets.
        2. Commit all of it in one transaction. Kafka refuses it if another process has taken over
           the tasks. If records of sinks are rejected permanently, write the same content again
           with dead letters in their place.
        3. Apply the changes to the local copy, which is never ahead of the changelog.
        4. Finish the units of work. The next epoch may then be cut.

        A crash before the commit leaves no effects, and a crash after it preserves all of them.
        """
        self._writing = True
        yield from self.before_cut()
        self._next_cut = self._engine.now + self.interval_from_now()
        self._cuts += 1
        self._drain()  # 1
        changes, offsets, positions = self.cut()
        self._drain_marks()
        records, sent, units = self._records, self._sent, self.units
        self._records, self._sent, self.units, self.bytes = [], [], [], 0
        transact = Transact(changes, offsets, EpochRecords(records), positions)
        yield from self._written_as(transact)  # 2
        while transact.refused:
            transact = self._with_letters(transact)
            yield from self._written_as(transact)
        if changes:
            self._engine._effects.append(ApplyToStore(changes, transact.answer or {}))  # 3
        yield from self.after_commit(transact)
        for unit, count in sent:  # 4
            unit.delivered(count)
        for unit in units:
            unit.delivered()
        self.epochs += 1
        self._writing = False

    def _written_as(self, transact: Transact) -> Routine:
        self._engine._effects.append(transact)
        yield lambda: transact.answer is not None or bool(transact.refused)

    def _with_letters(self, transact: Transact) -> Transact:
        """Return the same transaction with a dead letter in place of each rejected record.

        Their tuples were acked and stay acked.
        """
        records = list(transact.records)
        kept = [record for number, record in enumerate(records) if number not in transact.refused]
        letters = [
            self._letter_of(records[number], why)
            for number, why in sorted(transact.refused.items())
        ]
        left = [*kept, *map(self._engine.letters.record, letters)]
        first = letters[0]
        told = (
            f"{first.reason}: the record is in the dead letters, with {len(letters) - 1} others "
            "of its epoch"
        )
        self._engine.journal.error(BrokerError(told), "writing", first.task)
        return Transact(transact.changes, transact.offsets, EpochRecords(left), transact.positions)

    def _letter_of(self, record: OutgoingRecord, reason: str) -> DeadLetter:
        return DeadLetter(
            topology=self._engine.topology.name,
            component=self._engine.component,
            task=record.task,
            reason=reason,
            topic=record.topic,
            key=_as_bytes(record.key),
            value=_as_bytes(record.value),
            headers=text_of(record.headers),
            kind=REFUSED,
        )

    def _drain(self) -> None:
        unit = Unit()
        outbox = self._engine.outbox
        tuples = outbox.drain_tuples()
        self._give_up_too_large()
        self.before_records()
        written, outbox.records = outbox.records, []
        self.send(unit, written)
        self.send(unit, tuples)
        self.send(unit, outbox.drain_acks())
        letters, outbox.letters = outbox.letters, []
        for letter in letters:
            self._engine._store_letter(letter, unit)
        unit.close()

    def _drain_marks(self) -> None:
        """Add the watermarks as of this cut, behind all tuples."""
        unit = Unit()
        self.send(unit, self._engine.time.frames_of(self._marks(), at_once=True))
        unit.close()

    def _marks(self) -> dict[int, Mark]:
        """Return the watermarks to write with this epoch."""
        marks: dict[int, Mark] = self._engine.time.marks()
        return marks

    def _give_up_too_large(self) -> None:
        """Turn tuples that do not fit into a record into dead letters.

        Their trees continue without them. Each letter has the coordinates of the input, if the
        tuple has a tree.
        """
        outbox = self._engine.outbox
        if not outbox.too_large:
            return
        tasks = {
            tenure.task.task_id: tenure.task
            for tenure in self._engine.tenures.values()
            if tenure.owned
        }
        inputs = {
            task: tasks[task].inputs_of({root for found in several for root in found.pairs})
            for task, several in _by_task(outbox.too_large).items()
            if task in tasks
        }
        for found in outbox.too_large:
            self._engine.journal.error(
                found.error("it is in the dead letters"), "emitting", found.task
            )
            outbox.go_on_without(found.pairs)
            letter = replace(
                found.letter(self._engine.topology.name),
                kind=TOO_LARGE,
                roots=roots_of(found.pairs),
            )
            if found.task in inputs:
                letter = tasks[found.task].with_input(
                    letter, found.pairs.keys(), inputs[found.task]
                )
            outbox.letters.append(LetterToStore(letter))
        outbox.too_large.clear()

    @property
    def waits_for_checkpoint(self) -> bool:
        """True if anything waits for an epoch."""
        return not self._writing and self.has_any

    def _take_out(self, tenure: TaskTenure[T]) -> Routine:
        """Exclude a task from all further epochs."""
        yield lambda: not self._writing
        tenure.phase = Phase.CLOSING

    def _settle(self) -> Routine:
        """Wait until everything done so far is committed."""
        self._hurry += 1
        yield from self._engine._in_turn(list)
        last = self._cuts + (1 if self.has_any else 0)
        # A watermark may be due now, and not when the epoch is cut, because its task leaves.
        yield lambda: self.epochs >= last or not (self._writing or self.has_any)
        self._hurry -= 1


def _by_task(tuples: Iterable[OversizedTuple]) -> Mapping[int, list[OversizedTuple]]:
    found: dict[int, list[OversizedTuple]] = {}
    for tuple in tuples:
        found.setdefault(tuple.task, []).append(tuple)
    return found


def _as_bytes(data: str | bytes | None) -> bytes | None:
    return data.encode(errors="backslashreplace") if isinstance(data, str) else data
