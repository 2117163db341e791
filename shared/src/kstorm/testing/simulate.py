"""Run a user's topology many times under simulated faults, and let a judge check each outcome."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isinf
from random import Random
from typing import TYPE_CHECKING, Any

from kstorm.errors import ArgumentError, ConfigError, KstormError, TopologyError
from kstorm.fitting import Natural, checked, fits
from kstorm.testing.capture import TupleCaptureBolt
from kstorm.testing.cluster import LocalCluster
from kstorm.testing.complete import check_names
from kstorm.testing.fault_phase import MOST_ROUNDS, work_in_calm
from kstorm.testing.hunter import FAULTS, NOT_EXACTLY_ONCE, Hunter, InjectedFault
from kstorm.testing.inputs import InputSpout
from kstorm.testing.log_share import is_emitted
from kstorm.testing.replacement import replace_components
from kstorm.testing.shrinking import shrink
from kstorm.testing.spouts import FixedTuple
from kstorm.testing.unfinished_work import unfinished_tasks
from kstorm.testing.world import SimulatedWorld, discard_narration
from kstorm.topology import Topology

if TYPE_CHECKING:
    from kstorm.testing.kafka import FakeKafka

Judge = Callable[[Any], object]
"""Called with the `LocalCluster`, which is a `KafkaCluster` if a Kafka is given."""
Inputs = Mapping[str, Sequence[FixedTuple]]
"""Tuples to emit, by spout."""

_MOST_TIMEOUTS_AFTERWARDS = 8
"""Message timeouts within which replays of messages that are already acked must end."""
_LONGEST_TAIL = 100
"""Steps for which faults may continue once everything is acked."""
_MOST_SHOWN = 12
"""Faults shown in an error message."""


class SimulationError(AssertionError):
    """A topology failed in a schedule. The message names the seed and the faults needed to
    reproduce it."""

    def __init__(
        self, seed: int, what: str, strikes: Sequence[InjectedFault] = (), total: int = 0
    ) -> None:
        """`strikes`: the faults needed, out of `total`."""
        super().__init__(_message(seed, what, strikes, total))
        self.seed = seed


class _Found(Exception):  # noqa: N818 - not an error of the simulation
    """A schedule failed: the kind of failure and its description."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind, self.what = kind, what


@dataclass
class SimulationReport:
    """Statistics of the schedules of `simulate`."""

    schedules: int = 0
    steps: int = 0
    """Steps taken while faults were injected."""
    faults: Counter[str] = field(default_factory=Counter)
    """Injected faults by name."""
    in_flight: Counter[str] = field(default_factory=Counter)
    """Faults injected while tuples were in flight. At other times they can do little harm."""
    replays: int = 0
    """Number of times that an input was emitted again."""


@dataclass(frozen=True)
class _Trial:
    """Parameters shared by all schedules."""

    topology: Topology | Callable[[], Topology]
    inputs: Inputs
    judge: Judge
    faults: Collection[str]
    steps: int
    resources: dict[str, Any] | None
    kafka: "Callable[[], FakeKafka] | None"


@checked()
def simulate(
    topology: Topology | Callable[[], Topology],
    inputs: Mapping[str, Iterable[Sequence[Any] | FixedTuple]],
    judge: Judge,
    seeds: Iterable[int] = range(100),
    *,
    faults: Collection[str] = FAULTS,
    steps: Natural = 2000,
    only: Collection[int] | None = None,
    resources: dict[str, Any] | None = None,
    kafka: "Callable[[], FakeKafka] | None" = None,
    tell: Callable[[str], None] = discard_narration,
) -> SimulationReport:
    """Run a topology once per seed under random faults, then call `judge` with the cluster.

    Faults strike between any two steps, for at most `steps` steps. They stop a moment after every
    input is acked. Then the topology runs without faults until every input is acked. `judge`
    asserts what must hold.

        def no_word_is_lost(cluster):
            assert {word for word, count in cluster.emitted("count")} == {"the", "cow"}

        simulate(topology, {"lines": [["the cow"]]}, no_word_is_lost)

    `inputs` lists what each spout emits instead of its own tuples. Failed inputs are emitted again.
    Message ids are positions in the list. Components are copied for each seed, and every
    `TupleCaptureBolt` is cleared. If components share anything else, pass a function that builds
    the topology. `kafka` creates the `FakeKafka` that KafkaBolts of a schedule write to. The judge
    finds it as `cluster.kafka`. `faults` are the names from `FAULTS` that may strike.

    Raises `SimulationError`, with the seed, in three cases:

    - inputs are not acked within 30 message timeouts after the last fault
    - the topology never idles
    - the judge raises an `AssertionError`

    Before it raises, it reruns the seed with fewer and fewer faults to find the ones needed. `only`
    injects just these faults, by number. The same arguments give the same run.

    In an exactly-once topology each input is emitted once, and the error reports tuples that are
    still unfinished. "offsets set back" is left out there, because exactly-once processing cannot
    survive an offset reset.
    """
    if kafka is not None and not fits(kafka, Callable[[], Any]):
        raise ArgumentError(
            f"simulate: kafka is {kafka!r}: it must be a function that returns a FakeKafka, or None"
        )
    given = {name: [_fixed(values) for values in tuples] for name, tuples in inputs.items()}
    _check_faults(faults)
    trial = _Trial(topology, given, judge, faults, steps, resources, kafka)
    report = SimulationReport()
    for seed in seeds:
        schedule = _Schedule(trial, seed, only, tell)
        try:
            schedule.run()
        except _Found as found:
            raise _explained(trial, seed, schedule, found) from found.__cause__
        schedule.add_to(report)
    return report


def _explained(trial: _Trial, seed: int, schedule: "_Schedule", found: _Found) -> SimulationError:
    """Return the error, with the fewest faults that still cause a failure of the same kind."""
    total, last = len(schedule.hunter.strikes), (schedule, found)

    def shows_it_too(numbers: Sequence[int]) -> bool:
        nonlocal last
        again = _Schedule(trial, seed, numbers)
        try:
            again.run()
        except _Found as other:
            if other.kind == found.kind:
                last = again, other
                return True
        except Exception:  # noqa: BLE001 - with other faults user code and judge may raise anything
            return False
        return False

    shrink([strike.number for strike in schedule.hunter.strikes], shows_it_too)
    schedule, found = last
    return SimulationError(seed, found.what, schedule.hunter.strikes, total)


class _Schedule:
    """A run with one seed and, with `only`, just some of its faults."""

    def __init__(
        self,
        trial: _Trial,
        seed: int,
        only: Collection[int] | None,
        tell: Callable[[str], None] = discard_narration,
    ) -> None:
        topology = trial.topology() if callable(trial.topology) else trial.topology
        check_names(topology, set(trial.inputs))
        self._timeout = topology.longest_message_timeout_secs
        if isinf(self._timeout):
            raise TopologyError(
                f"{topology.name!r} has no message timeouts, so lost messages are never emitted "
                "again: set topology_message_timeout_secs"
            )
        for spec in topology.bolts:
            if isinstance(spec.component, TupleCaptureBolt):
                spec.component.clear()
        self._trial, self._seed, self._only, self._tell = trial, seed, only, tell
        self._spouts = {
            name: InputSpout(
                given,
                {stream.id: stream.fields for stream in topology.component(name).streams.values()},
            )
            for name, given in trial.inputs.items()
        }
        self._random = Random(f"faults {seed}")
        self._steps = 0
        self._unfinished_at = -1  # the last revision of the logs with unfinished work
        frame = min(self._random.choice((1, 3, 4000)), topology.config.topology_frame_max_tuples)
        wired = replace_components(topology, self._spouts)
        # Small frames, so that more can happen between two of them.
        config = replace(wired.config, topology_frame_max_tuples=frame)
        self._topology = Topology(wired.name, config, wired.components)

    @property
    def _exact(self) -> bool:
        return self._topology.config.exactly_once

    @property
    def _faults(self) -> Collection[str]:
        return set(self._trial.faults) - NOT_EXACTLY_ONCE if self._exact else self._trial.faults

    def run(self) -> None:
        """Run the schedule and the judge. Raises `_Found`."""
        trial = self._trial
        try:
            make = LocalCluster if trial.kafka is None else trial.kafka().cluster
            with make(
                self._topology, self._seed, trial.resources, tell=self._tell, at_once=False
            ) as cluster:
                self.hunter = Hunter(cluster, self._random, self._faults, self._only)
                self._world = cluster.processes(cluster.topology.spouts[0].id)[0].world
                try:
                    self._work(cluster)
                except KstormError as error:
                    raise _Found("no rest", f"{error}{_last_error(cluster)}") from error
                trial.judge(cluster)
        except _Found:
            raise
        except AssertionError as error:
            raise _Found("judged", str(error) or "the judge's assertion does not hold") from error
        except Exception as error:
            error.add_note(f"in simulate, with seed {self._seed}")
            raise

    def add_to(self, report: SimulationReport) -> None:
        report.schedules += 1
        report.steps += self._steps
        report.faults += self.hunter.struck
        report.in_flight += self.hunter.in_flight
        report.replays += sum(spout.shared.replays for spout in self._spouts.values())

    def _work(self, cluster: LocalCluster) -> None:
        self._work_among_faults(cluster)
        done = work_in_calm(cluster, self.hunter, self._done, lambda: self._let_pass(cluster, 0.5))
        if not done and self._exact:
            raise _Found("not finished", f"{_what_is_left(self._world)}{_last_error(cluster)}")
        if not done:
            missing = {name: spout.shared.missing() for name, spout in self._spouts.items()}
            names = ", ".join(
                f"{positions} of {name!r}" for name, positions in missing.items() if positions
            )
            raise _Found(
                "not acked",
                f"the inputs {names} were not acked within {MOST_ROUNDS / 2:g} timeouts after the "
                "last fault: does a bolt hold them forever, forget to ack them, or fail them each "
                f"time?{_last_error(cluster)}",
            )
        for _ in range(_MOST_TIMEOUTS_AFTERWARDS):
            if not (cluster.pending or cluster.open_trees or cluster.unsettled):
                break
            self._let_pass(cluster, 1)
        cluster.checkpoint()
        for name in ("duplicate record", "reordered record"):
            self.hunter.struck[name] += cluster.seen[name]

    def _work_among_faults(self, cluster: LocalCluster) -> None:
        self.hunter.begin()
        left = self._trial.steps
        tail = self._random.randrange(_LONGEST_TAIL)
        while left > 0:
            self.hunter.strike()
            if not cluster.step():
                self.hunter.pass_time()
            left -= 1
            self._steps += 1
            if left > tail and self._done():
                left = tail

    def _let_pass(self, cluster: LocalCluster, timeouts: float) -> None:
        cluster.advance_time(timeouts * self._timeout)

    def _done(self) -> bool:
        if not self._exact:
            return all(spout.shared.done for spout in self._spouts.values())
        world = self._world
        if world.logs.revision == self._unfinished_at:
            return False
        done = all(
            is_emitted(world, name, len(given)) for name, given in self._trial.inputs.items()
        ) and not any(unfinished_tasks(world))
        self._unfinished_at = -1 if done else world.logs.revision
        return done


def _fixed(values: Sequence[Any] | FixedTuple) -> FixedTuple:
    return values if isinstance(values, FixedTuple) else FixedTuple(values)


def _check_faults(faults: Collection[str]) -> None:
    for name in faults:
        if name not in FAULTS:
            raise ConfigError(
                f"faults: there is no fault {name!r}: the faults are {', '.join(sorted(FAULTS))}"
            )


def _what_is_left(world: SimulatedWorld) -> str:
    left = ", ".join(unfinished_tasks(world)) or "none"
    return (
        f"{MOST_ROUNDS / 2:g} timeouts after the last fault, these bolt tasks have unfinished "
        f"tuples: {left}. Does a bolt hold them forever, forget to ack them, or keep the spouts "
        "waiting?"
    )


def _last_error(cluster: LocalCluster) -> str:
    if not cluster.errors:
        return ""
    last = cluster.errors[-1]
    return (
        f" The last of {len(cluster.errors)} errors: {last.component!r}, {last.doing}: "
        f"{last.error!r}."
    )


def _message(seed: int, what: str, strikes: Sequence[InjectedFault], total: int) -> str:
    if not strikes:
        faults = "This happens without any fault."
    else:
        left_out = len(strikes) - _MOST_SHOWN
        lines = [f"The seed causes {total} faults; these {len(strikes)} are enough:"]
        lines += [f"  (the first {left_out} are not shown)"] if left_out > 0 else []
        faults = "\n".join([*lines, *map(str, strikes[-_MOST_SHOWN:])])
    numbers = [strike.number for strike in strikes]
    return (
        f"seed {seed}: {what}\n{faults}\nRun it again with simulate(…, seeds=[{seed}], "
        f"only={numbers}, tell=print), or with all of its faults with seeds=[{seed}]."
    )
