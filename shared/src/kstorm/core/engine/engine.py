"""What the three kinds of engine share: tasks that come and go, the user's code one job at a time, dead letters.

Longer procedures (taking on a task, a checkpoint, letting go of a task) are *routines*: generators that yield what they wait
for, a condition, and go on after the event that fulfils it. So each reads from top to bottom, and every event is one call.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from math import inf
from typing import Generic

from msgspec.structs import replace

from kstorm.core.dead_letters import (
    STRANGER,
    UNDECODABLE,
    DeadLetter,
    LetterError,
    LetterToStore,
    Postmark,
    encode_letter,
    key_of,
)
from kstorm.core.engine.effects import (
    Abandon,
    Close,
    Commit,
    Effect,
    End,
    Fetch,
    Open,
    Ready,
    Release,
    Run,
    Send,
    Transact,
)
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.slot import Phase, Record, Slot, T
from kstorm.core.engine.units import Progress, Unit
from kstorm.core.extent import most_frame_bytes
from kstorm.core.outgoing import Outgoing
from kstorm.core.tasks import Steps
from kstorm.core.wire import F, decode
from kstorm.errors import FrameError, TasksLostError, TopologyError
from kstorm.texts import readable
from kstorm.topology import Topology

Routine = Generator[Callable[[], bool], None, None]
"""A procedure of several events. It is resumed when what it yielded returns True."""

Item = Sequence[tuple[Slot[T], Sequence[Record]]]
"""What one poll brought, by task."""

SETTLE_SECS = 10.0
"""How long a task that leaves waits for what it sent to arrive."""


class Job:
    """Pieces of the user's code that run side by side, and what comes after the last of them. One job runs at a time."""

    __slots__ = ("left", "on_end", "runs")

    def __init__(self, runs: Callable[[], Sequence[Steps]], on_end: Callable[[], None]) -> None:
        """`runs` is asked when the job's turn has come."""
        self.runs, self.on_end, self.left = runs, on_end, 0


class Engine(Generic[T]):
    """One process's share of a component. Every event returns the effects to carry out; `now` is seconds of one steady clock."""

    topic: str
    """The input topic; task i reads its partition i."""
    due = inf
    """When the next `tick` is wanted at the latest, for whoever ticks less often."""

    def __init__(self, topology: Topology, component: str, journal: Journal) -> None:
        self.topology, self.component, self.journal = topology, component, journal
        self._longest_frame = most_frame_bytes(
            max(spec.config.topology_frame_max_bytes for spec in topology.components.values())
        )
        self.slots: dict[int, Slot[T]] = {}
        """By task index: every task that this process has taken on and not released."""
        self.now = 0.0
        self.dead_letters = self.frames_in = 0
        self.on_dropped: Callable[[Slot[T]], None] = lambda slot: None
        """Called when a task has ended, for whoever counts."""
        self.postmark: Callable[[], Postmark] = Postmark
        """What the process puts on a dead letter that leaves."""
        self._effects: list[Effect] = []
        self._routines: list[tuple[Routine, Callable[[], bool]]] = []
        self._job: Job | None = None
        self._jobs: deque[Job] = deque()

    # Events.

    def assigned(self, committed: Mapping[int, int], now: float) -> list[Effect]:
        """The group gave this process tasks, whose input is read from these offsets."""
        self.now = now
        for index, offset in committed.items():
            slot = self.slots[index] = Slot(index, Progress(offset))
            self._start(self._take_on(slot))
        return self._turn()

    def opened(self, task: int, refused: Iterable[tuple[Record, str]], now: float) -> list[Effect]:
        """What a task stands on is ready; `refused` are records of its changelog that nothing of ours can have written."""
        self.now = now
        unit = Unit()
        for record, reason in refused:
            self._dead_letter(record, reason, unit, self.changelog, task)
        unit.close()
        self.slots[task].phase = Phase.PREPARING
        return self._turn()

    def polled(self, item: Item[T], unit: Unit, now: float) -> list[Effect]:
        """Records came. `unit` is done when all that they cause has arrived; records of a task that has to go are left."""
        raise NotImplementedError

    def ran(self, _run: Run, now: float) -> list[Effect]:
        """A piece of the user's code ended."""
        self.now = now
        job = self._job
        assert job is not None
        job.left -= 1
        if not job.left:
            self._job = None
            job.on_end()
        return self._turn()

    def confirmed(self, now: float) -> list[Effect]:
        """The broker has confirmed some sends."""
        self.now = now
        return self._turn() if self._routines else []

    def committed(
        self, effect: Transact | Commit, reached: Mapping[int, int], now: float
    ) -> list[Effect]:
        """A `Transact`, or a `Commit` that waits, is answered; `reached` is the changelog's offset by task."""
        self.now = now
        effect.answer = reached
        return self._turn()

    def refused(self, effect: Transact, refused: Mapping[int, str], now: float) -> list[Effect]:
        """A `Transact` was taken back: some records of sinks are refused for good, by their number, with the reason."""
        self.now = now
        effect.refused = refused
        return self._turn()

    def fetched(self, effect: Fetch, records: Sequence[Record], now: float) -> list[Effect]:
        """The records that a `Fetch` asked for, as far as the log has them."""
        self.now = now
        effect.answer = records
        return self._turn()

    def tick(self, now: float) -> list[Effect]:
        """Time has passed. Called every few milliseconds."""
        raise NotImplementedError

    def revoked(self, tasks: Iterable[int], now: float) -> list[Effect]:
        """The group wants tasks back. Each is let go of with a `Release`."""
        self.now = now
        for slot in [self.slots[task] for task in tasks if task in self.slots]:
            if slot.leaving:
                continue
            slot.leaving = True
            if slot.phase is Phase.OPENING:
                self._effects.append(Abandon(slot.index))
            self._start(self._leave(slot))
        return self._turn()

    def lost(self, tasks: Iterable[int], now: float) -> list[Effect]:
        """Another process may have these tasks already: nothing of them may be written or committed."""
        self.now = now
        why = f"its tasks {sorted(tasks)} may be another process's by now"
        return [
            End(
                TasksLostError(
                    f"this process was paused, or cut off from its group, for longer than its session: {why}"
                )
            )
        ]

    @property
    def tasks(self) -> list[T]:
        """The tasks that are at work or being let go of."""
        return [slot.task for slot in self.slots.values() if slot.alive]

    @property
    def busy(self) -> bool:
        """Whether any of the user's code is running."""
        return self._job is not None

    @property
    def sent(self) -> Mapping[tuple[str, str], int]:
        """By stream and topic, how many tuples were sent; an acker sends none."""
        return {}

    @property
    def held_back(self) -> bool:
        """Whether nothing more is begun before something is written."""
        return False

    # What each kind defines.

    def sends_as(self, instance: str) -> None:
        """Says under which name this process sends."""

    def pace(self, every: int) -> None:
        """A pause is to be offered after so many tuples."""

    changelog = ""
    """The topic of what its tasks keep; empty for a kind that keeps nothing."""

    def make_task(self, slot: Slot[T]) -> Steps:
        """Makes the task and prepares its component."""
        raise NotImplementedError

    def resume(self, slot: Slot[T]) -> Routine:
        """Does what a former owner of the task has left to be done."""
        yield from ()

    def let_go(self, slot: Slot[T]) -> Routine:
        """Ends a task in an orderly way: what must be stored and sent is, or its time is up."""
        raise NotImplementedError

    def drop(self, slot: Slot[T]) -> None:
        """A task is gone: forget what is kept of it elsewhere."""

    # Tasks.

    def _take_on(self, slot: Slot[T]) -> Routine:
        """Takes on a task:
        1. what it stands on is opened and recovered;
        2. its component is made and prepared, unless it has to leave by now;
        3. its records are wanted.
        """
        self._effects.append(Open(slot.index))  # 1
        yield lambda: slot.phase is not Phase.OPENING
        if slot.leaving:
            slot.phase = Phase.GONE
            return
        yield from self._run(lambda: self.make_task(slot))  # 2
        yield from self.resume(slot)
        slot.phase = Phase.WORKING  # 3
        self._effects.append(Ready(slot.index))

    def _leave(self, slot: Slot[T]) -> Routine:
        """Lets go of a task:
        1. whatever is being done for it ends: its recovery, its preparation, its execution;
        2. it ends in the way of its kind;
        3. what it stood on is closed, and another process may have it.
        """
        yield lambda: slot.phase in (Phase.WORKING, Phase.GONE)  # 1
        if slot.phase is Phase.WORKING:
            yield from self.let_go(slot)  # 2
            slot.phase = Phase.GONE
            self.on_dropped(slot)
            self.drop(slot)
        del self.slots[slot.index]  # 3
        self._effects += [Close(slot.index), Release(slot.index)]

    # Jobs and routines.

    def _enqueue(self, runs: Callable[[], Sequence[Steps]], on_end: Callable[[], None]) -> None:
        self._jobs.append(Job(runs, on_end))

    def _run(self, steps: Callable[[], Steps]) -> Routine:
        """Runs the user's code as a job of its own, and waits for its end."""
        yield from self._in_turn(lambda: [steps()])

    def _in_turn(self, runs: Callable[[], Sequence[Steps]]) -> Routine:
        """Waits for the end of a job among the others; one without runs is a moment between two of them."""
        ended: list[bool] = []
        self._enqueue(runs, lambda: ended.append(True))
        yield lambda: bool(ended)

    def _begin_job(self) -> bool:
        """Begins the next job, if none is running; whether anything was done."""
        if self._job is not None or not self._jobs:
            return False
        job = self._jobs.popleft()
        runs = job.runs()
        if runs:
            self._job, job.left = job, len(runs)
            self._effects += map(Run, runs)
        else:
            job.on_end()
        return True

    def _start(self, routine: Routine) -> None:
        """Starts a routine; it runs until the first thing that it waits for."""
        self._go_on(routine)

    def _go_on(self, routine: Routine) -> None:
        condition = next(routine, None)
        if condition is not None:
            self._routines.append((routine, condition))

    def _turn(self) -> list[Effect]:
        """Goes on with whatever can go on, and returns what is to be done."""
        moved = bool(self._jobs or self._routines)
        while moved:
            moved = self._begin_job()
            for entry in self._routines[:]:
                routine, condition = entry
                if condition():
                    self._routines.remove(entry)
                    self._go_on(routine)
                    moved = True
        effects, self._effects = self._effects, []
        return effects

    # Sends.

    def _send(self, unit: Unit, records: Sequence[Outgoing]) -> None:
        if records:
            unit.add(len(records))
            self._effects.append(Send(unit, records))

    def _frame(self, kind: type[F], record: Record) -> F:
        """What a record holds; raises `FrameError` saying why it is no frame."""
        if record.undecodable:
            raise FrameError(record.undecodable)
        if record.value is not None and len(record.value) > self._longest_frame:
            raise FrameError(
                f"{len(record.value):,} bytes are too many for a frame: the longest that is read here has {self._longest_frame:,}, "
                "which topology_frame_max_bytes raises"
            )
        return decode(kind, record.value)

    def _dead_letter(
        self, record: Record, reason: str, unit: Unit, topic: str, partition: int
    ) -> None:
        """Puts a record of an internal topic that cannot be used into the dead letters."""
        letter = DeadLetter(
            topology=self.topology.name,
            component=self.component,
            task=0,
            reason=reason,
            topic=topic,
            partition=partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            kind=UNDECODABLE if record.undecodable else STRANGER,
        )
        self._store_letter(LetterToStore(letter), unit)

    def _store_letter(self, to_store: LetterToStore, unit: Unit) -> None:
        """Sends a dead letter; `unit` is done no earlier than the broker has it."""
        unit.add()

        def stored() -> None:
            if to_store.on_stored is not None:
                to_store.on_stored()
            unit.delivered()

        inner = Unit(stored)
        self._send(inner, [self._written(to_store.letter)])
        inner.close()

    def _written(self, letter: DeadLetter) -> Outgoing:
        """The record of a dead letter, which is counted and logged."""
        self.dead_letters += 1
        self.journal.warning(
            "dead_letter",
            reason=readable(letter.reason),
            topic=letter.topic,
            partition=letter.partition,
            offset=letter.offset,
        )
        mark = self.postmark()
        letter = replace(letter, at=mark.at, version=mark.version, error=self._located(letter))
        key = key_of(letter, mark.unique or str(self.dead_letters))
        return Outgoing(self.topology.dead_letters_topic, 0, encode_letter(letter), key)

    def _located(self, letter: DeadLetter) -> LetterError | None:
        """The letter's error with the component whose task it names; without a task it is the letter's own."""
        error = letter.error
        if error is None or error.component:
            return error
        if not error.task:
            return replace(error, component=letter.component, task=letter.task)
        try:
            component, _ = self.topology.locate_task(error.task)
        except TopologyError:  # a stranger said it
            return error
        return replace(error, component=component)
