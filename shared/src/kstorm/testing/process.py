"""One process of a simulated cluster: an executor with its tasks, and the records that it has on their way.

A process offers the scheduler the steps that it could take now. Each step is what a real process does without giving
way: execute one frame, drain the outbox, have one record delivered, write one key of a checkpoint. Between any two
steps another process may run, or this one may die; then all that it knew is gone, and what it had sent but not yet
delivered is lost.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from kstorm.core.dead_letters import DeadLetter, LetterToStore, encode_letter
from kstorm.core.outbox import Outgoing
from kstorm.errors import FencedError, FrameError
from kstorm.testing.logs import Place
from kstorm.testing.world import World

Step = Callable[[], object]


class Process(ABC):
    """What processes of every role do: take records, send, checkpoint."""

    def __init__(self, world: World, component: str, tasks: list[int]) -> None:
        self.world, self.component, self.tasks = world, component, tasks
        self.changed = False
        """Whether anything happened since the outbox was last drained."""
        self.idle = False
        """Whether there was no step to take when the scheduler last asked, and nothing has happened since."""
        self.needs_checkpoint = False
        """Whether something may leave only with a checkpoint."""
        self.zombie = False
        """Whether another process has its tasks, and it does not know it yet."""
        self.sleeps = 0
        """Steps of others until a zombie wakes up."""
        self.dead = False
        """Whether it was told, and ended."""
        self._inputs: dict[int, tuple[Place, list[bytes]]] = {}
        self._position: dict[int, int] = {}
        self._on_the_way: dict[Place, deque[tuple[bytes, Callable[[], Any] | None]]] = {}
        self._checkpoint: Iterator[None] | None = None

    def ready(self) -> list[Step]:
        """The steps that could be taken now; none when there is nothing to do until time passes or input comes."""
        position = self._position
        steps: list[Step] = [
            partial(self._take, task) for task, (_, log) in self._inputs.items() if position[task] < len(log)
        ]
        if self.changed:
            steps.append(self._drain)
        if self._on_the_way:
            steps.append(self._deliver_one)
        elif self._checkpoint is not None:
            steps.append(self._go_on_with_checkpoint)
        return steps

    def begin_checkpoint(self) -> None:
        """Starts a checkpoint, unless one is under way; it goes on as steps of the schedule."""
        if self._checkpoint is None:
            self._checkpoint = self.checkpoint()
        self.wake()

    def wake(self) -> None:
        """Something happened: the scheduler asks again."""
        self.idle = False

    # What a role adds.

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

    def task_id(self, task: int) -> int:
        """The topology-wide id of a task of this process."""
        return self.world.topology.task_ids(self.component)[task]

    # What a role uses.

    def consume(self, task: int, place: Place) -> None:
        """Reads a partition from its committed offset on."""
        self._inputs[task] = place, self.world.logs.records(place)
        self._position[task] = self.world.logs.committed(place)
        self.world.logs.watch(place, self.wake)

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
        """Writes one key of a changelog. Raises `FencedError` in a zombie, as Kafka refuses its transaction."""
        if self.zombie and self.world.fence:
            raise FencedError(f"a zombie of {self.component!r} was refused")
        self.world.logs.write(place, key, value)

    def commit(self, positions: Iterable[tuple[Place, int]]) -> None:
        """Commits input offsets. Raises `FencedError` in a zombie, whose generation of the group is past."""
        if self.zombie and self.world.fence:
            raise FencedError(f"a zombie of {self.component!r} was refused")
        self.world.logs.commit(positions)

    def _take(self, task: int) -> None:
        place, log = self._inputs[task]
        offset = self._position[task]
        self._position[task] = offset + 1
        self.changed = True
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
        place = self.world.random.choice(list(self._on_the_way))
        queue = self._on_the_way[place]
        value, on_stored = queue.popleft()
        if not queue:
            del self._on_the_way[place]
        self.world.logs.append(place, value)
        if on_stored is not None:
            on_stored()

    def _go_on_with_checkpoint(self) -> None:
        try:
            if self._checkpoint is not None and next(self._checkpoint, _DONE) is _DONE:
                self._checkpoint = None
        except FencedError:
            self._checkpoint, self.dead = None, True


_DONE: Any = object()
