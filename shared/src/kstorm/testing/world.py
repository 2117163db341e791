"""State shared by the processes of a simulated cluster: wiring, broker, clock, randomness and test
records."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from random import Random
from typing import Any, ClassVar

from kstorm.core.ids import NextId
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.user_code import OnError, Steps, awaitable
from kstorm.core.watched_buffers import BUFFER_WATCH
from kstorm.errors import KstormError
from kstorm.testing.consumer_group import ConsumerGroup, GroupMember
from kstorm.testing.external_topics import OUTSIDE, ExternalTopics
from kstorm.testing.logs import BrokerLogs, TopicPartition
from kstorm.testing.scheduler import DelayedEvent, Scheduler
from kstorm.testing.unchanged import ValueWatch
from kstorm.topology import Topology

LATEST_MARKER = 40
"""Maximum delay of a transaction's marker, in steps of others, where markers are delayed."""
MOST_ENDS = 300
"""Number of processes that user code may end before the simulation gives up."""


@dataclass(frozen=True, slots=True)
class TaskError:
    """An error in a component's code, as the runtime would log it."""

    component: str
    task: int
    """Topology-wide task id. -1 for an error of the whole process."""
    error: BaseException
    doing: str


def discard_narration(line: str) -> None:
    """Discard a line of the narration."""


def _lists() -> "defaultdict[Any, list[Any]]":
    return defaultdict(list)


@dataclass
class SimulatedWorld:
    """Shared by all processes of one cluster, and outlives them."""

    topology: Topology
    random: Random
    next_id: NextId
    resources: dict[str, Any]
    scheduler: Scheduler = field(init=False)
    logs: BrokerLogs = field(default_factory=BrokerLogs)
    groups: defaultdict[str, ConsumerGroup] = field(
        default_factory=lambda: defaultdict(ConsumerGroup)
    )
    """Consumer groups by component."""
    now: float = 0.0
    """Virtual seconds since the cluster started."""
    fence: ClassVar[bool] = True
    """Zombies are refused. A test switches this off to show what fencing prevents."""
    tombstone_secs: ClassVar[float] = 120.0
    """Time for which the broker keeps tombstones: short enough to matter in tests."""
    active: bool = True
    """Spouts emit. See `LocalCluster.deactivate`."""
    at_once: bool = True
    """Tasks start and ticks fire immediately where possible. See `LocalCluster`."""
    duplicate: float = 0.0
    """Probability that a record is delivered twice."""
    reorder: float = 0.0
    """Probability that a record overtakes its predecessor in the same partition."""
    sluggish: float = 0.0
    """Probability that a process delays processing a poll that it has received."""
    intake: tuple[int, int] | None = None
    """Records in hand at which a process stops polling, and those at which it polls again. None:
    the production limits."""
    unanswered: float = 0.0
    """Probability that a transaction request or its response is lost. See
    `kstorm.testing.transactions`."""
    tell: Callable[[str], None] = discard_narration
    """Receives a plain-text line for each event."""
    seen: Counter[str] = field(default_factory=Counter)
    """Counts of rare events, by name."""
    errors: list[TaskError] = field(default_factory=list)
    closing_errors: list[Exception] = field(default_factory=list)
    """Errors of components that were being closed."""
    emitted: defaultdict[tuple[str, str], list[list[Any]]] = field(default_factory=_lists)
    """Emitted values by (component, stream), in order."""
    acked: defaultdict[int, list[Any]] = field(default_factory=_lists)
    """Message ids by spout task."""
    failed: defaultdict[int, list[Any]] = field(default_factory=_lists)
    on_crash: Callable[[Any, Exception], None] | None = None
    """Restarts a process that user code ended. Without it the exception reaches the test."""
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    values: ValueWatch = field(default_factory=ValueWatch)

    topics: frozenset[str] = field(init=False)
    """The topology's own topics, without the topics of a `KafkaSpout`, which are outside."""

    def __post_init__(self) -> None:
        topology = self.topology
        self.resources = {BUFFER_WATCH: self.values.watch_buffer, **self.resources}
        others = {topology.orders_topic, topology.events_topic, topology.finished_topic}
        self.topics = frozenset(topology.topics()) - others
        self.scheduler = Scheduler(self.random)
        if self.topology.config.exactly_once and not self.at_once:
            self.delay_markers()

    def delay_markers(self) -> None:
        """Deliver a transaction's markers to its partitions one by one, some steps later, as Kafka
        does."""
        self.logs.bring = lambda mark: self.later(mark, LATEST_MARKER)

    def later(self, act: Callable[[], object], most_steps: int) -> None:
        """Call `act` at a random moment within `most_steps` steps of others."""
        DelayedEvent(self.scheduler, act, int(most_steps ** self.random.random()))

    def stores(self, record: OutgoingRecord) -> bool:
        """Return True if the logs store a record. They store frames and dead letters. The deletion
        of a dead letter is stored outside, with the request to replay it."""
        return record.topic in self.topics and record.value is not None

    @property
    def outside(self) -> ExternalTopics | None:
        """Receiver of records for topics that do not belong to the topology, if there is one."""
        found: ExternalTopics | None = self.resources.get(OUTSIDE)
        return found

    def position(self, component: str, place: TopicPartition) -> int | None:
        """Return the committed position of a spout in a source partition.

        None while it is open in a transaction, -1 if there is none.
        """
        own = position_partition(component, place)
        return self.logs.committed(own, -1) if self.logs.is_stable(own) else None

    def refusal(self, member: GroupMember, generation: int) -> str:
        """Return the reason why the group refuses a member's commit with this generation, or ""."""
        return member.refusal_of(generation) if self.fence else ""

    def dawdles(self) -> bool:
        """Return True if a process delays what it could do now."""
        return self.sluggish > 0 and self.random.random() < self.sluggish

    def count(self, what: str) -> None:
        """Count a rare event."""
        self.seen[what] += 1

    def run(self, steps: Steps) -> None:
        """Run a task's steps to their end. Only `async` component methods need the event loop."""
        try:
            pending = next(steps)
            while True:
                try:
                    # None offers a pause, which simulated processes take only between frames.
                    if pending is not None:
                        self._await(awaitable(pending))
                except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the task decides
                    pending = steps.throw(error)
                else:
                    pending = next(steps)
        except StopIteration:
            return

    def wait(self, result: Awaitable[Any] | None) -> None:
        """Await the result of a component's method, if that method is `async`."""
        if isawaitable(result):
            self._await(result)

    def _await(self, result: Awaitable[Any]) -> None:
        self.runner.get_loop().run_until_complete(_awaited(result))

    def crash(self, process: Any, error: Exception) -> bool:
        """Handle an error of user code that ends a process, for example in `prepare`.

        Returns True if the world restarts the process, and False if the test must get the error.
        """
        if self.on_crash is None:
            return False
        self.count("process ended by the user's code")
        self.errors.append(
            TaskError(process.component, -1, error, "in code that ended its process")
        )
        if self.seen["process ended by the user's code"] == MOST_ENDS:
            raise KstormError(
                f"user code ended processes {MOST_ENDS} times, one of {process.component!r} with "
                f"{error!r}"
            ) from error
        self.on_crash(process, error)
        return True

    def note_emits(self, collector: Any, component: str) -> None:
        """Record every later emit through a task's collector."""

        def observe(stream: str, tuples: Iterable[Sequence[Any]]) -> None:
            some = list(map(list, tuples))
            self.emitted[component, stream] += some
            if self.tell is not discard_narration:
                self.tell(f"{component} emits on {stream!r}: {some}")

        collector.observe = observe

    def on_error(self, component: str, task: int) -> OnError:
        """Return a task's error callback."""
        return lambda error, doing: self.errors.append(TaskError(component, task, error, doing))


def position_partition(component: str, place: TopicPartition) -> TopicPartition:
    """Return where the logs store a spout's committed source offsets. It is separate per spout,
    because several may read one source."""
    return f"{place[0]} for {component}", place[1]


class SimulatedJournal:
    """The journal of a simulated process. See `kstorm.core.engine.journal`."""

    def __init__(self, world: SimulatedWorld, component: str) -> None:
        self.world, self.component = world, component

    def error(self, error: BaseException, doing: str, task: int) -> None:
        self.world.errors.append(TaskError(self.component, task, error, doing))

    def info(self, event: str, **fields: Any) -> None:
        if self.world.tell is not discard_narration:
            self.world.tell(f"{self.component}: {event} {fields}")

    warning = info

    def made(self, task: Any, task_id: int) -> None:
        self.world.note_emits(task.collector, self.component)
        self.world.values.watch_task(task, self.component)


async def _awaited(result: Awaitable[Any]) -> None:
    await result
