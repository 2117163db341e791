"""Base of the three engines: assignment of tasks, user code one job at a time, dead letters.

Longer procedures (taking on a task, a checkpoint, releasing a task) are *routines*. A routine is a
generator that yields the condition that it waits for. The engine resumes it after the event that
makes the condition true. So a procedure reads from top to bottom, and every event is one call.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from math import inf
from typing import Generic

from kstorm.core.dead_letters import LetterToStore
from kstorm.core.engine.effects import (
    AbandonOpen,
    Close,
    CommitOffsets,
    Effect,
    FetchRecords,
    Open,
    Release,
    RunUserCode,
    Send,
    StartDelivery,
    Terminate,
    Transact,
)
from kstorm.core.engine.intake import Intake
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.letters import LetterRecords
from kstorm.core.engine.polls import Item, JoinedPolls, measure
from kstorm.core.engine.tenure import InputRecord, Phase, T, TaskTenure
from kstorm.core.engine.units import InputProgress, Unit
from kstorm.core.frame_limits import most_frame_bytes
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.user_code import Steps
from kstorm.core.wire import F, decode
from kstorm.errors import FrameError, TasksLostError
from kstorm.topology import Topology

Routine = Generator[Callable[[], bool], None, None]
"""A procedure that spans several events. It is resumed when the condition that it yielded returns
True."""

SETTLE_SECS = 10.0
"""Longest time that a leaving task waits for its sends to arrive."""


class UserCodeJob:
    """Pieces of user code that run concurrently, and a callback after the last one.

    One job runs at a time.
    """

    __slots__ = ("left", "on_end", "runs")

    def __init__(self, runs: Callable[[], Sequence[Steps]], on_end: Callable[[], None]) -> None:
        """`runs` is called when the job's turn comes."""
        self.runs, self.on_end, self.left = runs, on_end, 0


class Engine(Generic[T]):
    """One process's share of a component.

    Every event returns the effects to carry out. `now` is seconds of one monotonic clock.
    """

    topic: str
    """The input topic. Task i reads partition i."""
    due = inf
    """Time at which the driver has to call `wake`."""

    def __init__(self, topology: Topology, component: str, journal: Journal) -> None:
        self.topology, self.component, self.journal = topology, component, journal
        self._longest_frame = most_frame_bytes(
            max(spec.config.topology_frame_max_bytes for spec in topology.components.values())
        )
        self.tenures: dict[int, TaskTenure[T]] = {}
        """By task index: every task that this process has taken on and not released."""
        self.now = 0.0
        self.frames_in = 0
        self.letters = LetterRecords(topology, component, journal)
        self.on_dropped: Callable[[TaskTenure[T]], None] = lambda tenure: None
        """Called when a task has ended, for metrics."""
        self.intake = Intake()
        """The input that is being processed."""
        self._effects: list[Effect] = []
        self._routines: list[tuple[Routine, Callable[[], bool]]] = []
        self._job: UserCodeJob | None = None
        self._jobs: deque[UserCodeJob] = deque()
        # Polls wait behind all other jobs, so a task that has to leave waits for at most one of them.
        self._polls: deque[UserCodeJob] = deque()
        self._waiting: JoinedPolls[T] | None = None  # the last of them

    # Events.

    def assigned(self, committed: Mapping[int, int], now: float) -> list[Effect]:
        """The group assigned tasks to this process, with the offsets at which to read their input."""
        self.now = now
        for index, offset in committed.items():
            tenure = self.tenures[index] = TaskTenure(index, InputProgress(offset))
            self._go_on(self._take_on(tenure))
        return self._turn()

    def opened(
        self, task: int, refused: Iterable[tuple[InputRecord, str]], now: float
    ) -> list[Effect]:
        """The task's state is recovered.

        `refused` are changelog records that kstorm cannot have written.
        """
        self.now = now
        unit = Unit()
        for record, reason in refused:
            self._dead_letter(record, reason, unit, self.changelog, task)
        unit.close()
        self.tenures[task].phase = Phase.PREPARING
        return self._turn()

    def arrived(self, item: Item[T], now: float) -> list[Effect]:
        """Records arrived. They are executed when the jobs before them have ended, except those of
        leaving tasks.

        They count as input in progress until all their results have arrived.
        """
        self.now = now
        if self._waiting is None or self._waiting.full:
            self._waiting = JoinedPolls()
            self._polls.append(self._job_of(self._waiting))
        records, size = measure(item)
        self._waiting.join(item, records, size, self.intake.take(records, size))
        return self._turn()

    def ran(self, _run: RunUserCode, now: float) -> list[Effect]:
        """A piece of user code ended."""
        self.now = now
        job = self._job
        assert job is not None
        job.left -= 1
        if not job.left:
            self._job = None
            job.on_end()
        return self._turn()

    def confirmed(self, now: float) -> list[Effect]:
        """The broker confirmed some sends."""
        self.now = now
        return self._turn() if self._routines else []

    def committed(
        self, effect: Transact | CommitOffsets, reached: Mapping[int, int], now: float
    ) -> list[Effect]:
        """A `Transact`, or a `CommitOffsets` that waits, has been carried out.

        `reached` is the changelog offset by task.
        """
        self.now = now
        effect.answer = reached
        return self._turn()

    def refused(self, effect: Transact, refused: Mapping[int, str], now: float) -> list[Effect]:
        """A `Transact` was aborted because Kafka permanently rejected records of sinks.

        `refused` maps the index of each rejected record to the reason.
        """
        self.now = now
        effect.refused = refused
        return self._turn()

    def fetched(
        self, effect: FetchRecords, records: Sequence[InputRecord], now: float
    ) -> list[Effect]:
        """A `FetchRecords` was answered with the records that still exist."""
        self.now = now
        effect.answer = records
        return self._turn()

    def tick(self, now: float) -> list[Effect]:
        """Time has passed. Called every few milliseconds."""
        raise NotImplementedError

    def wake(self, now: float) -> list[Effect]:
        """The time `due` has come. `tick` alone would be too late."""
        return self.tick(now)

    def revoked(self, tasks: Iterable[int], now: float) -> list[Effect]:
        """The group revoked tasks. Each one ends with a `Release`."""
        self.now = now
        for tenure in [self.tenures[task] for task in tasks if task in self.tenures]:
            if tenure.leaving:
                continue
            tenure.leaving = True
            if tenure.phase is Phase.OPENING:
                self._effects.append(AbandonOpen(tenure.index))
            self._go_on(self._leave(tenure))
        return self._turn()

    def lost(self, tasks: Iterable[int], now: float) -> list[Effect]:
        """Another process may already have these tasks, so this process must not write anything for
        them."""
        self.now = now
        why = f"another process may have its tasks {', '.join(map(str, sorted(tasks)))}"
        return [
            Terminate(
                TasksLostError(
                    "this process was paused, or cut off from its group, for longer than its "
                    f"session: {why}"
                )
            )
        ]

    @property
    def tasks(self) -> list[T]:
        """Tasks that are working or being released."""
        return [tenure.task for tenure in self.tenures.values() if tenure.alive]

    @property
    def busy(self) -> bool:
        """True while user code is running."""
        return self._job is not None

    @property
    def sent(self) -> Mapping[tuple[str, str], int]:
        """Tuples sent, by stream and topic. An acker sends none."""
        return {}

    @property
    def held_back(self) -> bool:
        """True if no more work may start before something is written."""
        return False

    # Defined by each kind of engine.

    def sends_as(self, instance: str) -> None:
        """Set the instance name for the frames that this process sends."""

    def pace(self, every: int) -> None:
        """Set the number of tuples after which the driver is offered a pause."""

    changelog = ""
    """The topic of its tasks' stored data. Empty for a kind without any."""

    def begin_poll(self, poll: JoinedPolls[T]) -> Sequence[Steps]:
        """Return the runs that execute a poll, or several that were joined."""
        raise NotImplementedError

    def end_poll(self, poll: JoinedPolls[T]) -> None:
        """Send the results of a poll."""
        raise NotImplementedError

    def make_task(self, tenure: TaskTenure[T]) -> Steps:
        """Create the task and prepare its component."""
        raise NotImplementedError

    def resume(self, tenure: TaskTenure[T]) -> Routine:
        """Finish the work that the task's previous owner left."""
        yield from ()

    def let_go(self, tenure: TaskTenure[T]) -> Routine:
        """End a task in order: store and send everything, or give up after a bounded time."""
        raise NotImplementedError

    def drop(self, tenure: TaskTenure[T]) -> None:
        """Forget data of a task that has ended."""

    # Tasks.

    def _take_on(self, tenure: TaskTenure[T]) -> Routine:
        """Take on a task:
        1. Open and recover its input and storage.
        2. Create its component and prepare it, unless the task already has to leave.
        3. Start to deliver its records."""
        self._effects.append(Open(tenure.index))  # 1
        yield lambda: tenure.phase is not Phase.OPENING
        if tenure.leaving:
            tenure.phase = Phase.GONE
            return
        yield from self._run(lambda: self.make_task(tenure))  # 2
        yield from self.resume(tenure)
        tenure.phase = Phase.WORKING  # 3
        self._effects.append(StartDelivery(tenure.index))

    def _leave(self, tenure: TaskTenure[T]) -> Routine:
        """Release a task:
        1. Wait for its recovery, preparation or execution to end.
        2. End the task as its kind requires.
        3. Close its storage. Another process may then take it."""
        yield lambda: tenure.phase in (Phase.WORKING, Phase.GONE)  # 1
        if tenure.phase is Phase.WORKING:
            yield from self.let_go(tenure)  # 2
            tenure.phase = Phase.GONE
            self.on_dropped(tenure)
            self.drop(tenure)
        del self.tenures[tenure.index]  # 3
        self._effects += [Close(tenure.index), Release(tenure.index)]

    # Jobs and routines.

    def _enqueue(self, runs: Callable[[], Sequence[Steps]], on_end: Callable[[], None]) -> None:
        self._jobs.append(UserCodeJob(runs, on_end))

    def _job_of(self, poll: JoinedPolls[T]) -> UserCodeJob:
        def runs() -> Sequence[Steps]:
            if poll is self._waiting:
                self._waiting = None
            return self.begin_poll(poll)

        return UserCodeJob(runs, lambda: self.end_poll(poll))

    def _run(self, steps: Callable[[], Steps]) -> Routine:
        """Run user code as a job of its own, and wait for its end."""
        yield from self._in_turn(lambda: [steps()])

    def _in_turn(self, runs: Callable[[], Sequence[Steps]]) -> Routine:
        """Queue a job and wait for its end. Without runs, wait until no other job is running."""
        ended: list[bool] = []
        self._enqueue(runs, lambda: ended.append(True))
        yield lambda: bool(ended)

    def _begin_job(self) -> bool:
        """Start the next job unless one is running. Returns True if anything was done."""
        if self._job is not None:
            return False
        queue = self._jobs or self._polls
        if not queue:
            return False
        job = queue.popleft()
        runs = job.runs()
        if runs:
            self._job, job.left = job, len(runs)
            self._effects += map(RunUserCode, runs)
        else:
            job.on_end()
        return True

    def _go_on(self, routine: Routine) -> None:
        """Run a routine until the next condition that it waits for."""
        condition = next(routine, None)
        if condition is not None:
            self._routines.append((routine, condition))

    def _turn(self) -> list[Effect]:
        """Advance jobs and routines as far as possible, and return the collected effects."""
        moved = bool(self._jobs or self._polls or self._routines)
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

    def _send(self, unit: Unit, records: Sequence[OutgoingRecord]) -> None:
        if records:
            unit.add(len(records))
            self._effects.append(Send(unit, records))

    def _frame(self, kind: type[F], record: InputRecord) -> F:
        """Decode a record. Raises `FrameError` if it is not a valid frame."""
        if record.undecodable:
            raise FrameError(record.undecodable)
        if record.value is not None and len(record.value) > self._longest_frame:
            raise FrameError(
                f"a frame of {len(record.value):,} bytes is too long: this process reads at most "
                f"{self._longest_frame:,}; to read longer frames, raise topology_frame_max_bytes"
            )
        return decode(kind, record.value)

    def _dead_letter(
        self, record: InputRecord, reason: str, unit: Unit, topic: str, partition: int
    ) -> None:
        """Write an unusable record of an internal topic to the dead letters."""
        letter = self.letters.letter(record, reason, topic, partition)
        self._store_letter(LetterToStore(letter), unit)

    def _store_letter(self, to_store: LetterToStore, unit: Unit) -> None:
        """Send a dead letter. `unit` stays open until the broker has it."""
        unit.add()

        def stored() -> None:
            if to_store.on_stored is not None:
                to_store.on_stored()
            unit.delivered()

        inner = Unit(stored)
        self._send(inner, [self.letters.record(to_store.letter)])
        inner.close()
