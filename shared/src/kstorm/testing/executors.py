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
from kstorm.testing.logs import Place
from kstorm.testing.process import Process, Step
from kstorm.testing.world import World
from kstorm.topology import BasicBolt, Bolt, Spout, Stateful, TopologyContext
from kstorm.topology.topology import ACKER_COMPONENT


class BoltProcess(Process):
    """Executes frames of tuples. If the bolt is stateful, its acks leave with a checkpoint, its results at once."""

    def __init__(self, world: World, component: str, tasks: list[int]) -> None:
        super().__init__(world, component, tasks)
        self.outbox = Outbox(world.topology)
        self.bolts: dict[int, BoltTask] = {}
        self.states: dict[int, TaskState] = {}
        for task in tasks:
            self._start(task)

    def _start(self, task: int) -> None:
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
            table = world.logs.table(self._state_place(task))
            state = self.states[task] = TaskState(table.get, lambda: list(table.items()))
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

    def checkpoint(self) -> Iterator[None]:
        """Results delivered, state stored, acks delivered, offsets committed."""
        self.needs_checkpoint = False
        self._drain()
        acks, positions = self.outbox.drain_acks(), self.positions()
        changes = {task: state.take_changes() for task, state in self.states.items()}
        yield
        for task, changed in changes.items():
            for key, value in changed:
                self.store(self._state_place(task), key, value)
                yield
            self.states[task].stored()
        self.send(acks)
        yield
        self.commit(positions)

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
        for running in self.bolts.values():
            self.world.wait(running.bolt.cleanup())

    def _state_place(self, task: int) -> Place:
        return self.world.topology.state_topic(self.component), task


class SpoutProcess(Process):
    """Calls `next_tuple` until nothing comes, and hands in completions."""

    def __init__(self, world: World, component: str, tasks: list[int]) -> None:
        super().__init__(world, component, tasks)
        self.outbox = Outbox(world.topology)
        self.spouts: dict[int, SpoutTask] = {}
        self.asleep: set[int] = set()
        """Tasks that had nothing to emit when last asked."""
        for task in tasks:
            self._start(task)

    def _start(self, task: int) -> None:
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
        context = TopologyContext(world.topology, component, task, world.resources)
        world.wait(spout.open(spec.config, context, running.collector))
        world.wait(spout.activate())
        self.consume(task, (world.topology.completions_topic(component), task))

    def ready(self) -> list[Step]:
        """As of every process, and `next_tuple` of the tasks that are awake."""
        steps = super().ready()
        steps.extend(partial(self._next_tuple, task) for task in self.tasks if task not in self.asleep)
        return steps

    def _next_tuple(self, task: int) -> None:
        running = self.spouts[task]
        before = running.collector.emitted, running.acked, len(self.outbox.letters)
        self.world.run(running.next_tuple(self.world.now))
        if before == (running.collector.emitted, running.acked, len(self.outbox.letters)):
            self.asleep.add(task)
        else:
            self.changed = True

    def take(self, task: int, record: bytes, offset: int) -> None:
        """Tells the spout how trees ended."""
        self.asleep.discard(task)
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
        self.asleep.clear()
        self.changed = True
        for running in self.spouts.values():
            self.world.run(running.tick(self.world.now))

    def close(self) -> None:
        """Calls `deactivate` and `close`."""
        for running in self.spouts.values():
            self.world.wait(running.spout.deactivate())
            self.world.wait(running.spout.close())


class AckerProcess(Process):
    """Keeps the ledgers of some acker tasks."""

    def __init__(self, world: World, tasks: list[int]) -> None:
        super().__init__(world, ACKER_COMPONENT, tasks)
        self.box = CompletionBox(world.topology)
        self.ledgers: dict[int, Ledger] = {}
        self._every = world.topology.longest_message_timeout_secs
        self._next_rotation = world.now + self._every
        for task in tasks:
            ledger = self.ledgers[task] = Ledger(self.box)
            ledger.restore(world.logs.table((world.topology.ledger_topic, task)).items())
            self.consume(task, (world.topology.acker_topic, task))

    def task_id(self, task: int) -> int:
        """Ackers have no topology-wide ids."""
        return 0

    def take(self, task: int, record: bytes, offset: int) -> None:
        """Applies news of trees."""
        self.ledgers[task].apply(decode(AckFrame, record), offset)

    def drain(self) -> None:
        """Sends completions and failures."""
        self.send(self.box.drain(self.tasks[0]))

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
