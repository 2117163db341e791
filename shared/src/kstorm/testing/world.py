"""What the processes of a simulated cluster share: the wiring, the broker, the clock, chance, and the notes for the test."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from random import Random
from typing import Any, ClassVar

from kstorm.core.ids import NextId
from kstorm.core.tasks import OnError, Steps, awaitable
from kstorm.testing.logs import Logs
from kstorm.testing.scheduler import Scheduler
from kstorm.topology import Topology


@dataclass(frozen=True, slots=True)
class TaskError:
    """An error in a component's code, as the runtime would log it."""

    component: str
    task: int
    """Topology-wide task id."""
    error: BaseException
    doing: str


def untold(line: str) -> None:
    """Nobody is told."""


def _lists() -> "defaultdict[Any, list[Any]]":
    return defaultdict(list)


@dataclass
class World:
    """Shared by all processes of one cluster; it outlives them."""

    topology: Topology
    random: Random
    next_id: NextId
    resources: dict[str, Any]
    scheduler: Scheduler = field(init=False)
    logs: Logs = field(default_factory=Logs)
    now: float = 0.0
    """Virtual seconds since the cluster began."""
    fence: ClassVar[bool] = True
    """Whether zombies are refused; a test switches it off to see what it is for."""
    active: bool = True
    """Whether spouts emit; see `LocalCluster.deactivate`."""
    duplicate: float = 0.0
    """Probability that a record is delivered twice."""
    reorder: float = 0.0
    """Probability that a record overtakes the one before it on its way to the same partition."""
    tell: Callable[[str], None] = untold
    """Is told what happens, in plain words."""
    seen: Counter[str] = field(default_factory=Counter)
    """How often what is rare has happened."""
    errors: list[TaskError] = field(default_factory=list)
    emitted: defaultdict[tuple[str, str], list[list[Any]]] = field(default_factory=_lists)
    """(component, stream) → values, in the order of the emits."""
    acked: defaultdict[int, list[Any]] = field(default_factory=_lists)
    """Spout task → message ids."""
    failed: defaultdict[int, list[Any]] = field(default_factory=_lists)
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.random)

    def count(self, what: str) -> None:
        """Notes that something rare has happened."""
        self.seen[what] += 1

    def run(self, steps: Steps) -> None:
        """Runs a task's piece of work to its end; only `async` methods of a component need the event loop."""
        try:
            pending = next(steps)
            while True:
                try:
                    if pending is not None:  # None offers a pause, which simulated processes take between frames only
                        self._await(awaitable(pending))
                except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the task decides
                    pending = steps.throw(error)
                else:
                    pending = next(steps)
        except StopIteration:
            return

    def wait(self, result: Awaitable[Any] | None) -> None:
        """Waits for what a component's method returned, if that method is `async`."""
        if isawaitable(result):
            self._await(result)

    def _await(self, result: Awaitable[Any]) -> None:
        self.runner.get_loop().run_until_complete(_awaited(result))

    def note_emits(self, collector: Any, component: str) -> None:
        """From now on every emit through a task's collector is noted."""

        def observe(stream: str, tuples: Iterable[Sequence[Any]]) -> None:
            some = list(map(list, tuples))
            self.emitted[component, stream] += some
            if self.tell is not untold:
                self.tell(f"{component} emits on {stream!r}: {some}")

        collector.observe = observe

    def on_error(self, component: str, task: int) -> OnError:
        """Where a task reports errors to."""
        return lambda error, doing: self.errors.append(TaskError(component, task, error, doing))


async def _awaited(result: Awaitable[Any]) -> None:
    await result
