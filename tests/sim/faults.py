"""The adversary of kstorm's own schedules. It also hits ZooKeeper, and has fault_mix."""

from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import Any

from kstorm.core.engine.engine import SETTLE_SECS
from kstorm.core.engine.tenure import Phase
from kstorm.testing.adversary import CHANCE, Adversary, Fault
from kstorm.testing.cluster import LocalCluster
from kstorm.testing.process import SimulatedProcess
from kstorm.topology.topology import ACKER_COMPONENT
from tests.sim.components import Join, Tally
from tests.sim.kafka_source import SourceTopic


class FaultMix(Enum):
    """The kinds of faults."""

    FOUL = auto()
    """All kinds."""
    GENTLE = auto()
    """Only faults that must cost no replay and no second execution.

    Ackers die, bolts and ackers move, records overtake each other.
    """
    STORM = auto()
    """Mostly faults of ZooKeeper, and of the spouts that store their offsets there."""
    UNTRACKED = auto()
    """Nothing is tracked, and only bolts are hit.

    A tuple that a bolt emits must be executed by the next bolt, or it is lost.
    """
    ORDERLY = auto()
    """Tasks of all kinds move repeatedly, and nothing else happens. Nothing is executed twice."""
    HANDOVER = auto()
    """Mostly stateful bolts: assumed dead, killed, moved, on disks in any condition."""
    TAKEOVER = auto()
    """Stateful bolts are assumed dead while a checkpoint's commit is pending.

    The commit then arrives during the takeover.
    """


DRAWN = tuple(fault_mix for fault_mix in FaultMix if fault_mix is not FaultMix.TAKEOVER)
"""The fault_mix that a schedule may draw. Mutants also use the others."""

CALM = (FaultMix.GENTLE, FaultMix.ORDERLY)
"""Weather in which no fault may cost a replay or a second execution."""

_HEIR_STEPS = 300

_CHANCES = {
    FaultMix.STORM: 0.25,
    FaultMix.HANDOVER: 0.15,
    FaultMix.ORDERLY: 0.15,
    FaultMix.TAKEOVER: 0.2,
}


def _without(faults: list[Fault], *costly: Callable[[], str]) -> list[Fault]:
    return [(weight, fault) for weight, fault in faults if fault not in costly]


def _only_commits(process: SimulatedProcess[Any]) -> bool:
    return process.transacting is not None and process.transacting.handed_in


class ScheduleAdversary(Adversary):
    """An adversary in some fault_mix."""

    def __init__(
        self,
        cluster: LocalCluster,
        source: SourceTopic | None,
        random: Random,
        fault_mix: FaultMix,
        forget: Callable[[str], None],
    ) -> None:
        """`forget` is called with a component whose state is lost with its changelog."""
        topology = cluster.topology
        bolts = [spec.id for spec in topology.bolts]
        keepers = [spec.id for spec in topology.bolts if isinstance(spec.component, Tally)]
        names = {
            FaultMix.FOUL: [*topology.components, *[ACKER_COMPONENT] * 5],
            FaultMix.STORM: [spec.id for spec in topology.spouts],
            FaultMix.GENTLE: [ACKER_COMPONENT],
            FaultMix.ORDERLY: [ACKER_COMPONENT],
            FaultMix.UNTRACKED: bolts,
            FaultMix.HANDOVER: keepers or bolts,
            FaultMix.TAKEOVER: keepers or bolts,
        }
        super().__init__(cluster, random, names.get(fault_mix, []))
        self._source, self._weather, self._forget = source, fault_mix, forget
        self._keepers = [
            spec.id for spec in topology.bolts if isinstance(spec.component, Tally)
        ] + [ACKER_COMPONENT]
        self._movable = [spec.id for spec in topology.bolts if not isinstance(spec.component, Join)]
        if source is None:
            self._movable += [spec.id for spec in topology.spouts]
        self.chance = _CHANCES.get(fault_mix, CHANCE)
        if fault_mix in CALM:
            # A task that has to move during a longer outage leaves work behind.
            self._patience = 0.9 * SETTLE_SECS
        self._lossy = 0.2 if fault_mix is FaultMix.STORM else self.draw(0.0, 0.0, 0.1)

    def faults(self) -> list[Fault]:
        faults = super().faults()
        if self._weather is FaultMix.GENTLE:
            faults = _without(faults, self.deactivate, self.stand_still)
            faults.append((6, self.move))
        if self._weather is FaultMix.UNTRACKED:
            faults = [
                *_without(faults, self.deactivate),
                (20, self.checkpoint),
                (20, self.crash_amid_sending),
            ]
        if self._weather is FaultMix.FOUL:
            faults += [(4, self.rewind), (2, self.remake_changelog)]
        if self._weather is FaultMix.ORDERLY:
            faults = [(6, self.move), (3, self.checkpoint), (1, self.pass_time)]
        if self._weather is FaultMix.HANDOVER:
            faults = _without(faults, self.stand_still, self.rewind, self.bury)
            faults += [
                (40, self.checkpoint),
                (12, self.pause),
                (6, self.stop_polling),
                (6, self.vanish),
                (3, self.remake_changelog),
                (6, self.scale),
                (20, self.compact),
            ]
            faults += [(20, self.pass_time), (6, self.restore_disk), (4, self.find_strange_disk)]
            faults += [(40, self.pause_amid_checkpoint)]
        if self._weather is FaultMix.TAKEOVER:
            faults = [(4, self.checkpoint), (6, self.commit_amid_takeover)]
        if self._weather is FaultMix.STORM:
            faults = _without(faults, self.stand_still)
        return faults if self._source is None else [*faults, *self._faults_of_zookeeper()]

    def _faults_of_zookeeper(self) -> list[Fault]:
        often = 5 if self._weather is FaultMix.STORM else 1
        faults: list[Fault] = [
            (3 * often, self.expire_the_dead),
            (often, self.stop_zookeeper),
            (3 * often, self.start_zookeeper),
        ]
        return faults if self._weather in CALM else [*faults, (3 * often, self.expire)]

    def begin(self) -> None:
        super().begin()
        if self._weather is FaultMix.FOUL:
            self._cluster.disturb(self.draw(0.0, 0.05), self.draw(0.0, 0.1))
        if self._weather in (*CALM, FaultMix.UNTRACKED):
            self._cluster.disturb(0.0, self.draw(0.0, 0.1))
        if self._source is not None:
            self._source.zookeeper.lossy = self._lossy
            self._source.finished.lossy = 0.0 if self._weather in CALM else self._lossy

    def end(self) -> None:
        super().end()
        if self._source is not None:
            self._source.zookeeper.lossy = self._source.finished.lossy = 0.0
            self.start_zookeeper()

    def lay_the_dead_to_rest(self) -> None:
        """End whatever outlives dead processes."""
        if self._source is not None and self._source.zookeeper.expire_the_dead():
            self._cluster.wake()

    def move(self) -> str:
        """Move tasks that hold nothing to another process."""
        if not self._movable:
            return ""
        self._cluster.scale(self._random.choice(self._movable), self._random.randint(1, 3))
        return "orderly move"

    def crash_amid_sending(self) -> str:
        """Kill a process that is sending records."""
        amid = [
            (name, number)
            for name in self._names
            for number, process in enumerate(self._cluster.processes(name))
            if process.sends
        ]
        if not amid:
            return ""
        self._cluster.crash(*self._random.choice(amid))
        return "kill while sending"

    def pause_amid_checkpoint(self) -> str:
        """Assume a process dead while it is in a transaction."""
        amid = [
            (name, number)
            for name in self._names
            for number, process in enumerate(self._cluster.processes(name))
            if process.transacting is not None
        ]
        if not amid:
            return ""
        self._cluster.pause(
            *self._random.choice(amid),
            self.draw("stranger", "namesake", "others"),
            self.draw(True, False),
        )
        return "zombie during a checkpoint"

    def commit_amid_takeover(self) -> str:
        """Assume a process dead when only its checkpoint's commit is pending.

        It commits after its successor has recovered, or while the successor waits for that commit.
        """
        late = [
            (name, number, process)
            for name in self._names
            for number, process in enumerate(self._cluster.processes(name))
            if _only_commits(process)
        ]
        if not late:
            return ""
        name, number, zombie = self._random.choice(late)
        self._cluster.pause(name, number)
        heir = self._cluster.processes(name)[number]
        for _ in range(_HEIR_STEPS):
            if (
                any(tenure.phase is Phase.PREPARING for tenure in heir.engine.tenures.values())
                or not self._cluster.step()
            ):
                break
        if _only_commits(zombie):
            zombie.go_on_with_transaction()
        return "commit amid a takeover"

    def remake_changelog(self) -> str:
        """Delete and recreate a changelog while its component is down."""
        name = self._random.choice(self._keepers)
        self._cluster.remake_changelog(name)
        self._forget(name)
        return "changelog recreated"

    def expire(self) -> str:
        """Expire the ZooKeeper session of a live process."""
        assert self._source is not None
        zookeeper = self._source.zookeeper
        if not zookeeper.sessions:
            return ""
        zookeeper.expire(self._random.choice(list(zookeeper.sessions)))
        return "ZooKeeper session expired"

    def expire_the_dead(self) -> str:
        """Expire the sessions of dead processes and zombies."""
        assert self._source is not None
        self._source.zookeeper.expire_the_dead()
        return ""

    def stop_zookeeper(self) -> str:
        assert self._source is not None
        self._source.zookeeper.down = True
        return "ZooKeeper down"

    def start_zookeeper(self) -> str:
        assert self._source is not None
        self._source.zookeeper.restart()
        return ""


def work_among_faults(
    cluster: LocalCluster, adversary: Adversary, steps: int, look: Callable[[], None] = lambda: None
) -> None:
    """Take `steps` steps, with a possible fault before each. Call `look` after each."""
    adversary.begin()
    for _ in range(steps):
        adversary.strike()
        if not cluster.step():
            adversary.pass_time()
        look()
