"""One process of a simulated cluster: an executor with its tasks, and the records that it has on their way.

A process offers the scheduler the steps that it could take now. Each step is what a real process does without giving
way: execute one frame, drain the outbox, have one record delivered, write one key of a checkpoint. Between any two
steps another process may run, or this one may die; then all that it knew is gone, and what it had sent but not yet
delivered never arrives.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from kstorm.core.dead_letters import DeadLetter, LetterToStore, encode_letter
from kstorm.core.outbox import Outgoing
from kstorm.errors import FencedError, FrameError
from kstorm.testing.disks import Disk
from kstorm.testing.logs import Place
from kstorm.testing.scheduler import Actor, Step
from kstorm.testing.world import World

Released = Callable[[], object]
"""Called when a process has let go of a task."""


class Process(Actor):
    """What processes of every role do: take records, send, checkpoint, take on tasks and let go of them."""

    def __init__(self, world: World, component: str, disk: Disk) -> None:
        super().__init__(world.scheduler)
        self.world, self.component, self.disk = world, component, disk
        self.changed = False
        """Whether anything happened since the outbox was last drained."""
        self.needs_checkpoint = False
        """Whether something may leave only with a checkpoint."""
        self.unsaved = True
        """Whether a checkpoint would store or commit anything that the one before did not."""
        self.zombie = False
        """Whether another process has its tasks, and it does not know it yet."""
        self.background: list[Callable[[], list[Step]]] = []
        """Asked for steps too: what goes on beside the tasks, as on threads of its own."""
        self._inputs: dict[int, tuple[Place, list[bytes]]] = {}
        self._position: dict[int, int] = {}
        self._on_the_way: dict[Place, deque[tuple[bytes, Callable[[], Any] | None]]] = {}
        self._checkpoint: Iterator[None] | None = None
        self._leaving: dict[int, Released] = {}
        self._leaving_with_this: list[int] = []  # the tasks that the checkpoint under way is the last of

    def ready(self) -> list[Step]:
        """The steps that it could take now."""
        position, stalled, leaving = self._position, self.world.logs.stalled, self._leaving
        steps: list[Step] = [
            partial(self._take, task)
            for task, (place, log) in self._inputs.items()
            if position[task] < len(log) and place not in stalled and task not in leaving
        ]
        if self.changed:
            steps.append(self._drain)
        if self._on_the_way:
            if not stalled or not stalled.issuperset(self._on_the_way):
                steps.append(self._deliver_one)
        elif self._checkpoint is not None:
            steps.append(self._go_on_with_checkpoint)
        for more in self.background:
            steps += more()
        return steps

    def begin_checkpoint(self) -> None:
        """Starts a checkpoint, unless one is under way or there is nothing to store; it goes on as steps of the schedule."""
        if self._checkpoint is None and (self.unsaved or self._leaving or self.zombie):
            self.unsaved = False
            self._checkpoint = self.checkpoint()
            self._leaving_with_this = list(self._leaving)
        self.wake()

    def start(self, task: int) -> None:
        """Takes on a task, from what is stored and committed of it."""
        self.unsaved = True
        self.start_task(task)
        self.wake()

    def leave(self, task: int, released: Released) -> None:
        """Lets go of a task in good order: takes nothing more for it, stores what there is, then calls `released`."""
        self._leaving[task] = released
        self.leave_task(task)
        self.changed = True
        self.begin_checkpoint()

    def leaves(self, task: int) -> bool:
        """Whether it is about to let go of a task."""
        return task in self._leaving

    def die(self) -> None:
        """Takes no step ever again."""
        self.dead = True
        self.tally()
        for place, _ in self._inputs.values():
            self.world.logs.unwatch(place, self)

    @property
    def has_tasks(self) -> bool:
        """Whether it runs any task."""
        return bool(self._inputs)

    @property
    def quiet(self) -> bool:
        """Whether nothing is on its way out."""
        return not (self.changed or self._on_the_way or self._checkpoint)

    # What a role adds.

    @abstractmethod
    def start_task(self, task: int) -> None:
        """Makes a task's objects."""

    @abstractmethod
    def leave_task(self, task: int) -> None:
        """The task will take nothing more; what it has is still to be stored."""

    @abstractmethod
    def end_task(self, task: int) -> None:
        """Drops a task's objects."""

    @abstractmethod
    def take(self, task: int, record: bytes, offset: int) -> None:
        """Takes a record of a task's input. Raises `FrameError` if it is none."""

    @abstractmethod
    def drain(self) -> None:
        """Sends what may leave now."""

    @abstractmethod
    def checkpoint(self) -> Iterator[None]:
        """Stores what is to survive a crash. Resumed after each `yield` once all that was sent is delivered."""

    @abstractmethod
    def tick(self) -> None:
        """Time has passed."""

    @abstractmethod
    def close(self) -> None:
        """Ends in good order."""

    def tally(self) -> None:
        """Adds what the tasks have seen of rare things to the world's count."""

    def task_id(self, task: int) -> int:
        """The topology-wide id of a task of this process."""
        return self.world.topology.task_ids(self.component)[task]

    # What a role uses.

    def consume(self, task: int, place: Place) -> None:
        """Reads a partition from its committed offset on."""
        self._inputs[task] = place, self.world.logs.records(place)
        self._position[task] = self.world.logs.committed(place)
        self.world.logs.watch(place, self, self.wake)

    def positions(self) -> list[tuple[Place, int]]:
        """The offsets to commit now, should all before them be done."""
        return [(place, self._position[task]) for task, (place, _) in self._inputs.items()]

    def send(self, records: Iterable[Outgoing]) -> None:
        """Hands records to the producer. They arrive in order within a partition, in any order across partitions."""
        for record in records:
            self._queue((record.topic, record.partition), record.value)

    def send_letters(self, letters: Iterable[LetterToStore]) -> None:
        """Hands dead letters to the producer."""
        for letter in letters:
            place = (self.world.topology.dead_letters_topic, 0)
            self._queue(place, encode_letter(letter.letter), letter.on_stored)

    def store(self, place: Place, key: bytes, value: bytes | None) -> None:
        """Writes one key of a changelog, then of the disk. Raises `FencedError` in a zombie, as Kafka refuses its
        transaction."""
        self._expect_membership()
        self.disk.apply(place, self.world.logs.change(place, key, value), key, value)

    def commit(self, positions: Iterable[tuple[Place, int]]) -> None:
        """Commits input offsets. Raises `FencedError` in a zombie, whose generation of the group is past."""
        self._expect_membership()
        self.world.logs.commit(positions)

    def _expect_membership(self) -> None:
        if self.zombie and self.world.fence:
            self.world.count("zombie refused")
            raise FencedError(f"a zombie of {self.component!r} was refused")

    def _take(self, task: int) -> None:
        place, log = self._inputs[task]
        offset = self._position[task]
        self._position[task] = offset + 1
        self.changed = self.unsaved = True
        try:
            self.take(task, log[offset], offset)
        except FrameError as error:
            letter = DeadLetter(
                topology=self.world.topology.name,
                component=self.component,
                task=self.task_id(task),
                reason=str(error),
                topic=place[0],
                partition=place[1],
                offset=offset,
                value=log[offset],
            )
            self.send_letters([LetterToStore(letter)])

    def _queue(self, place: Place, value: bytes, on_stored: Callable[[], Any] | None = None) -> None:
        queue = self._on_the_way.get(place)
        if queue is None:
            queue = self._on_the_way[place] = deque()
        queue.append((value, on_stored))

    def _drain(self) -> None:
        self.changed = False
        self.drain()

    def _deliver_one(self) -> None:
        world = self.world
        place = world.random.choice([place for place in self._on_the_way if place not in world.logs.stalled])
        queue = self._on_the_way[place]
        if world.reorder and len(queue) > 1 and world.random.random() < world.reorder:
            queue[0], queue[1] = queue[1], queue[0]
            world.count("reordered record")
        value, on_stored = queue.popleft()
        if not queue:
            del self._on_the_way[place]
        world.logs.append(place, value)
        if world.duplicate and world.random.random() < world.duplicate:
            world.logs.append(place, value)
            world.count("duplicate record")
        if on_stored is not None:
            on_stored()

    def _go_on_with_checkpoint(self) -> None:
        try:
            if self._checkpoint is None or next(self._checkpoint, _DONE) is not _DONE:
                return
        except FencedError:
            self._checkpoint = None
            self.die()
            return
        self._checkpoint = None
        if self.zombie:  # by now the group has told it, if nobody else
            self.die()
            return
        for task in self._leaving_with_this:
            self._let_go(task)
        if self._leaving:  # they were told to leave while that checkpoint was under way
            self.begin_checkpoint()

    def _let_go(self, task: int) -> None:
        place, _ = self._inputs.pop(task)
        self.world.logs.unwatch(place, self)
        del self._position[task]
        self.end_task(task)
        self._leaving.pop(task)()


_DONE: Any = object()
