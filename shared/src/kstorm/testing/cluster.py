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
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from random import Random
from time import monotonic, sleep
from types import TracebackType
from typing import Any

from kstorm.core.dead_letters import DeadLetter, decode_letter
from kstorm.errors import KstormError, TopologyError
from kstorm.testing.logs import TopicPartition
from kstorm.testing.placement import DiskFate, Heir, Placement
from kstorm.testing.process import Process
from kstorm.testing.processes import AckerProcess, BoltProcess, SpoutProcess
from kstorm.testing.starting import make_ready, start_tasks
from kstorm.testing.transactions import TRANSACTION_SECS
from kstorm.testing.world import TaskError, World, untold
from kstorm.topology import DEFAULT_STREAM, BasicBolt, Bolt, Spout, Topology
from kstorm.topology.context import CLOCK
from kstorm.topology.topology import ACKER_COMPONENT

_MOST_STEPS = 1_000_000
_REAL_STRIDE = 0.02  # seconds between two looks at the real clock


class LocalCluster(AbstractContextManager["LocalCluster"]):
    """Runs a topology. `resources` is what `TopologyContext.resources` gives to components.

    Time is simulated: it stands still but for `advance_time`. Nothing is checkpointed or committed but by `checkpoint`,
    by the passing of time, and where a stateful bolt's acks would otherwise wait for ever.

    With `simulated_time=False` seconds are those of the real clock since the cluster began: ticks and timeouts fire as it
    goes, while the cluster is driven, and `run_for` drives it for some time. It is for components that look at a clock
    themselves; such a run depends on the machine, whatever the seed.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int = 0,
        resources: dict[str, Any] | None = None,
        tell: Callable[[str], None] = untold,
        simulated_time: bool = True,
        active: bool = True,
        at_once: bool = True,
    ) -> None:
        """`active`: whether spouts emit from the beginning, or only after `activate`. `at_once`: whether tasks start at once
        where they can, or step by step while others work."""
        self.topology = topology
        ids = Random(f"ids of {seed}").getrandbits
        lent = {CLOCK: lambda: self.now, **(resources or {})}
        self._world = World(
            topology, Random(seed), lambda: ids(64) or 1, lent, tell=tell, at_once=at_once
        )
        self._world.active = active
        self._close_runner = weakref.finalize(self, self._world.runner.close)
        self._processes = Placement(self._world)
        self._world.on_crash = (
            None if at_once else lambda process, error: self._processes.restart(process)
        )
        self._quantum = _quantum(topology)
        self._start_tasks(self._processes)
        self._began = None if simulated_time else monotonic()

    # Running.

    def step(self) -> bool:
        """Takes one step of one process, by chance; False if nothing can be done now.

        Spouts that had nothing to emit are asked again when their trees end, and when there is nothing else to do.
        """
        self._follow_real_clock()
        step = self._world.scheduler.step
        if step() is not None:
            return True
        for process in self._processes:
            if isinstance(process, SpoutProcess):
                process.ask_again()
        while (came_to_something := step()) is not None:
            if came_to_something:
                return True
        return False

    def run_until_idle(self, most_steps: int = _MOST_STEPS) -> None:
        """Takes steps until nothing is left to do at this moment.

        Raises `KstormError` after `most_steps`: a spout that always has another tuple never lets the cluster idle.
        """
        for _ in range(most_steps):
            if not (self.step() or self._begin_needed_checkpoints() or self._end_waits()):
                return
        raise KstormError(
            f"topology {self.topology.name!r} is not idle after {most_steps} steps: let its spouts run dry, "
            "or take single steps with step()"
        )

    def advance_time(self, seconds: float, run: bool = True) -> None:
        """Moves the clock, in small strides at which ticks and timeouts fire.

        With `run` all work is done, and checkpoints are taken, after every stride. Without it only the clock moves: all
        other work stands still, as on a machine too busy to do anything. Raises `KstormError` if time is not simulated.
        """
        if self._began is not None:
            raise KstormError(
                f"the clock of {self.topology.name!r} is real and cannot be advanced: let time pass with "
                f"run_for({seconds:g}), or take a LocalCluster with simulated_time=True"
            )
        if not seconds >= 0:
            raise KstormError(
                f"advance_time({seconds}): a clock does not go back; give it 0 seconds or more"
            )
        if run:
            self.run_until_idle()
        until = self._world.now + seconds
        self._world.tell(f"the clock goes from {self.now:g} to {until:g} s")
        while self._world.now < until:
            self._set_clock(min(until, self._world.now + self._quantum))
            if run:
                self.run_until_idle()
                self.checkpoint()

    def run_for(self, seconds: float) -> None:
        """Lets time pass while all work is done, and takes a checkpoint: real seconds, which this waits for, or simulated
        ones, as `advance_time` does at once."""
        if self._began is None:
            self.advance_time(seconds)
            return
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            self.run_until_idle()
            sleep(min(left, _REAL_STRIDE))
        self.checkpoint()

    def _follow_real_clock(self) -> None:
        if self._began is not None and monotonic() - self._began >= self._world.now + _REAL_STRIDE:
            self._set_clock(monotonic() - self._began)

    def _set_clock(self, now: float) -> None:
        self._world.now = now
        self._processes.tell_zombies()
        for process in self._processes:
            process.tick()
        self._world.logs.expire_transactions(now, TRANSACTION_SECS)

    # Faults and checkpoints.

    def crash(self, component: str, executor: int | None = None, disk: DiskFate = "kept") -> None:
        """Kills the processes of a component, or one of them, and starts them anew at once.

        Their memory is lost, with whatever they had sent and not delivered. They go on from committed offsets, stored
        ledger buckets and stored state, recovered from the changelog onto what is left of the disk: "kept" as it was,
        "lost", or an "old" one of the life before. "acker" means the ackers.
        """
        for number in self._numbers(component, executor):
            self._tell_of(
                component,
                number,
                "is killed" if disk == "kept" else f"is killed, its disk is {disk}",
            )
            self._processes.crash(self._known(component), number, disk)
        self._start_tasks(self._processes.of(self._known(component)))

    def remake_changelog(self, component: str) -> None:
        """Deletes a component's changelog and makes it anew, while all of its processes are down: its state is empty then."""
        self._processes.remake_changelog(self._known(component))
        self._start_tasks(self._processes.of(self._known(component)))

    def vanish(self, component: str, executor: int = 0) -> bool:
        """Kills a process that stays away for longer than its session: the others get its tasks, until `scale` makes it
        again. Does nothing and returns False if the component has no others."""
        if vanished := self._processes.vanish(self._known(component), executor):
            self._tell_of(component, executor, "vanishes")
            self._start_tasks(self._processes.of(self._known(component)))
        return vanished

    def pause(
        self,
        component: str,
        executor: int | None = None,
        heir: Heir = "stranger",
        sleeps: bool = True,
    ) -> None:
        """Lets processes of a component, or one of them, seem dead: others take their tasks, as after a `crash`, but the
        old ones wake up, unaware, and go on with what they had in hand, until Kafka refuses one of their checkpoints or
        `bury` ends them.

        `heir`: who has their tasks: a "stranger", a new process; a "namesake", one under the same name; or the "others" of
        the component, if there are any. `sleeps=False`: they go on at once, and only their poll loops stand still.
        """
        for number in sorted(self._numbers(component, executor), reverse=True):
            self._tell_of(
                component, number, "is taken for dead" if sleeps else "has not polled for too long"
            )
            self._processes.pause(self._known(component), number, heir, sleeps)
        self._start_tasks(self._processes.of(self._known(component)))

    def bury(self) -> None:
        """Ends the zombies there are."""
        self._processes.bury()

    def deactivate(self) -> None:
        """Has the spouts stop to emit, those of processes that start later too (Storm's `LocalCluster.deactivate`)."""
        self._activate(False)

    def activate(self) -> None:
        """Has them emit again."""
        self._activate(True)

    def scale(self, component: str, executors: int) -> None:
        """Changes how many processes a component has (Storm's rebalance, `kubectl scale`).

        The tasks that move are handed over in an orderly way, step by step, while all others work on. Raises
        `TopologyError` if there would be none.
        """
        if executors < 1:
            raise TopologyError(
                f"{component!r} cannot run on {executors} processes: give it 1 or more"
            )
        self._world.tell(f"at {self.now:g} s {component} is scaled to {executors}")
        self._processes.scale(self._known(component), executors)

    def stall(self, topic: str, partition: int = 0) -> None:
        """Makes one partition of a topic unavailable, until `heal` or until nothing else is left to do."""
        self._world.tell(f"at {self.now:g} s {topic}[{partition}] is unavailable")
        self._world.logs.stalled.add((topic, partition))

    def heal(self) -> bool:
        """Makes all partitions available again; whether any was not."""
        stalled = bool(self._world.logs.stalled)
        self._world.logs.stalled.clear()
        if stalled:
            self.wake()
        return stalled

    def wake(self) -> None:
        """Something outside of the cluster has changed: every process looks what it can do."""
        for process in self._processes:
            process.wake()

    def rewind(self, component: str, executor: int = 0, to: int | None = None) -> None:
        """Sets the committed offsets of one process's tasks back, as happens when a group's offsets expire or are reset:
        to the offset `to`, or anywhere by chance. They are read when the tasks start the next time."""
        logs, chance = self._world.logs, self._world.random
        places = self._processes.of(self._known(component))[executor].places()
        logs.commit(
            [
                (place, chance.randint(0, logs.committed(place)) if to is None else to)
                for place in places
            ]
        )

    def compact(self) -> None:
        """Has the broker compact all changelogs: what is superseded is removed, and tombstones older than some time."""
        self._world.logs.compact_all(self.now, self._world.tombstone_secs)

    def begin_checkpoint(self, component: str | None = None) -> None:
        """Starts a checkpoint of one component's processes, or of all; it goes on step by step, and a crash may cut it."""
        for process in (
            self._processes if component is None else self._processes.of(self._known(component))
        ):
            process.begin_checkpoint()

    def checkpoint(self, component: str | None = None) -> None:
        """Takes a whole checkpoint of one component's processes, or of all, and does what else there is to do."""
        self.begin_checkpoint(component)
        self.run_until_idle()

    def disturb(
        self, duplicate: float = 0.0, reorder: float = 0.0, unanswered: float = 0.0
    ) -> None:
        """With these probabilities records arrive twice or too early, and requests about a transaction are not answered."""
        self._world.duplicate, self._world.reorder, self._world.unanswered = (
            duplicate,
            reorder,
            unanswered,
        )

    # What happened.

    @property
    def now(self) -> float:
        """Seconds since the cluster began, by its clock."""
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
        return sum(
            process.engine.open_trees
            for process in self._processes
            if isinstance(process, AckerProcess)
        )

    @property
    def unsettled(self) -> int:
        """Processes that have something on its way out."""
        return sum(not process.quiet for process in self._processes)

    @property
    def seen(self) -> Counter[str]:
        """How often what is rare has happened."""
        for process in self._processes:
            process.tally()
        return self._world.seen

    def processes(self, component: str) -> Sequence[Process[Any]]:
        """The processes of a component, for who wants to look into them."""
        return self._processes.of(self._known(component))

    def executors(self, component: str) -> int:
        """How many processes a component has."""
        return len(self._processes.of(self._known(component)))

    def any_place(self, random: Random) -> TopicPartition | None:
        """Some partition that has been written or read."""
        places = self._world.logs.places()
        return random.choice(places) if places else None

    @property
    def pending(self) -> int:
        """Spout tuples that are neither acked nor failed."""
        return sum(
            process.engine.in_flight
            for process in self._processes
            if isinstance(process, SpoutProcess)
        )

    def instance(self, component: str, task: int = 0) -> Spout | Bolt | BasicBolt:
        """The component's object that runs a task, as it is since the last crash."""
        if 0 <= task < self.topology.component(component).num_tasks:
            while not make_ready(process := self._processes.holder(component, task), task):
                if not process.dead:  # else the user's code ended it, and another is in its place
                    raise KstormError(
                        f"task {task} of {component!r} cannot start now: a partition that it needs is unavailable"
                    )
            if isinstance(process, SpoutProcess):
                return process.engine.slots[task].task.spout
            if isinstance(process, BoltProcess):
                return process.engine.slots[task].task.bolt
        raise TopologyError(f"{component!r} has no task {task} that runs a spout or bolt")

    def close(self) -> None:
        """Ends every component in an orderly way (`deactivate` and `close`, or `cleanup`)."""
        for process in self._processes:
            process.close()
        self._close_runner()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start_tasks(self, processes: Iterable[Process[Any]]) -> None:
        if self._world.at_once:
            for process in list(processes):
                start_tasks(process)

    def _activate(self, active: bool) -> None:
        self._world.active = active
        self._world.tell(
            f"at {self.now:g} s the topology is {'activated' if active else 'deactivated'}"
        )
        for process in self._processes:
            if isinstance(process, SpoutProcess):
                process.obey()

    def _known(self, component: str) -> str:
        if component in self.topology.components or component == ACKER_COMPONENT:
            return component
        if component == "acker":
            return ACKER_COMPONENT
        return self.topology.component(component).id  # raises, naming the known ones

    def _numbers(self, component: str, executor: int | None) -> Iterable[int]:
        return (
            range(len(self._processes.of(self._known(component))))
            if executor is None
            else (executor,)
        )

    def _tell_of(self, component: str, number: int, what: str) -> None:
        self._world.tell(f"at {self.now:g} s {component} {number} {what}")

    def _outcomes(self, told: dict[int, list[Any]], spout: str, task: int | None) -> list[Any]:
        ids = self.topology.task_ids(spout)
        return [
            message
            for task_id in (ids if task is None else (ids[task],))
            for message in told[task_id]
        ]

    def _begin_needed_checkpoints(self) -> bool:
        needed = [process for process in self._processes if process.waits_for_checkpoint]
        for process in needed:
            process.begin_checkpoint()
        return bool(needed)

    def _end_waits(self) -> bool:
        """When nobody else has anything to do, who slept wakes up, what stood still moves, and the transactions of the dead
        time out."""
        healed, woken = self.heal(), self._world.scheduler.wake_sleepers()
        return healed or woken or self._world.logs.expire_transactions(self.now, 0.0)


def _quantum(topology: Topology) -> float:
    """The stride of the clock: no timeout or tick is passed by more than this."""
    configs = [spec.config for spec in topology.components.values()]
    every = [config.topology_message_timeout_secs / 2 for config in configs]
    every += [
        config.topology_tick_tuple_freq_secs
        for config in configs
        if config.topology_tick_tuple_freq_secs
    ]
    return min(every)
