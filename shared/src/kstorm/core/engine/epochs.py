"""Epochs: what a process did since the last cut, written late, in one short transaction.

What any unit of work sends is kept in memory. At a cut, between two executions, all of it becomes a value: frames, records of
sinks, dead letters, acks, changes of the state, what is not finished, and input offsets. That value is written beside the work on
the next one, and never changes. If it is refused it is written again, by whoever carries it out; nothing is executed again for
it. So each effect of a task happens once or not at all, and whoever reads what is committed sees an execution in which nothing
has failed.
"""

from collections.abc import Mapping, Sequence
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
from kstorm.core.engine.effects import Changes, Effect, Keep, Positions, Transact
from kstorm.core.engine.engine import Routine
from kstorm.core.engine.sending import SendingEngine
from kstorm.core.engine.slot import Phase, Slot, T
from kstorm.core.engine.units import Unit
from kstorm.core.outgoing import EpochRecords, Outgoing, Part
from kstorm.errors import BrokerError
from kstorm.topology import Topology

MOST_UNITS = 64
"""Units of work after which an epoch is cut before its time: the memory that it may take has a bound."""
MOST_BYTES = 16 * 1024 * 1024
"""Bytes of input after which it is, too: what comes of them must be written before the broker gives the transaction up."""


class EpochEngine(SendingEngine[T]):
    """An engine whose sends leave with the next epoch."""

    def __init__(self, topology: Topology, *args: Any, **more: Any) -> None:
        super().__init__(topology, *args, **more)
        self.epochs = 0
        """Those that were committed."""
        self._interval = topology.config.topology_epoch_interval_ms / 1000
        self._next_cut = 0.0
        self._writing = False
        self._cuts = 0
        self._records: list[Part] = []
        self._sent: list[tuple[Unit, int]] = []
        self._units: list[Unit] = []
        self._bytes = 0  # of the input that was executed since the last cut
        self._hurry = 0  # how many routines wait for the end of an epoch

    # What each kind defines.

    def has_news(self) -> bool:
        """Whether an epoch that is cut now would hold anything but what was sent."""
        raise NotImplementedError

    def cut(self) -> tuple[Changes, Mapping[int, int], Positions]:
        """The changes of the tasks, their input offsets and their positions in a source."""
        raise NotImplementedError

    def interval_from_now(self) -> float:
        """Seconds from this cut to the next."""
        return self._interval

    def before_cut(self) -> Routine:
        """What the user's code does before a cut."""
        yield from ()

    def after_commit(self, transact: Transact) -> Routine:
        """An epoch is committed, and its changes are in the local copy."""
        yield from ()

    # The epoch.

    def _send(self, unit: Unit, records: Sequence[Part]) -> None:
        if records:
            unit.add(len(records))
            self._records += records
            self._sent.append((unit, len(records)))

    def _hold(self, unit: Unit) -> None:
        """What a unit has emitted and acked is in the outbox; the unit is done when that is committed."""
        unit.add()
        self._units.append(unit)

    def _turn(self) -> list[Effect]:
        if self._job is None and not self._writing and self._is_due:
            self._start(self._epoch())
        return super()._turn()

    @property
    def due(self) -> float:  # type: ignore[override] # known when it is asked for
        """The next cut, if there will be anything in it and nothing has to end before it."""
        return self._next_cut if self._job is None and not self._writing and self._has_any else inf

    @property
    def held_back(self) -> bool:
        """See `Engine.held_back`."""
        return len(self._units) >= MOST_UNITS or self._bytes >= MOST_BYTES

    @property
    def _is_due(self) -> bool:
        early = self._hurry or self.held_back
        return bool((early or self.now >= self._next_cut) and self._has_any)

    @property
    def _has_any(self) -> bool:
        outbox = self.outbox
        return bool(
            self._records or self._units or outbox.letters or outbox.records or self.has_news()
        )

    def _epoch(self) -> Routine:
        """Writes what was done since the last epoch:
        1. the cut, at one moment: what was emitted, acked and given up, the changes, and the offsets of **all** tasks, moved or
           not, since they are what a transaction is refused by;
        2. all of it is committed in one transaction, which is refused if the tasks are another process's by now; if records of
           sinks are refused for good, the same is written again with dead letters in their places;
        3. the changes go into the local copy, which is never ahead of the changelog;
        4. the units of work are done, and the next epoch may be cut.
        A crash before the commit has done nothing; after it, everything.
        """
        self._writing = True
        yield from self.before_cut()
        self._next_cut = self.now + self.interval_from_now()
        self._cuts += 1
        self._drain()  # 1
        changes, offsets, positions = self.cut()
        records, sent, units = self._records, self._sent, self._units
        self._records, self._sent, self._units, self._bytes = [], [], [], 0
        transact = Transact(changes, offsets, EpochRecords(records), positions)
        yield from self._written_as(transact)  # 2
        while transact.refused:
            transact = self._with_letters(transact)
            yield from self._written_as(transact)
        if changes:
            self._effects.append(Keep(changes, transact.answer or {}))  # 3
        yield from self.after_commit(transact)
        for unit, count in sent:  # 4
            unit.delivered(count)
        for unit in units:
            unit.delivered()
        self.epochs += 1
        self._writing = False

    def _written_as(self, transact: Transact) -> Routine:
        self._effects.append(transact)
        yield lambda: transact.answer is not None or bool(transact.refused)

    def _with_letters(self, transact: Transact) -> Transact:
        """The same without the records that were refused: each is a dead letter now. Their tuples were acked, and stay so."""
        records = list(transact.records)
        kept = [record for number, record in enumerate(records) if number not in transact.refused]
        letters = [
            self._letter_of(records[number], why)
            for number, why in sorted(transact.refused.items())
        ]
        left = [*kept, *map(self._written, letters)]
        first = letters[0]
        told = f"{first.reason}: it is in the dead letters, with {len(letters) - 1} others of its epoch"
        self.journal.error(BrokerError(told), "writing", first.task)
        return Transact(transact.changes, transact.offsets, EpochRecords(left), transact.positions)

    def _letter_of(self, record: Outgoing, reason: str) -> DeadLetter:
        return DeadLetter(
            topology=self.topology.name,
            component=self.component,
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
        outbox = self.outbox
        written, outbox.records = outbox.records, []
        self._send(unit, written)
        self._send(unit, outbox.drain_tuples())
        self._give_up_too_large()
        self._send(unit, outbox.drain_acks())
        letters, outbox.letters = outbox.letters, []
        for letter in letters:
            self._store_letter(letter, unit)
        unit.close()

    def _give_up_too_large(self) -> None:
        """Tuples that no record can hold become dead letters, and their trees go on without them."""
        outbox = self.outbox
        for found in outbox.too_large:
            self.journal.error(found.error("it is in the dead letters"), "emitting", found.task)
            outbox.go_on_without(found.pairs)
            letter = replace(
                found.letter(self.topology.name), kind=TOO_LARGE, roots=roots_of(found.pairs)
            )
            outbox.letters.append(LetterToStore(letter))
        outbox.too_large.clear()

    @property
    def waits_for_checkpoint(self) -> bool:
        """Whether anything waits for an epoch."""
        return not self._writing and self._has_any

    def _take_out(self, slot: Slot[T]) -> Routine:
        """From here on no epoch has a part in a task."""
        yield lambda: not self._writing
        slot.phase = Phase.CLOSING

    def _settle(self) -> Routine:
        """Waits until all that was done so far is committed."""
        self._hurry += 1
        yield from self._in_turn(list)
        last = self._cuts + (1 if self._has_any else 0)
        yield lambda: self.epochs >= last
        self._hurry -= 1


def _as_bytes(data: str | bytes | None) -> bytes | None:
    return data.encode(errors="backslashreplace") if isinstance(data, str) else data
