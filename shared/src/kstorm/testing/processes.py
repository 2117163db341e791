"""The three kinds of processes in a simulated cluster, with their engines and differences."""

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
"""Name under which spouts find their process in `TopologyContext.resources`."""

POSITION = "position"
"""Name under which `Positioned` spouts find a function that returns the committed position of a
source partition.

It returns None while the position is open in a transaction, and -1 if there is none.
"""

_RARE_IN_LEDGERS = ("repeated_inits", "skipped_records", "expired")


def make_process(world: World, component: str, disk: Disk, name: str) -> Process[Any]:
    if component == ACKER_COMPONENT:
        return AckerProcess(world, component, disk, name)
    spout = world.topology.component(component).kind == "spout"
    return (
        SpoutProcess(world, component, disk, name)
        if spout
        else BoltProcess(world, component, disk, name)
    )


def count_tasks(topology: Topology, component: str) -> int:
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
        """Return resources whose output leaves with the epoch of the task: a KafkaBolt's records,
        and what a test's bolt keeps."""

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


class SpoutProcess(Process[SpoutEngine]):
    """Runs some tasks of a spout. Asks for tuples until none come, and delivers completions."""

    def __init__(self, world: World, component: str, disk: Disk, name: str) -> None:
        super().__init__(world, component, disk, name)
        self._dry = False
        self._turn: Run | None = None  # the last one
        self._before = 0
        self._from: dict[int, int] = {}  # by task, the end of its completions at assignment
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
        """Add the spouts' turn, unless they had nothing to emit when last asked."""
        steps = super().ready()
        if (
            not self._dry
            and not self.engine.busy
            and any(slot.works for slot in self.engine.slots.values())
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

    def _go_on(self, entry: tuple[Run, Steps, Awaiting | None]) -> object:
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
        for effect in self.engine.emit(self.world.now):
            if isinstance(effect, Run):
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

    def _reads(self, slot: Slot[Any]) -> bool:
        """Read completions as long as open trees of the task may end."""
        return slot.alive

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
        self._then(self.engine.checkpoint(self.world.now))

    def tally(self) -> None:
        for ledger in self.engine.tasks:
            for name in _RARE_IN_LEDGERS:
                self.world.seen[name.replace("_", " ")] += getattr(ledger, name)
                setattr(ledger, name, 0)


class SpoutNotes(Notes):
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
