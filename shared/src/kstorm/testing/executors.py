"""The three roles of processes in a simulated cluster. Each hosts the production objects of `kstorm.core`."""

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any

from kstorm.core.bolt_task import BoltTask
from kstorm.core.ledger import Ledger
from kstorm.core.outbox import CompletionBox, Outbox
from kstorm.core.spout_task import SpoutTask
from kstorm.core.state import TaskState
from kstorm.core.wire import AckFrame, CompletionFrame, TupleFrame, decode
from kstorm.errors import TupleTooLargeError
from kstorm.testing.disks import Disk
from kstorm.testing.logs import Place
from kstorm.testing.process import Process
from kstorm.testing.scheduler import NOTHING, Step
from kstorm.testing.world import World
from kstorm.topology import BasicBolt, Bolt, Spout, Stateful, TopologyContext

_RARE_IN_LEDGERS = ("repeated_inits", "skipped_records", "expired")

PROCESS = "process"
"""Under this name spouts find their process in `TopologyContext.resources`."""


class BoltProcess(Process):
    """Executes frames of tuples. If the bolt is stateful, its acks leave with a checkpoint, its results at once."""

    def __init__(self, world: World, component: str, disk: Disk) -> None:
        super().__init__(world, component, disk)
        self.outbox = Outbox(world.topology)
        self.bolts: dict[int, BoltTask] = {}
        self.states: dict[int, TaskState] = {}

    def start_task(self, task: int) -> None:
        """Copies the bolt, prepares it, recovers its state."""
        world, component = self.world, self.component
        spec = world.topology.component(component)
        bolt: Any = deepcopy(spec.component)
        on_error = world.on_error(component, self.task_id(task))
        running = self.bolts[task] = BoltTask(
            world.topology, component, task, bolt, self.outbox, world.next_id, on_error
        )
        world.note_emits(running.collector, component)
        context = TopologyContext(world.topology, component, task, world.resources)
        if isinstance(bolt, BasicBolt):
            world.wait(bolt.prepare(spec.config, context))
        elif isinstance(bolt, Bolt):
            world.wait(bolt.prepare(spec.config, context, running.collector))
        if isinstance(bolt, Stateful):
            rows = self.disk.open(world.logs, self._state_place(task))
            state = self.states[task] = TaskState(rows.get, lambda: list(rows.items()))
            world.wait(bolt.init_state(state))
        world.run(running.tick(world.now))  # the first call only starts the clock of the ticks
        self.consume(task, (world.topology.bolt_topic(component), task))

    def take(self, task: int, record: bytes, offset: int) -> None:
        """Executes a frame."""
        self.world.run(self.bolts[task].receive(decode(TupleFrame, record)))
        self.needs_checkpoint = bool(self.states)

    def drain(self) -> None:
        """Sends tuples, and acks unless they wait for the state."""
        self.send(self.outbox.drain_tuples())
        _report_too_large(self.world, self.outbox)
        if not self.states:
            self.send(self.outbox.drain_acks())

    def leave_task(self, task: int) -> None:
        """Calls `cleanup`."""
        self.world.wait(self.bolts[task].bolt.cleanup())

    def end_task(self, task: int) -> None:
        """Drops it, with whatever it held."""
        self.outbox.forget(self.bolts.pop(task).task_id)
        self.states.pop(task, None)

    def checkpoint(self) -> Iterator[None]:
        """Results delivered, state stored, offsets committed, and only then the acks that wait for the state."""
        self.needs_checkpoint = False
        self.unsaved = True  # a bolt may ack what it holds at any time, outside of all steps
        self._drain()
        acks, positions = self.outbox.drain_acks(), self.positions()
        changes = {task: state.take_changes() for task, state in self.states.items()}
        yield
        for task, changed in changes.items():
            for key, value in changed:
                self.store(self._state_place(task), key, value)
                yield
        for state in self.states.values():
            state.stored()
        self.commit(positions)
        self.send(acks)
        yield

    def tick(self) -> None:
        """Executes tick tuples that are due."""
        for bolt in self.bolts.values():
            before = bolt.executed
            self.world.run(bolt.tick(self.world.now))
            if bolt.executed != before:
                self.changed = True
                self.needs_checkpoint = bool(self.states)

    def close(self) -> None:
        """Calls `cleanup`."""
        for task in self.bolts:
            self.leave_task(task)

    def _state_place(self, task: int) -> Place:
        return self.world.topology.state_topic(self.component), task


class SpoutProcess(Process):
    """Calls `next_tuple` until nothing comes, and hands in completions."""

    def __init__(self, world: World, component: str, disk: Disk) -> None:
        super().__init__(world, component, disk)
        self.outbox = Outbox(world.topology)
        self.spouts: dict[int, SpoutTask] = {}
        self._dry: set[int] = set()  # tasks that had nothing to emit when last asked

    def start_task(self, task: int) -> None:
        """Copies the spout, opens it, and activates it unless the topology is deactivated."""
        world, component = self.world, self.component
        spec = world.topology.component(component)
        spout: Any = deepcopy(spec.component)
        task_id = self.task_id(task)
        _note_outcomes(world, spout, world.acked[task_id], world.failed[task_id])
        running = self.spouts[task] = SpoutTask(
            world.topology,
            component,
            task,
            spout,
            self.outbox,
            world.next_id,
            world.on_error(component, task_id),
            world.now,
        )
        world.note_emits(running.collector, component)
        context = TopologyContext(world.topology, component, task, {**world.resources, PROCESS: self})
        world.wait(spout.open(spec.config, context, running.collector))
        if world.active:
            world.run(running.activate())
        self.consume(task, (world.topology.completions_topic(component), task))

    def leave_task(self, task: int) -> None:
        """Calls `deactivate` and `close`."""
        running = self.spouts[task]
        self.world.run(running.deactivate())
        self.world.wait(running.spout.close())

    def end_task(self, task: int) -> None:
        """Drops it, with what it had in flight."""
        self.tally()
        del self.spouts[task]

    def tally(self) -> None:
        """News of trees that are not the spout's."""
        for running in self.spouts.values():
            self.world.seen["news of unknown trees"] += running.unknown
            running.unknown = 0

    def ready(self) -> list[Step]:
        """As of every process, and `next_tuple` of the tasks that may have something to emit."""
        steps = super().ready()
        if len(self._dry) < len(self.spouts):
            asked = self._dry | self._leaving.keys()
            steps.extend(partial(self._next_tuple, task) for task in self.spouts if task not in asked)
        return steps

    def obey(self) -> None:
        """Has the spouts emit or not, as the world is to."""
        for task, running in self.spouts.items():
            if task not in self._leaving:
                self.world.run(running.activate() if self.world.active else running.deactivate())
        self.ask_again()

    def ask_again(self) -> None:
        """Spouts that had nothing to emit may have something now."""
        self._dry.clear()
        self.wake()

    def _next_tuple(self, task: int) -> object:
        running = self.spouts[task]
        before = running.collector.emitted, running.acked, len(self.outbox.letters)
        self.world.run(running.next_tuple(self.world.now))
        if before == (running.collector.emitted, running.acked, len(self.outbox.letters)):
            self._dry.add(task)
            return NOTHING
        self.changed = True
        return None

    def take(self, task: int, record: bytes, offset: int) -> None:
        """Tells the spout how trees ended."""
        self._dry.discard(task)
        frame = decode(CompletionFrame, record)
        self.world.run(self.spouts[task].completed(frame, self.world.now))

    def drain(self) -> None:
        """Sends tuples, then their inits."""
        self.send(self.outbox.drain_tuples())
        _report_too_large(self.world, self.outbox)
        self.send(self.outbox.drain_acks())
        letters, self.outbox.letters = self.outbox.letters, []
        self.send_letters(letters)

    def checkpoint(self) -> Iterator[None]:
        """The completions taken so far are not read again."""
        self._drain()
        positions = self.positions()
        yield
        self.commit(positions)

    def tick(self) -> None:
        """Fails trees that took too long; asks every task again."""
        self.changed = True
        self.ask_again()
        for task, running in self.spouts.items():
            if task not in self._leaving:
                self.world.run(running.tick(self.world.now))

    def close(self) -> None:
        """Calls `deactivate` and `close`."""
        for task in self.spouts:
            self.leave_task(task)


class AckerProcess(Process):
    """Keeps the ledgers of some acker tasks."""

    def __init__(self, world: World, component: str, disk: Disk) -> None:
        super().__init__(world, component, disk)
        self.box = CompletionBox(world.topology)
        self.ledgers: dict[int, Ledger] = {}
        self._every = world.topology.longest_message_timeout_secs
        self._next_rotation = world.now + self._every

    def start_task(self, task: int) -> None:
        """Recovers the ledger."""
        topology, logs = self.world.topology, self.world.logs
        ledger = self.ledgers[task] = Ledger(self.box)
        ledger.restore(self.disk.open(logs, (topology.ledger_topic, task)).items())
        self.consume(task, (topology.acker_topic, task))

    def leave_task(self, task: int) -> None:
        """The checkpoint that follows is all there is to do."""

    def end_task(self, task: int) -> None:
        """Drops it; the disk and the changelog have it."""
        self.tally()
        del self.ledgers[task]

    def tally(self) -> None:
        """What the ledger's rules kept out, and what expired."""
        for ledger in self.ledgers.values():
            for name in _RARE_IN_LEDGERS:
                self.world.seen[name.replace("_", " ")] += getattr(ledger, name)
                setattr(ledger, name, 0)

    def task_id(self, task: int) -> int:
        """Ackers have no topology-wide ids."""
        return 0

    def take(self, task: int, record: bytes, offset: int) -> None:
        """Applies news of trees."""
        self.ledgers[task].apply(decode(AckFrame, record), offset)

    def drain(self) -> None:
        """Sends completions and failures."""
        self.send(self.box.drain(0))

    def checkpoint(self) -> Iterator[None]:
        """What the rows imply is delivered, the changed buckets are stored, offsets committed."""
        self._drain()
        positions = self.positions()
        changes = {task: ledger.checkpoint() for task, ledger in self.ledgers.items()}
        yield
        for task, changed in changes.items():
            for key, value in changed.items():
                self.store((self.world.topology.ledger_topic, task), key, value)
                yield
        self.commit(positions)

    def tick(self) -> None:
        """Ages the rows."""
        while self.world.now >= self._next_rotation:
            self._next_rotation += self._every
            self.unsaved = True
            for ledger in self.ledgers.values():
                ledger.rotate()

    def close(self) -> None:
        """Nothing of the user's runs here."""


def _report_too_large(world: World, outbox: Outbox) -> None:
    """A tuple that no record can hold is an error of the task that emitted it."""
    for what in outbox.too_large:
        error = TupleTooLargeError(f"a tuple on the stream {what.stream!r} of {what.component!r} {what.reason}")
        world.on_error(what.component, what.task)(error, "sending")
    outbox.too_large.clear()


def _note_outcomes(world: World, spout: Spout, acked: list[Any], failed: list[Any]) -> None:
    """From now on every message id that the spout is told of is noted."""
    names: dict[str, list[Any]] = {"ack": acked, "fail": failed}
    for name, told in names.items():
        setattr(spout, name, partial(_noting, world, name, getattr(spout, name), told))


def _noting(world: World, what: str, tell: Any, told: list[Any], message_id: Any) -> Any:
    told.append(message_id)
    world.tell(f"the spout hears {what} of {message_id!r}")
    return tell(message_id)
