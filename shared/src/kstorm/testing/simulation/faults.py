"""What can go wrong in a simulated cluster, and an adversary that lets it go wrong by chance."""

from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from random import Random

from kstorm.testing.cluster import LocalCluster
from kstorm.testing.simulation.kafka_source import SourceTopic
from kstorm.testing.simulation.topologies import TIMEOUT
from kstorm.topology.topology import ACKER_COMPONENT

_CHANCE = 0.06
_CHANCE_IN_A_STORM = 0.25
_MOST_EXECUTORS = 3


class Weather(Enum):
    """What kind of faults there are."""

    FOUL = auto()
    """Of all kinds."""
    GENTLE = auto()
    """Only what must not cost a single replay: ackers die and move, records overtake each other."""
    STORM = auto()
    """Mostly about ZooKeeper, and the spouts that have their offsets there."""


class Adversary:
    """Strikes a cluster between any two steps."""

    def __init__(self, cluster: LocalCluster, source: SourceTopic | None, random: Random, weather: Weather) -> None:
        self._cluster, self._source, self._random = cluster, source, random
        self._gentle = gentle = weather is Weather.GENTLE
        storm = weather is Weather.STORM
        self.struck: Counter[str] = Counter()
        """How often which fault was made."""
        self._names = [ACKER_COMPONENT] if gentle else [*cluster.topology.components, ACKER_COMPONENT, ACKER_COMPONENT]
        if storm:
            self._names = [spec.id for spec in cluster.topology.spouts]
        self._chance = _CHANCE_IN_A_STORM if storm else _CHANCE
        self._patience = TIMEOUT / 2 if gentle else float("inf")
        faults: list[tuple[int, Callable[[], str]]] = [
            (20, self.checkpoint),
            (8, self.pass_time),
            (7, self.crash),
            (3, self.pause),
            (1, self.lose_disk),
            (1, self.restore_disk),
            (2, self.rewind),
            (2, self.scale),
            (3, self.make_unavailable),
            (3, self.heal),
            (2, self.bury),
        ]
        if source is not None:
            often = 5 if storm else 1
            faults += [
                (3 * often, self.expire_the_dead),
                (often, self.stop_zookeeper),
                (3 * often, self.start_zookeeper),
            ]
            if not gentle:
                faults.append((3 * often, self.expire))
        if not (gentle or storm):
            faults.append((2, self.stand_still))
        self._lossy = 0.2 if storm else self._draw(0.0, 0.0, 0.1)
        self._weights, self._faults = zip(*faults, strict=True)

    def begin(self) -> None:
        """Sets what holds for the whole time."""
        network: tuple[float, float] = (0.0 if self._gentle else self._draw(0.0, 0.0, 0.05)), self._draw(0.0, 0.1)
        self._cluster.disturb(*network)
        if self._source is not None:
            self._source.zookeeper.lossy = self._lossy

    def end(self) -> None:
        """From now on all is well, but for what was broken before."""
        self._cluster.disturb(0.0, 0.0)
        self._cluster.heal()
        if self._source is not None:
            self._source.zookeeper.lossy = 0.0
            self.start_zookeeper()

    def lay_the_dead_to_rest(self) -> None:
        """What outlives dead processes ends."""
        if self._source is not None and self._source.zookeeper.expire_the_dead():
            self._cluster.wake()

    def strike(self) -> None:
        """Perhaps a fault."""
        if self._random.random() < self._chance:
            (fault,) = self._random.choices(self._faults, self._weights)
            name = fault()
            if name:
                self.struck[name] += 1

    # Faults. Each says what it did, or nothing if it could not.

    def checkpoint(self) -> str:
        """A checkpoint begins; a crash may cut it."""
        self._cluster.begin_checkpoint(self._name())
        return "checkpoint"

    def pass_time(self) -> str:
        """A moment passes."""
        return self._advance(self._random.uniform(0.1, 3), "")

    def stand_still(self) -> str:
        """All work stands still for a while, as on a machine too busy to do anything."""
        return self._advance(self._random.uniform(1, TIMEOUT / 2), "machine too busy")

    def crash(self) -> str:
        """A process is killed."""
        name, number = self._process()
        self._cluster.crash(name, number)
        return f"kill of {self._role(name)}"

    def pause(self) -> str:
        """A process is taken for dead, and wakes up later."""
        name, number = self._process()
        self._cluster.pause(name, number)
        return f"zombie of {self._role(name)}"

    def bury(self) -> str:
        """Zombies that never wake up."""
        self._cluster.bury()
        return ""

    def lose_disk(self) -> str:
        """A process is killed, and its disk is lost."""
        self._cluster.crash(*self._process(), "lost")
        return "lost disk"

    def restore_disk(self) -> str:
        """A process is killed, and its disk is the one of its life before."""
        self._cluster.crash(*self._process(), "old")
        return "disk of an older life"

    def rewind(self) -> str:
        """A process is killed, and its committed offsets go back."""
        name, number = self._process()
        self._cluster.rewind(name, number)
        self._cluster.crash(name, number)
        return "offsets set back"

    def scale(self) -> str:
        """A component gets more or fewer processes."""
        self._cluster.scale(self._name(), self._random.randint(1, _MOST_EXECUTORS))
        return "scale"

    def make_unavailable(self) -> str:
        """One partition cannot be read or written."""
        place = self._cluster.any_place(self._random)
        if place is None:
            return ""
        self._cluster.stall(*place)
        return "slow broker"

    def heal(self) -> str:
        """All partitions can be read and written again."""
        self._cluster.heal()
        return ""

    def expire(self) -> str:
        """A ZooKeeper session expires whose process lives."""
        assert self._source is not None
        zookeeper = self._source.zookeeper
        if not zookeeper.sessions:
            return ""
        zookeeper.expire(self._random.choice(list(zookeeper.sessions)))
        return "ZooKeeper session expired"

    def expire_the_dead(self) -> str:
        """The sessions of dead processes and of zombies expire."""
        assert self._source is not None
        self._source.zookeeper.expire_the_dead()
        return ""

    def stop_zookeeper(self) -> str:
        """ZooKeeper cannot be reached."""
        assert self._source is not None
        self._source.zookeeper.down = True
        return "ZooKeeper down"

    def start_zookeeper(self) -> str:
        """ZooKeeper can be reached again."""
        assert self._source is not None
        self._source.zookeeper.restart()
        return ""

    def _advance(self, seconds: float, name: str) -> str:
        self._patience -= seconds
        if self._patience < 0:
            return ""
        self._cluster.advance_time(seconds, run=False)
        return name

    def _name(self) -> str:
        return self._random.choice(self._names)

    def _process(self) -> tuple[str, int]:
        name = self._name()
        return name, self._random.randrange(self._cluster.executors(name))

    def _role(self, name: str) -> str:
        return "an acker" if name == ACKER_COMPONENT else f"a {self._cluster.topology.component(name).kind}"

    def _draw(self, *choices: float) -> float:
        return self._random.choice(choices)
