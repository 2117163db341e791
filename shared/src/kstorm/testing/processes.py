"""The three kinds of processes in a simulated cluster: which engine they drive, and what is special about each."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from kstorm.core.engine import (
    AckerEngine,
    BoltEngine,
    ExactBoltEngine,
    ExactSpoutEngine,
    Slot,
    SpoutEngine,
)
from kstorm.core.engine.bolt import AtHand
from kstorm.core.engine.effects import Run
from kstorm.core.exact import ExactBoltTask, UndoableState
from kstorm.core.exact.unfinished import is_unfinished_key
from kstorm.core.spout_task import SpoutTask
from kstorm.core.state import TaskState
from kstorm.core.tasks import Steps
from kstorm.kafka.epoch_writer import EpochWriter
from kstorm.kafka.ports import KAFKA, KafkaPorts
from kstorm.testing.awaiting import Awaiting
from kstorm.testing.disks import Disk
from kstorm.testing.outside import COMMIT, at_commit
from kstorm.testing.process import Process
from kstorm.testing.scheduler import NOTHING, Step
from kstorm.testing.world import Notes, World
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

PROCESS = "process"
"""Under this name spouts find their process in `TopologyContext.resources`."""

POSITION = "position"
"""Under this name spouts that are `Positioned` find a function that gives what is committed of a partition of their source, None
while that is open in a transaction, and -1 where there is nothing."""

_RARE_IN_LEDGERS = ("repeated_inits", "skipped_records", "expired")


def make_process(world: World, component: str, disk: Disk, name: str) -> Process[Any]:
    """A process of a component."""
    if component == ACKER_COMPONENT:
        return AckerProcess(world, component, disk, name)
    spout = world.topology.component(component).kind == "spout"
    return (
        SpoutProcess(world, component, disk, name)
        if spout
        else BoltProcess(world, component, disk, name)
    )


def count_tasks(topology: Topology, component: str) -> int:
    """How many tasks a component has."""
    if component == ACKER_COMPONENT:
        return topology.config.acker_tasks
    return topology.component(component).num_tasks


class BoltProcess(Process[BoltEngine]):
    """Runs some tasks of a bolt."""

    def __init__(self, world: World, component: str, disk: Disk, name: str) -> None:
        super().__init__(world, component, disk, name)
        own: dict[str, Any] = {"next_id": world.next_id, "load_state": self._load}
        notes = Notes(world, component)
        if world.topology.config.exactly_once:
            at_hand = AtHand()
            own |= {
                "work": at_hand,
                "resources": self._lent_in_epochs(at_hand),
                "load_unfinished": self._unfinished,
            }
            self.engine = ExactBoltEngine(world.topology, component, notes, **own)
        else:
            self.engine = BoltEngine(
                world.topology, component, notes, resources=world.resources, **own
            )

    def _lent_in_epochs(self, at_hand: AtHand) -> dict[str, Any]:
        """What the bolts find: what a KafkaBolt writes leaves with what its task sends, as does what a test's bolt keeps."""

        def add(task: ExactBoltTask, act: Callable[[], object]) -> None:
            task.collector.keep(lambda: self.engine.outbox.records.append(at_commit(act)))

        lent = {
            **self.world.resources,
            COMMIT: lambda: partial(add, cast("ExactBoltTask", at_hand.task)),
        }
        ports = lent.get(KAFKA)
        if isinstance(ports, KafkaPorts):
            lent[KAFKA] = replace(
                ports, open_shared_writer=lambda: EpochWriter(cast("ExactBoltTask", at_hand.task))
            )
        return lent

    def _load(self, task: int) -> TaskState:
        rows = self.disk.rows(self._changelog(task))
        kind = UndoableState if self.world.topology.config.exactly_once else TaskState

        def load_all(start: bytes) -> list[tuple[bytes, bytes]]:
            return [
                row
                for row in sorted(rows.items())
                if row[0] >= start and not is_unfinished_key(row[0])
            ]

        return kind(rows.get, load_all)

    def _unfinished(self, task: int) -> list[tuple[bytes, bytes]]:
        return [
            row
            for row in self.disk.rows(self._changelog(task)).items()
            if is_unfinished_key(row[0])
        ]

    def tick(self) -> None:
        """Pauses are offered after each tuple."""
        self.engine.pace(1)
        super().tick()

    def begin_checkpoint(self) -> None:
        """See `Process.begin_checkpoint`."""
        self._then(self.engine.checkpoint(self.world.now))

    @property
    def waits_for_checkpoint(self) -> bool:
        """See `Process.waits_for_checkpoint`."""
        return self.engine.waits_for_checkpoint

    def close(self) -> None:
        """Calls `cleanup`."""
        for task in self.engine.tasks:
            self._end(task, task.bolt.cleanup, "in cleanup")


class SpoutProcess(Process[SpoutEngine]):
    """Runs some tasks of a spout: asks them for tuples until nothing comes, and hands in completions."""

    def __init__(self, world: World, component: str, disk: Disk, name: str) -> None:
        super().__init__(world, component, disk, name)
        self._dry = False
        self._turn: Run | None = None  # the last one
        self._before = 0
        self._from: dict[int, int] = {}  # by task, the end of its completions when it came
        kind = ExactSpoutEngine if world.topology.config.exactly_once else SpoutEngine
        self.engine = kind(
            world.topology,
            component,
            SpoutNotes(world, component),
            next_id=world.next_id,
            resources={
                **world.resources,
                PROCESS: self,
                POSITION: partial(world.position, component),
            },
            calls_a_turn=1,
        )
        self.engine.active = world.active

    def ready(self) -> list[Step]:
        """As of every process, and the spouts' turn unless they had nothing to emit when last asked."""
        steps = super().ready()
        if (
            not self._dry
            and not self.engine.busy
            and any(slot.works for slot in self.engine.slots.values())
        ):
            steps.append(self._emit)
        return steps

    def begin_checkpoint(self) -> None:
        """See `Process.begin_checkpoint`."""
        if isinstance(self.engine, ExactSpoutEngine):
            self._then(self.engine.checkpoint(self.world.now))

    @property
    def waits_for_checkpoint(self) -> bool:
        """See `Process.waits_for_checkpoint`."""
        return isinstance(self.engine, ExactSpoutEngine) and self.engine.waits_for_checkpoint

    def obey(self) -> None:
        """Has the spouts emit or not, as the world is to."""
        self.engine.active = self.world.active
        self.ask_again()

    def ask_again(self) -> None:
        """Spouts that had nothing to emit may have something now."""
        self._dry = False
        self.wake()

    def _go_on(self, entry: tuple[Run, Steps, Awaiting | None]) -> object:
        if entry[0] is self._turn:
            return self._ask(partial(super()._go_on, entry))
        super()._go_on(entry)
        self._dry = False  # news of a tree may give a spout something to emit
        return None

    def _emit(self) -> object:
        """One turn, taken at once but for its awaits."""
        self._before = self._done()
        return self._ask(self._begin_turn)

    def _begin_turn(self) -> None:
        for effect in self.engine.emit(self.world.now):
            if isinstance(effect, Run):
                self._turn = effect
                self._advance(effect, effect.steps, interrupt=0.0)
            else:
                self._effects.append(effect)

    def _ask(self, go_on: Callable[[], object]) -> object:
        """A part of a turn: it is no step if the turn has come to nothing so far."""
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

    def _reads(self, slot: Slot[Any]) -> bool:
        """Completions are, while the task's open trees may end."""
        return slot.alive

    def tick(self) -> None:
        """Retries may be due."""
        super().tick()
        self.ask_again()

    def tally(self) -> None:
        """News of trees that are not the spout's."""
        for task in self.engine.tasks:
            self.world.seen["news of unknown trees"] += task.unknown
            task.unknown = 0

    def close(self) -> None:
        """Calls `deactivate` and `close`."""
        for task in self.engine.tasks:
            self._end(task, partial(self._deactivate, task), "in deactivate")
            self._end(task, task.spout.close, "in close")

    def _deactivate(self, task: SpoutTask) -> None:
        self.world.run(task.deactivate())


class AckerProcess(Process[AckerEngine]):
    """Keeps the ledgers of some acker tasks."""

    def __init__(self, world: World, component: str, disk: Disk, name: str) -> None:
        super().__init__(world, component, disk, name)
        self.engine = AckerEngine(
            world.topology,
            Notes(world, component),
            load_rows=lambda task: self.disk.rows(self._changelog(task)).items(),
            now=world.now,
        )

    def begin_checkpoint(self) -> None:
        """See `Process.begin_checkpoint`."""
        self._then(self.engine.checkpoint(self.world.now))

    def tally(self) -> None:
        """What the ledgers' rules kept out, and what expired."""
        for ledger in self.engine.tasks:
            for name in _RARE_IN_LEDGERS:
                self.world.seen[name.replace("_", " ")] += getattr(ledger, name)
                setattr(ledger, name, 0)


class SpoutNotes(Notes):
    """Notes too which message ids the spouts are notified of."""

    def made(self, task: SpoutTask, task_id: int) -> None:
        """See `Journal.made`."""
        super().made(task, task_id)
        for name, told in (
            ("ack", self.world.acked[task_id]),
            ("fail", self.world.failed[task_id]),
        ):
            setattr(task.spout, name, partial(self._noting, name, getattr(task.spout, name), told))

    def _noting(self, what: str, notify: Any, told: list[Any], message_id: Any) -> Any:
        told.append(message_id)
        self.world.tell(f"the spout hears {what} of {message_id!r}")
        return notify(message_id)
