"""A whole topology in memory, for tests. It needs no broker and no real clock, and all randomness
is seeded.

    with LocalCluster(topology, seed=7) as cluster:
        cluster.run_until_idle()
        cluster.crash("count")
        cluster.advance_time(46)
        assert cluster.failed("sentences") == [3]

It runs the same spout tasks, bolt tasks and acker ledgers as the services. Only their environment
is simulated. `seed` determines the order in which processes take steps. The same seed, topology and
calls give the same run.
"""

import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from random import Random
from time import monotonic, sleep
from typing import Any

from kstorm.errors import KstormError, TopologyError
from kstorm.fitting import Natural, Positive, Share, Text, checked
from kstorm.testing.observed_cluster import ObservedCluster
from kstorm.testing.placement import DiskFate, Heir
from kstorm.testing.process import SimulatedProcess
from kstorm.testing.processes import SpoutProcess, limit_intake
from kstorm.testing.startup import start_tasks
from kstorm.testing.transactions import TRANSACTION_SECS
from kstorm.testing.world import SimulatedWorld, discard_narration
from kstorm.topology import Topology
from kstorm.topology.context import CLOCK

_MOST_STEPS = 1_000_000
_REAL_STRIDE = 0.02  # seconds between two readings of the real clock


class LocalCluster(ObservedCluster, AbstractContextManager["LocalCluster"]):
    """Runs a topology. `resources` is the value of `TopologyContext.resources` in components.

    Time is simulated and moves only in `advance_time` or `run_for`. Checkpoints and commits happen
    in `checkpoint`, as time passes, and where a stateful bolt's acks would otherwise wait forever.

    With `simulated_time=False`, time is the real clock's seconds since the cluster started. Ticks
    and timeouts then fire while the cluster is driven, and `run_for` drives it for a given time.
    Use it for components that read a clock themselves. Such a run depends on the machine, whatever
    the seed.
    """

    @checked()
    def __init__(
        self,
        topology: Topology,
        seed: int = 0,
        resources: dict[str, Any] | None = None,
        tell: Callable[[str], None] = discard_narration,
        simulated_time: bool = True,
        active: bool = True,
        at_once: bool = True,
    ) -> None:
        """`active=False`: spouts emit only after `activate`. `at_once=False`: tasks start step by
        step while others work, instead of immediately where possible."""
        ids = Random(f"ids of {seed}").getrandbits
        lent = {CLOCK: lambda: self.now, **(resources or {})}
        world = SimulatedWorld(
            topology, Random(seed), lambda: ids(64) or 1, lent, tell=tell, at_once=at_once
        )
        world.active = active
        self._close_runner = weakref.finalize(self, world.runner.close)
        super().__init__(topology, world)
        self._world.on_crash = (
            None if at_once else lambda process, error: self._processes.restart(process)
        )
        self._quantum = _quantum(topology)
        self._start_tasks(self._processes)
        self._began = None if simulated_time else monotonic()

    # Running.

    def step(self) -> bool:
        """Take one step of a random process. Return False if nothing can be done now.

        Spouts that had nothing to emit are asked again when their trees end, and when nothing else
        is left to do.
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

    @checked()
    def run_until_idle(self, most_steps: Positive = _MOST_STEPS) -> None:
        """Take steps until nothing is left to do at the current time.

        Raises `KstormError` after `most_steps`. A spout that always has another tuple keeps the
        cluster busy forever.
        """
        for _ in range(most_steps):
            if not (self.step() or self._begin_needed_checkpoints() or self._end_waits()):
                return
        raise KstormError(
            f"topology {self.topology.name!r} is not idle after {most_steps} steps: let its "
            "spouts run dry, or take single steps with step()"
        )

    @checked()
    def advance_time(self, seconds: float, run: bool = True) -> None:
        """Advance the clock in small strides at which ticks and timeouts fire.

        With `run`, the cluster finishes all work and takes a checkpoint after every stride. Without
        it only the clock moves, as on a machine too busy to do any work. Raises `KstormError` if
        time is not simulated.
        """
        if self._began is not None:
            raise KstormError(
                f"the clock of {self.topology.name!r} is real and cannot be advanced: let time "
                f"pass with run_for({seconds:g}), or use a LocalCluster with simulated_time=True"
            )
        if not seconds >= 0:
            raise KstormError(
                f"advance_time({seconds}): a clock cannot go back; give it 0 seconds or more"
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

    @checked()
    def run_for(self, seconds: float) -> None:
        """Let `seconds` pass while all work is done, then take a checkpoint.

        With real time this blocks for that long. With simulated time it is `advance_time`.
        """
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

    @checked()
    def crash(
        self, component: Text, executor: Natural | None = None, disk: DiskFate = "kept"
    ) -> None:
        """Kill the processes of a component, or one of them, and restart them immediately.

        They lose their memory, and everything that they had sent but that was not delivered. They
        resume from committed offsets, stored ledger buckets and stored state. State is recovered
        from the changelog onto the remaining `disk`: "kept" as it was, "lost", "old" (from the
        previous run) or "strange" (of another topology). The component "acker" means the ackers.
        """
        for number in self._numbers(component, executor):
            self._tell_of(
                component,
                number,
                "is killed" if disk == "kept" else f"is killed, its disk is {disk}",
            )
            self._processes.crash(self._known(component), number, disk)
        self._start_tasks(self._processes.of(self._known(component)))

    @checked()
    def remake_changelog(self, component: Text) -> None:
        """Delete and recreate a component's changelog while all of its processes are down. Its
        state is then empty."""
        self._processes.remake_changelog(self._known(component))
        self._start_tasks(self._processes.of(self._known(component)))

    @checked()
    def vanish(self, component: Text, executor: Natural = 0) -> bool:
        """Kill a process that stays away longer than its session, so that the others get its tasks.

        `scale` brings it back. Returns False and does nothing if the component has no other
        processes.
        """
        if vanished := self._processes.vanish(self._known(component), executor):
            self._tell_of(component, executor, "vanishes")
            self._start_tasks(self._processes.of(self._known(component)))
        return vanished

    @checked()
    def pause(
        self,
        component: Text,
        executor: Natural | None = None,
        heir: Heir = "stranger",
        sleeps: bool = True,
    ) -> None:
        """Make processes of a component, or one of them, zombies: others take their tasks, as after
        a `crash`.

        The old processes wake up unaware and continue with the work in hand. They stop when Kafka
        refuses one of their checkpoints or when `bury` ends them.

        `heir` receives their tasks: a "stranger" (a new process), a "namesake" (one with the same
        name), or the "others" of the component, if there are any. With `sleeps=False` they continue
        at once, and only their poll loops stall.
        """
        for number in sorted(self._numbers(component, executor), reverse=True):
            self._tell_of(
                component, number, "is taken for dead" if sleeps else "has not polled for too long"
            )
            self._processes.pause(self._known(component), number, heir, sleeps)
        self._start_tasks(self._processes.of(self._known(component)))

    def bury(self) -> None:
        """End all current zombies."""
        self._processes.bury()

    def deactivate(self) -> None:
        """Stop the spouts from emitting, also in processes that start later (Storm's
        `LocalCluster.deactivate`)."""
        self._activate(False)

    def activate(self) -> None:
        """Let the spouts emit again."""
        self._activate(True)

    @checked()
    def scale(self, component: Text, executors: Positive) -> None:
        """Change the number of processes of a component (Storm's rebalance, `kubectl scale`).

        Moving tasks are handed over step by step while all others keep working. Raises
        `TopologyError` for fewer than 1 process.
        """
        if executors < 1:
            raise TopologyError(
                f"{component!r} cannot run on {executors} processes: give it 1 or more"
            )
        self._world.tell(f"at {self.now:g} s {component} is scaled to {executors}")
        self._processes.scale(self._known(component), executors)

    @checked()
    def stall(self, topic: Text, partition: Natural = 0) -> None:
        """Make one partition of a topic unavailable, until `heal` or until nothing else is left to
        do."""
        self._world.tell(f"at {self.now:g} s {topic}[{partition}] is unavailable")
        self._world.logs.stalled.add((topic, partition))

    def heal(self) -> bool:
        """Make all partitions available again. Return True if any was unavailable."""
        stalled = bool(self._world.logs.stalled)
        self._world.logs.stalled.clear()
        if stalled:
            self.wake()
        return stalled

    def wake(self) -> None:
        """Make every process check for work, after something outside the cluster has changed."""
        for process in self._processes:
            process.wake()

    @checked()
    def rewind(self, component: Text, executor: Natural = 0, to: Natural | None = None) -> None:
        """Set the committed offsets of one process's tasks back, as when a group's offsets expire
        or are reset.

        They go to the offset `to`, or to a random one. Tasks read them at their next start.
        """
        logs, chance = self._world.logs, self._world.random
        places = self._processes.of(self._known(component))[executor].places()
        logs.commit(
            [
                (place, chance.randint(0, logs.committed(place)) if to is None else to)
                for place in places
            ]
        )

    def compact(self) -> None:
        """Compact all changelogs: remove superseded records and expired tombstones."""
        self._world.logs.compact_all(self.now, self._world.tombstone_secs)

    @checked()
    def begin_checkpoint(self, component: Text | None = None) -> None:
        """Start a checkpoint of one component's processes, or of all. It proceeds in steps, and a
        crash may interrupt it."""
        for process in (
            self._processes if component is None else self._processes.of(self._known(component))
        ):
            process.begin_checkpoint()

    @checked()
    def checkpoint(self, component: Text | None = None) -> None:
        """Take a complete checkpoint of one component's processes, or of all. Runs until idle."""
        self.begin_checkpoint(component)
        self.run_until_idle()

    @checked()
    def limit_intake(self, high: Positive, low: Natural) -> None:
        """Let processes stop polling above `high` records in hand, until `low` are left.

        A record is in hand until its results have arrived.
        """
        self._world.intake = high, low
        for process in self._processes:
            limit_intake(process, self._world.intake)

    @checked()
    def disturb(
        self, duplicate: Share = 0.0, reorder: Share = 0.0, unanswered: Share = 0.0
    ) -> None:
        """Set the probabilities that a record is delivered twice, that one arrives too early, and
        that a transaction request gets no answer."""
        world = self._world
        world.duplicate, world.reorder, world.unanswered = duplicate, reorder, unanswered

    def close(self) -> None:
        """Close every component in order (`deactivate` and `close`, or `cleanup`).

        If components raise, the others are closed anyway, and the first exception is raised then.
        """
        for process in self._processes:
            process.close()
        self._close_runner()
        errors, self._world.closing_errors = self._world.closing_errors, []
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"another component also raised {other!r} while it was closed")
            raise errors[0]

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_tasks(self, processes: Iterable[SimulatedProcess[Any]]) -> None:
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

    def _numbers(self, component: str, executor: int | None) -> Iterable[int]:
        return (
            range(len(self._processes.of(self._known(component))))
            if executor is None
            else (executor,)
        )

    def _tell_of(self, component: str, number: int, what: str) -> None:
        self._world.tell(f"at {self.now:g} s {component} {number} {what}")

    def _begin_needed_checkpoints(self) -> bool:
        needed = [process for process in self._processes if process.waits_for_checkpoint]
        for process in needed:
            process.begin_checkpoint()
        return bool(needed)

    def _end_waits(self) -> bool:
        """Wake sleepers, heal stalled partitions and expire the transactions of dead processes.

        Called when nothing else is left to do.
        """
        healed, woken = self.heal(), self._world.scheduler.wake_sleepers()
        return healed or woken or self._world.logs.expire_transactions(self.now, 0.0)


def _quantum(topology: Topology) -> float:
    """Return the stride of the clock, by which a timeout or tick may be overshot at most."""
    configs = [spec.config for spec in topology.components.values()]
    every = [config.topology_message_timeout_secs / 2 for config in configs]
    every += [
        config.topology_tick_tuple_freq_secs
        for config in configs
        if config.topology_tick_tuple_freq_secs
    ]
    return min(every)
