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
from kstorm.errors import KstormError
from kstorm.testing.group import Group, Member
from kstorm.testing.logs import Logs, TopicPartition
from kstorm.testing.outside import OUTSIDE, Outside
from kstorm.testing.scheduler import Later, Scheduler
from kstorm.topology import Topology

LATEST_MARKER = 40
"""Steps of others until which a partition knows how a transaction has ended, where it does not know at once."""
MOST_ENDS = 300
"""How often the user's code may end a process until a process that ends again and again is given up."""


@dataclass(frozen=True, slots=True)
class TaskError:
    """An error in a component's code, as the runtime would log it."""

    component: str
    task: int
    """Topology-wide task id; -1 if the error is that of the whole process."""
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
    groups: defaultdict[str, Group] = field(default_factory=lambda: defaultdict(Group))
    """By component, who shares its tasks."""
    now: float = 0.0
    """Virtual seconds since the cluster began."""
    fence: ClassVar[bool] = True
    """Whether zombies are refused; a test switches it off to see what it is for."""
    tombstone_secs: ClassVar[float] = 120.0
    """For how long the broker keeps tombstones: short, so that it matters."""
    active: bool = True
    """Whether spouts emit; see `LocalCluster.deactivate`."""
    at_once: bool = True
    """Whether tasks start, and ticks fire, at once where they can; see `LocalCluster`."""
    duplicate: float = 0.0
    """Probability that a record is delivered twice."""
    reorder: float = 0.0
    """Probability that a record overtakes the one before it on its way to the same partition."""
    sluggish: float = 0.0
    """Probability that a process, when it could look at what was polled, does not yet."""
    unanswered: float = 0.0
    """Probability that a request about a transaction, or its answer, gets lost; see `kstorm.testing.transactions`."""
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
    on_crash: Callable[[Any, Exception], None] | None = None
    """Starts a process anew that the user's code ended; without it the test gets the exception."""
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)

    topics: frozenset[str] = field(init=False)
    """The topology's own."""

    def __post_init__(self) -> None:
        self.topics = frozenset(self.topology.topics())
        self.scheduler = Scheduler(self.random)
        if self.topology.config.exactly_once and not self.at_once:
            self.delay_markers()

    def delay_markers(self) -> None:
        """From now on partitions learn one by one, and some steps later, how a transaction has ended, as Kafka's do."""
        self.logs.bring = lambda mark: self.later(mark, LATEST_MARKER)

    def later(self, act: Callable[[], object], most_steps: int) -> None:
        """Has something come to pass at any moment up to so many steps of others."""
        Later(self.scheduler, act, int(most_steps ** self.random.random()))

    @property
    def outside(self) -> Outside | None:
        """Who takes the records of topics that are not the topology's own, if anybody does."""
        found: Outside | None = self.resources.get(OUTSIDE)
        return found

    def position(self, component: str, place: TopicPartition) -> int | None:
        """What a spout has committed of a partition of its source; None while that is open in a transaction, -1 where there is
        nothing."""
        own = position_place(component, place)
        return self.logs.committed(own, -1) if self.logs.is_stable(own) else None

    def refusal(self, member: Member, generation: int) -> str:
        """Why the group takes no commit of a member that names this generation; empty if it does."""
        return member.refusal_of(generation) if self.fence else ""

    def dawdles(self) -> bool:
        """Whether a process puts off what it could do now."""
        return self.sluggish > 0 and self.random.random() < self.sluggish

    def count(self, what: str) -> None:
        """Notes that something rare has happened."""
        self.seen[what] += 1

    def run(self, steps: Steps) -> None:
        """Runs a task's piece of work to its end; only `async` methods of a component need the event loop."""
        try:
            pending = next(steps)
            while True:
                try:
                    if (
                        pending is not None
                    ):  # None offers a pause, which simulated processes take between frames only
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

    def crash(self, process: Any, error: Exception) -> bool:
        """The user's code ended a process (it raised where nothing catches it, in `prepare` say). Whether that is a part of
        the game: then the process is started anew."""
        if self.on_crash is None:
            return False
        self.count("process ended by the user's code")
        self.errors.append(TaskError(process.component, -1, error, "which ended its process"))
        if self.seen["process ended by the user's code"] == MOST_ENDS:
            raise KstormError(
                f"processes were ended {MOST_ENDS} times by the user's code, one of {process.component!r} by {error!r}"
            ) from error
        self.on_crash(process, error)
        return True

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


def position_place(component: str, place: TopicPartition) -> TopicPartition:
    """Where the logs keep what the group of a spout has committed of its source: other spouts may read that too."""
    return f"{place[0]} for {component}", place[1]


class Notes:
    """The journal of a simulated process: see `kstorm.core.engine.journal`."""

    def __init__(self, world: World, component: str) -> None:
        self.world, self.component = world, component

    def error(self, error: BaseException, doing: str, task: int) -> None:
        """Notes an error of the user's code."""
        self.world.errors.append(TaskError(self.component, task, error, doing))

    def info(self, event: str, **fields: Any) -> None:
        """Tells."""
        if self.world.tell is not untold:
            self.world.tell(f"{self.component}: {event} {fields}")

    warning = info

    def made(self, task: Any, task_id: int) -> None:
        """From now on every emit of the task is noted."""
        self.world.note_emits(task.collector, self.component)


async def _awaited(result: Awaitable[Any]) -> None:
    await result
