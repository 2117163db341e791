"""The three kinds of processes in a simulated cluster, with their engines and differences."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, cast

from kstorm.core.engine import AckerEngine, BoltEngine, ExactSpoutEngine, SpoutEngine, TaskTenure
from kstorm.core.engine.bolt_engine import UnobservedWork
from kstorm.core.engine.effects import RunUserCode
from kstorm.core.engine.intake import HIGH_BYTES, LOW_BYTES, Intake
from kstorm.core.exactly_once import ExactBoltTask
from kstorm.core.spout_task import SpoutTask
from kstorm.core.user_code import Steps
from kstorm.engine_factories import make_acker_engine, make_bolt_engine, make_spout_engine
from kstorm.testing.disks import Disk
from kstorm.testing.external_topics import COMMIT, at_commit
from kstorm.testing.process import SimulatedProcess
from kstorm.testing.scheduler import NOTHING, Step
from kstorm.testing.stepped_await import SteppedAwaitable
from kstorm.testing.world import SimulatedJournal, SimulatedWorld
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

PROCESS = "process"
"""Name under which spouts find their process in `TopologyContext.resources`."""

POSITION = "position"
"""Name under which `Positioned` spouts find a function that returns the committed position of a
source partition.

It returns None while the position is open in a transaction, and -1 if there is none.
"""

OPEN_TRANSACTIONS = "open transactions"
"""Name under which spouts find a function that returns the transactions that are open in a
partition."""

_RARE_IN_LEDGERS = ("repeated_inits", "skipped_records", "expired")


def make_process(
    world: SimulatedWorld, component: str, disk: Disk, name: str
) -> SimulatedProcess[Any]:
    process = _kind(world, component)(world, component, disk, name)
    limit_intake(process, world.intake)
    return process


def limit_intake(process: SimulatedProcess[Any], limits: tuple[int, int] | None) -> None:
    """Set the numbers of records in hand that stop a process from polling and let it poll again."""
    if limits is not None:
        high, low = limits
        process.engine.intake = Intake((high, HIGH_BYTES), (low, LOW_BYTES))


def _kind(
    world: SimulatedWorld, component: str
) -> "type[AckerProcess | SpoutProcess | BoltProcess]":
    if component == ACKER_COMPONENT:
        return AckerProcess
    return SpoutProcess if world.topology.component(component).kind == "spout" else BoltProcess


def count_tasks(topology: Topology, component: str) -> int:
    if component == ACKER_COMPONENT:
        return topology.config.acker_tasks
    return topology.component(component).num_tasks


class BoltProcess(SimulatedProcess[BoltEngine]):
    """Runs some tasks of a bolt."""

    def __init__(self, world: SimulatedWorld, component: str, disk: Disk, name: str) -> None:
        super().__init__(world, component, disk, name)
        work = UnobservedWork()
        self.engine = make_bolt_engine(
            world.topology,
            component,
            SimulatedJournal(world, component),
            next_id=world.next_id,
            rows=self._rows,
            resources={**world.resources, **self._lent_in_epochs(work)},
            work=work,
        )

    def _lent_in_epochs(self, work: UnobservedWork) -> dict[str, Any]:
        """Return what a test's bolt uses to act when its epoch is committed."""
        if not self.world.topology.config.exactly_once:
            return {}

        def add(task: ExactBoltTask, act: Callable[[], object]) -> None:
            task.collector.keep(lambda: self.engine.outbox.records.append(at_commit(act)))

        return {COMMIT: lambda: partial(add, cast("ExactBoltTask", work.task))}

    def tick(self) -> None:
        # Offer a pause after each tuple.
        self.engine.pace(1)
        super().tick()
        for task in self.engine.tasks:
            # A KafkaBolt with held tuples. In a service, a timer of the event loop calls it.
            if (try_held := getattr(task.bolt, "try_held", None)) is not None:
                try_held()

    def begin_checkpoint(self) -> None:
        self._then(self.engine.checkpoint(self.world.now))

    @property
    def waits_for_checkpoint(self) -> bool:
        return self.engine.waits_for_checkpoint

    def close(self) -> None:
        for task in self.engine.tasks:
            self._end(task, task.bolt.cleanup, "in cleanup")


class SpoutProcess(SimulatedProcess[SpoutEngine]):
    """Runs some tasks of a spout. Asks for tuples until none come, and delivers completions."""

    def __init__(self, world: SimulatedWorld, component: str, disk: Disk, name: str) -> None:
        super().__init__(world, component, disk, name)
        self._dry = False
        self._turn: RunUserCode | None = None  # the last one
        self._before = 0
        self._from: dict[int, int] = {}  # by task, the end of its completions at assignment
        self.engine = make_spout_engine(
            world.topology,
            component,
            SpoutJournal(world, component),
            next_id=world.next_id,
            resources={
                **world.resources,
                PROCESS: self,
                POSITION: partial(world.position, component),
                OPEN_TRANSACTIONS: world.logs.open_at,
            },
            calls_a_turn=1,
        )
        self.engine.active = world.active

    def ready(self) -> list[Step]:
        """Add the spouts' turn, unless they had nothing to emit when last asked."""
        steps = super().ready()
        if (
            not self._dry
            and not self.engine.busy
            and self.engine.next_turn < inf
            and any(tenure.works for tenure in self.engine.tenures.values())
        ):
            steps.append(self._emit)
        return steps

    def begin_checkpoint(self) -> None:
        if isinstance(self.engine, ExactSpoutEngine):
            self._then(self.engine.checkpoint(self.world.now))

    @property
    def waits_for_checkpoint(self) -> bool:
        return isinstance(self.engine, ExactSpoutEngine) and self.engine.waits_for_checkpoint

    def obey(self) -> None:
        """Adopt the world's activation state."""
        self.engine.active = self.world.active
        self.ask_again()

    def ask_again(self) -> None:
        """Ask spouts again that had nothing to emit."""
        self._dry = False
        self.wake()

    def _go_on(self, entry: tuple[RunUserCode, Steps, SteppedAwaitable | None]) -> object:
        if entry[0] is self._turn:
            return self._ask(partial(super()._go_on, entry))
        super()._go_on(entry)
        # A completion may give a spout something to emit.
        self._dry = False
        return None

    def _emit(self) -> object:
        """Take one turn, interrupted only at its awaits."""
        self._before = self._done()
        return self._ask(self._begin_turn)

    def _begin_turn(self) -> None:
        # Work takes no time here, so a rest ends as soon as there may be something to emit.
        for effect in self.engine.wake(max(self.world.now, self.engine.next_turn)):
            if isinstance(effect, RunUserCode):
                self._turn = effect
                self._advance(effect, effect.steps, interrupt=0.0)
            else:
                self._effects.append(effect)

    def _ask(self, go_on: Callable[[], object]) -> object:
        """Run a part of a turn. Return `NOTHING` if the turn has had no effect so far."""
        effects = len(self._effects)
        go_on()
        nothing = self._done() == self._before and len(self._effects) == effects
        if not any(run is self._turn for run, *_ in self._runs):
            self._dry = nothing
        return NOTHING if nothing else None

    def _done(self) -> int:
        return sum(
            task.collector.emitted + task.acked + task.failed + task.active
            for task in self.engine.tasks
        )

    def _begin_opening(self, task: int) -> None:
        self._from[task] = len(self.world.logs.records(self._place(task)))
        super()._begin_opening(task)

    def _read(self, task: int) -> None:
        super()._read(task)
        self._position[task] = self._from[task]

    def _reads(self, tenure: TaskTenure[Any]) -> bool:
        """Read completions as long as open trees of the task may end."""
        return tenure.alive

    def tick(self) -> None:
        super().tick()
        self.ask_again()  # retries may be due

    def tally(self) -> None:
        for task in self.engine.tasks:
            self.world.seen["news of unknown trees"] += task.unknown
            task.unknown = 0

    def close(self) -> None:
        for task in self.engine.tasks:
            self._end(task, partial(self._deactivate, task), "in deactivate")
            self._end(task, task.spout.close, "in close")

    def _deactivate(self, task: SpoutTask) -> None:
        self.world.run(task.deactivate())


class AckerProcess(SimulatedProcess[AckerEngine]):
    """Keeps the ledgers of some acker tasks."""

    def __init__(self, world: SimulatedWorld, component: str, disk: Disk, name: str) -> None:
        super().__init__(world, component, disk, name)
        self.engine = make_acker_engine(
            world.topology, SimulatedJournal(world, component), rows=self._rows, now=world.now
        )

    def begin_checkpoint(self) -> None:
        self._then(self.engine.checkpoint(self.world.now))

    def tally(self) -> None:
        for ledger in self.engine.tasks:
            for name in _RARE_IN_LEDGERS:
                self.world.seen[name.replace("_", " ")] += getattr(ledger, name)
                setattr(ledger, name, 0)


class SpoutJournal(SimulatedJournal):
    """Also records the message ids that spouts are notified of."""

    def made(self, task: SpoutTask, task_id: int) -> None:
        super().made(task, task_id)
        for name, told in (
            ("ack", self.world.acked[task_id]),
            ("fail", self.world.failed[task_id]),
        ):
            setattr(task.spout, name, partial(self._noting, name, getattr(task.spout, name), told))

    def _noting(self, what: str, notify: Any, told: list[Any], message_id: Any) -> Any:
        told.append(message_id)
        self.world.tell(f"the spout receives {what} of {message_id!r}")
        return notify(message_id)
