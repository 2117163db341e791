"""The adversary of `simulate`, which searches for bugs in user bolts."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from kstorm.core.engine.engine import SETTLE_SECS
from kstorm.testing.adversary import Adversary, Fault
from kstorm.testing.capture import TupleCaptureBolt
from kstorm.testing.cluster import LocalCluster
from kstorm.testing.process import SimulatedProcess
from kstorm.testing.processes import BoltProcess, count_tasks
from kstorm.topology.topology import ACKER_COMPONENT

FAULTS = frozenset(
    {
        "kill",
        "kill for good",
        "zombie",
        "poll loop stopped",
        "lost disk",
        "disk from an earlier run",
        "disk of another topic",
        "compaction",
        "offsets set back",
        "scale",
        "slow broker",
        "slow process",
        "machine too busy",
        "deactivation",
        "duplicate record",
        "reordered record",
    }
)
"""Names of the faults that `simulate` can inject. docs/development/simulation.md explains each."""
NOT_EXACTLY_ONCE = frozenset({"offsets set back"})
"""Faults that are left out with exactly-once processing. After an offset reset, everything is
executed again by design."""
COST_NO_TIMEOUT = frozenset(
    {"scale", "slow broker", "slow process", "deactivation", "reordered record"}
)
_CHANCES = (0.01, 0.02, 0.04)
_CHECKPOINTS = (0.01, 0.03, 0.1)
_COLLECTIONS = (dict, list, set, deque)
_MOST_PROCESSES = 3
_LONGEST_OUTAGE = 150  # steps
_LONGEST_SLEEP = 300  # steps of others


@dataclass(frozen=True)
class InjectedFault:
    """An injected fault."""

    number: int
    step: int
    secs: float
    what: str

    def __str__(self) -> str:
        return f"{self.number:>5}. at step {self.step}, {self.secs:.1f} s: {self.what}"


@dataclass
class _Ambush:
    """A process that will be killed. `patience`: steps to wait for the right moment."""

    number: int
    component: str
    process: SimulatedProcess[Any]
    patience: int = 200


class Hunter(Adversary):
    """Injects the chosen faults while tuples are in flight.

    A bolt usually breaks on a fault just after a checkpoint, when nothing that was acked is sent
    again. Otherwise it breaks on one just before a checkpoint, when all of it comes again. So
    checkpoints are frequent, with a rate of their own, and most faults strike bolts.

    Each strike has a number and its own random generator. So a schedule can run again with `only`
    some of its strikes.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        random: Random,
        chosen: Collection[str],
        only: Collection[int] | None = None,
    ) -> None:
        super().__init__(cluster, random, _victims(cluster, random))
        self.chance, self._often = self.draw(*_CHANCES), self.draw(*_CHECKPOINTS)
        self.strikes: list[InjectedFault] = []
        """Injected faults, in order."""
        self.in_flight: Counter[str] = Counter()
        """Faults by name that struck while tuples were in flight."""
        self._chosen, self._only, self._draws = chosen, only, random
        self._step = self._number = 0
        self._mended = 0
        self._ambushes: list[_Ambush] = []
        self._victim = ""
        # Then advancing the clock must not cause a timeout either.
        if COST_NO_TIMEOUT.issuperset(chosen):
            self._patience = min(0.9 * SETTLE_SECS, 0.9 * self._timeout)

    def faults(self) -> list[Fault]:
        """Checkpoints have a rate of their own, so they are left out."""
        own = (self.checkpoint, self.heal, self.activate)
        faults = [(weight, fault) for weight, fault in super().faults() if fault not in own]
        faults += [(10, self.doze), (20, self.lie_in_ambush), (16, self.scale)]
        return [(weight, fault) for weight, fault in faults if self._is_chosen(fault)]

    def _is_chosen(self, fault: Callable[[], str]) -> bool:
        if fault == self.lie_in_ambush:
            fault = self.crash
        by_name = {
            "kill": self.crash,
            "kill for good": self.vanish,
            "zombie": self.pause,
            "poll loop stopped": self.stop_polling,
            "lost disk": self.lose_disk,
            "disk from an earlier run": self.restore_disk,
            "disk of another topic": self.find_strange_disk,
            "compaction": self.compact,
            "offsets set back": self.rewind,
            "scale": self.scale,
            "slow broker": self.make_unavailable,
            "slow process": self.doze,
            "machine too busy": self.stand_still,
            "deactivation": self.deactivate,
        }
        return all(
            fault != left_out for name, left_out in by_name.items() if name not in self._chosen
        )

    def begin(self) -> None:
        """Disturbances of records are strike number 0."""
        super().begin()
        duplicate, reorder = self.draw(0.0, 0.0, 0.05), self.draw(0.0, 0.1)
        wanted = self._only is None or 0 in self._only
        duplicate = duplicate if wanted and "duplicate record" in self._chosen else 0.0
        reorder = reorder if wanted and "reordered record" in self._chosen else 0.0
        self._cluster.disturb(duplicate, reorder)
        if duplicate or reorder:
            what = (
                f"from now on {duplicate:.0%} of the records arrive twice, and {reorder:.0%} too "
                "early"
            )
            self.strikes.append(InjectedFault(0, 0, 0.0, what))

    def strike(self) -> None:
        """Inject a checkpoint or a fault at random."""
        self._step += 1
        if self._step == self._mended:
            self.heal()
            self.activate()
        self._ambushes = [ambush for ambush in self._ambushes if not self._is_over(ambush)]
        drawn = self._draws.random()
        if drawn >= self._often + self.chance:
            return
        self._number += 1
        self._random = Random(self._draws.getrandbits(64))
        fault = (
            self.checkpoint
            if drawn < self._often
            else self._random.choices(self._faults, self._weights)[0]
        )
        if self._only is None or self._number in self._only or fault in self._mending:
            self._make(fault)

    @property
    def _mending(self) -> Sequence[Callable[[], str]]:
        return self.pass_time, self.bury

    def _make(self, fault: Callable[[], str]) -> None:
        self._victim = ""
        in_flight = self._cluster.pending > 0
        if name := fault():
            self._note(self._number, name, in_flight)
            if fault in (self.make_unavailable, self.deactivate):
                self._mended = self._step + self._random.randint(1, _LONGEST_OUTAGE)

    def _note(self, number: int, name: str, in_flight: bool = True) -> None:
        self.struck[name] += 1
        self.in_flight[name] += in_flight
        what = f"{name}, {self._victim}" if self._victim else name
        self.strikes.append(InjectedFault(number, self._step, self._cluster.now, what))

    def scale(self) -> str:
        """Prefer a bolt that has something in memory or state, so that its tasks move."""
        keeping = [name for name in self._names if any(map(keeps, self._cluster.processes(name)))]
        name = self._random.choice(keeping) if keeping else self._name()
        most = min(count_tasks(self._cluster.topology, name), _MOST_PROCESSES)
        others = [
            number for number in range(1, most + 1) if number != self._cluster.executors(name)
        ]
        processes = self._random.choice(others or [most])
        self._victim = f"of {name!r} to {processes}"
        self._cluster.scale(name, processes)
        return "scale"

    def doze(self) -> str:
        """Put a process to sleep for a while, so that the others run ahead of it."""
        name, number = self._process()
        process = self._cluster.processes(name)[number]
        process.world.tell(f"at {self._cluster.now:g} s {name} {number} is slow")
        process.world.scheduler.put_to_sleep(process, self._random.randint(20, _LONGEST_SLEEP))
        return "slow process"

    def lie_in_ambush(self) -> str:
        """Mark a bolt that has something in memory, to be killed when all of its work is committed.

        Then the contents of its memory are not replayed.
        """
        places = [
            (name, process) for name in self._names for process in self._cluster.processes(name)
        ]
        holders = [(name, process) for name, process in places if holds(process)]
        if holders:
            self._ambushes.append(_Ambush(self._number, *self._random.choice(holders)))
        return ""

    def _is_over(self, ambush: _Ambush) -> bool:
        """Strike if the moment has come. Return True once it has struck or can no longer strike."""
        process, name = ambush.process, ambush.component
        processes = self._cluster.processes(name)
        if process not in processes or ambush.patience == 0:
            return True
        ambush.patience -= 1
        if not (is_committed(process) and holds(process)):
            if ambush.patience % 10 == 0:
                process.begin_checkpoint()
            return False
        number = processes.index(process)
        self._cluster.crash(name, number)
        self._victim = f"{name!r} process {number}, when all of its work was committed"
        self._note(ambush.number, f"kill of {self._role(name)}")
        return True

    def _name(self) -> str:
        name = super()._name()
        self._victim = f"of {name!r}"
        return name

    def _process(self) -> tuple[str, int]:
        name, number = super()._process()
        self._victim = f"{name!r} process {number}"
        return name, number


def holds(process: SimulatedProcess[Any]) -> bool:
    """Return True if a bolt of this process has something in memory: a tuple, or an attribute that
    is a non-empty collection."""
    tasks = (
        [tenure.task for tenure in process.engine.tenures.values() if tenure.works]
        if isinstance(process, BoltProcess)
        else []
    )
    return any(
        task.unfinished > 0
        or any(value for value in vars(task.bolt).values() if isinstance(value, _COLLECTIONS))
        for task in tasks
    )


def keeps(process: SimulatedProcess[Any]) -> bool:
    """Return True if a bolt of this process has something in memory or in its state."""
    states = process.engine.states.values() if isinstance(process, BoltProcess) else ()
    return holds(process) or any(next(iter(state.items()), None) is not None for state in states)


def is_committed(process: SimulatedProcess[Any]) -> bool:
    """Return True if nothing that a process has done would be repeated if it died now."""
    topic, logs = process.engine.topic, process.world.logs
    return all(
        logs.committed((topic, task)) >= tenure.progress.begun
        for task, tenure in process.engine.tenures.items()
        if tenure.works
    )


def _victims(cluster: LocalCluster, random: Random) -> list[str]:
    """Return all components, or one user bolt alone.

    User bolts appear more often than the others, because their code is under test.
    """
    bolts = [
        spec.id
        for spec in cluster.topology.bolts
        if not isinstance(spec.component, TupleCaptureBolt)
    ]
    everybody = [*cluster.topology.components, ACKER_COMPONENT, *bolts, *bolts]
    return random.choice((everybody, [random.choice(bolts)])) if bolts else everybody
