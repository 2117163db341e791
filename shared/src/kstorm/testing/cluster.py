"""A whole topology in memory, for tests: no broker, no clock, no chance that is not seeded.

    with LocalCluster(topology, seed=7) as cluster:
        cluster.run_until_idle()
        cluster.crash("count")
        cluster.advance_time(46)
        assert cluster.failed("sentences") == [3]

It runs the very objects that the services run: spout tasks, bolt tasks, the ackers' ledgers. Only the world around
them is simulated. Steps of the processes follow each other in an order drawn from `seed`; the same seed, topology and
calls give the same run.
"""

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random
from types import TracebackType
from typing import Any

from kstorm.core.dead_letters import DeadLetter, decode_letter
from kstorm.errors import KstormError, TopologyError
from kstorm.testing.executors import AckerProcess, BoltProcess, SpoutProcess
from kstorm.testing.process import Process
from kstorm.testing.world import TaskError, World
from kstorm.topology import DEFAULT_STREAM, BasicBolt, Bolt, Spout, Topology
from kstorm.topology.topology import ACKER_COMPONENT

_MOST_STEPS = 1_000_000
_LONGEST_SLEEP = 400  # steps of others


class LocalCluster(AbstractContextManager["LocalCluster"]):
    """Runs a topology. `resources` is what `TopologyContext.resources` gives to components.

    Time stands still but for `advance_time`. Nothing is checkpointed or committed but by `checkpoint`, by
    `advance_time`, and where a stateful bolt's acks would otherwise wait for ever.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int = 0,
        resources: dict[str, Any] | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.topology = topology
        self._zombies: list[Process] = []
        ids = Random(f"ids of {seed}")
        self._world = World(topology, Random(seed), lambda: ids.getrandbits(64) or 1, resources or {}, tell=tell)
        self._close_runner = weakref.finalize(self, self._world.runner.close)
        self._processes: dict[str, list[Process]] = {}
        self._flat: list[Process] | None = None
        for spec in topology.components.values():
            self._processes[spec.id] = [self._process(spec.id, e) for e in range(spec.parallelism)]
        self._processes[ACKER_COMPONENT] = [
            self._process(ACKER_COMPONENT, e) for e in range(topology.config.topology_acker_executors)
        ]
        self._quantum = _quantum(topology)

    # Running.

    def step(self) -> bool:
        """Takes one step of one process, by chance; False if nothing can be done now.

        Spouts that had nothing to emit are asked again when their trees end, and when there is nothing else to do.
        """
        if self._take_step():
            return True
        for process in self._all():
            if isinstance(process, SpoutProcess):
                process.asleep.clear()
                process.wake()
        while self._take_step():
            if any(process.changed for process in self._all()):
                return True
        return False

    def _take_step(self) -> bool:
        chance = self._world.random.random
        processes = [*self._all(), *self._awake_zombies()] if self._zombies else self._all()
        first = int(chance() * len(processes))
        for process in processes[first:] + processes[:first]:
            if process.idle:
                continue
            if steps := process.ready():
                steps[int(chance() * len(steps))]()
                return True
            process.idle = True
        return False

    def _awake_zombies(self) -> list[Process]:
        self._zombies = [zombie for zombie in self._zombies if not zombie.dead]
        for zombie in self._zombies:
            zombie.sleeps -= 1
        return [zombie for zombie in self._zombies if zombie.sleeps <= 0]

    def _wake_zombies(self) -> bool:
        """When nobody else has anything to do; whether one was asleep."""
        asleep = [zombie for zombie in self._zombies if zombie.sleeps > 0]
        for zombie in asleep:
            zombie.sleeps = 0
        return bool(asleep)

    def run_until_idle(self, most_steps: int = _MOST_STEPS) -> None:
        """Takes steps until nothing is left to do at this moment.

        Raises `KstormError` after `most_steps`: a spout that always has another tuple never lets the cluster idle.
        """
        for _ in range(most_steps):
            if not (self.step() or self._begin_needed_checkpoints() or self._wake_zombies()):
                return
        raise KstormError(
            f"topology {self.topology.name!r} is not idle after {most_steps} steps: let its spouts run dry, "
            "or take single steps with step()"
        )

    def advance_time(self, seconds: float, run: bool = True) -> None:
        """Moves the clock, in small strides at which ticks and timeouts fire.

        With `run` all work is done, and checkpoints are taken, after every stride. Without it only the clock moves: all
        other work stands still, as on a machine too busy to do anything.
        """
        if run:
            self.run_until_idle()
        until = self._world.now + seconds
        self._world.tell(f"the clock goes from {self.now:g} to {until:g} s")
        while self._world.now < until:
            self._world.now = min(until, self._world.now + self._quantum)
            for process in self._all():
                process.wake()
                process.tick()
            if run:
                self.run_until_idle()
                self.checkpoint()

    # Faults and checkpoints.

    def crash(self, component: str, executor: int | None = None) -> None:
        """Kills the processes of a component, or one of them, and starts them anew at once.

        Their memory is lost, with whatever they had sent and not delivered. They go on from committed offsets, stored
        ledger buckets and stored state. "acker" means the ackers.
        """
        self._replace(self._known(component), executor, zombies=False)

    def pause(self, component: str, executor: int | None = None) -> None:
        """Lets processes of a component, or one of them, seem dead: others take their tasks, as after a `crash`, but the
        old ones wake up, unaware, and go on with what they had in hand, until Kafka refuses one of their checkpoints or
        `bury` ends them. Not for spouts, whose sources fence them."""
        self._replace(self._known(component), executor, zombies=True)

    def bury(self) -> None:
        """Ends the zombies there are."""
        self._zombies.clear()

    def _replace(self, component: str, executor: int | None, zombies: bool) -> None:
        executors = self._processes[component]
        for number in range(len(executors)) if executor is None else (executor,):
            old, executors[number] = executors[number], self._process(component, number)
            self._world.tell(
                f"at {self.now:g} s {component} {number} {'is taken for dead' if zombies else 'is killed'}"
            )
            if zombies:
                old.zombie, old.sleeps = True, self._world.random.randrange(_LONGEST_SLEEP)
                old.begin_checkpoint()  # the one that came due in its sleep
                self._zombies.append(old)
        self._flat = None

    def begin_checkpoint(self, component: str | None = None) -> None:
        """Starts a checkpoint of one component's processes, or of all; it goes on step by step, and a crash may cut it."""
        for process in self._all() if component is None else self._processes[self._known(component)]:
            process.begin_checkpoint()

    def checkpoint(self, component: str | None = None) -> None:
        """Takes a whole checkpoint of one component's processes, or of all, and does what else there is to do."""
        self.begin_checkpoint(component)
        self.run_until_idle()

    # What happened.

    @property
    def now(self) -> float:
        """Virtual seconds since the cluster began."""
        return self._world.now

    def acked(self, spout: str, task: int | None = None) -> list[Any]:
        """The message ids that the tasks of a spout were told to be done; of one task, by index, if `task` is given."""
        return self._outcomes(self._world.acked, spout, task)

    def failed(self, spout: str, task: int | None = None) -> list[Any]:
        """The message ids that the tasks of a spout were told to have failed or timed out."""
        return self._outcomes(self._world.failed, spout, task)

    def emitted(self, component: str, stream: str = DEFAULT_STREAM) -> list[list[Any]]:
        """The values of every tuple that a component emitted on a stream."""
        if stream not in self.topology.component(component).streams:
            raise TopologyError(f"{component!r} declares no stream {stream!r}")
        return list(self._world.emitted[component, stream])

    def sent(self, topic: str) -> list[bytes]:
        """The records of one of the topology's topics, partition by partition."""
        return self._world.logs.topic(topic)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """What could not be processed."""
        return [decode_letter(record) for record in self.sent(self.topology.dead_letters_topic)]

    @property
    def errors(self) -> list[TaskError]:
        """Errors raised or reported by components."""
        return list(self._world.errors)

    @property
    def open_trees(self) -> int:
        """Rows in the ackers' ledgers: trees that are not complete, and remains of trees that ended otherwise."""
        return sum(len(ledger) for p in self._all() if isinstance(p, AckerProcess) for ledger in p.ledgers.values())

    @property
    def pending(self) -> int:
        """Spout tuples that are neither acked nor failed."""
        return sum(task.in_flight for p in self._all() if isinstance(p, SpoutProcess) for task in p.spouts.values())

    def instance(self, component: str, task: int = 0) -> Spout | Bolt | BasicBolt:
        """The component's object that runs a task, as it is since the last crash."""
        for process in self._processes[self._known(component)]:
            if isinstance(process, SpoutProcess) and task in process.spouts:
                return process.spouts[task].spout
            if isinstance(process, BoltProcess) and task in process.bolts:
                return process.bolts[task].bolt
        raise TopologyError(f"{component!r} has no task {task} that runs a spout or bolt")

    def close(self) -> None:
        """Ends every component in good order (`deactivate` and `close`, or `cleanup`)."""
        for process in self._all():
            process.close()
        self._close_runner()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _process(self, component: str, executor: int) -> Process:
        if component == ACKER_COMPONENT:
            config = self.topology.config
            return AckerProcess(self._world, list(range(executor, config.acker_tasks, config.topology_acker_executors)))
        spec = self.topology.component(component)
        role: Callable[[World, str, list[int]], Process] = SpoutProcess if spec.kind == "spout" else BoltProcess
        return role(self._world, component, list(range(executor, spec.num_tasks, spec.parallelism)))

    def _all(self) -> list[Process]:
        if self._flat is None:
            self._flat = [process for executors in self._processes.values() for process in executors]
        return self._flat

    def _known(self, component: str) -> str:
        if component in self.topology.components or component == ACKER_COMPONENT:
            return component
        if component == "acker":
            return ACKER_COMPONENT
        return self.topology.component(component).id  # raises, naming the known ones

    def _outcomes(self, told: dict[int, list[Any]], spout: str, task: int | None) -> list[Any]:
        ids = self.topology.task_ids(spout)
        return [message for task_id in (ids if task is None else (ids[task],)) for message in told[task_id]]

    def _begin_needed_checkpoints(self) -> bool:
        needed = [process for process in self._all() if process.needs_checkpoint]
        for process in needed:
            process.begin_checkpoint()
        return bool(needed)


def _quantum(topology: Topology) -> float:
    """The stride of the clock: no timeout or tick is passed by more than this."""
    configs = [spec.config for spec in topology.components.values()]
    every = [config.topology_message_timeout_secs / 2 for config in configs]
    every += [config.topology_tick_tuple_freq_secs for config in configs if config.topology_tick_tuple_freq_secs]
    return min(every)
