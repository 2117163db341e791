"""What can go wrong in a simulated cluster, and an adversary that lets it go wrong by chance."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from kstorm.testing.cluster import LocalCluster
from kstorm.testing.placement import Heir
from kstorm.topology.topology import ACKER_COMPONENT

CHANCE = 0.06
"""Probability of a fault between two steps."""
_MOST_EXECUTORS = 3
_HEIRS: tuple[Heir, ...] = ("stranger", "namesake", "others")
_LONGEST_STANDSTILL = 0.5
"""Of the message timeout: longer, and every tree times out."""

Fault = tuple[int, Callable[[], str]]
"""How often it is drawn, and what it does; it returns its name, or nothing if it did not come to pass."""


class Adversary:
    """Strikes a cluster between any two steps. `names`: the components that it may strike; all by default."""

    def __init__(self, cluster: LocalCluster, random: Random, names: Sequence[str] = ()) -> None:
        self.struck: Counter[str] = Counter()
        """How often which fault was made."""
        self.chance = CHANCE
        self._cluster, self._random = cluster, random
        chosen = list(names) or [*cluster.topology.components, ACKER_COMPONENT, ACKER_COMPONENT]
        self._names = [name for name in chosen if cluster.executors(name)]  # there may be no ackers
        self._timeout = cluster.topology.longest_message_timeout_secs
        self._patience = float("inf")  # how much time may pass in all

    def faults(self) -> list[Fault]:
        """What it may do."""
        return [
            (20, self.checkpoint),
            (8, self.pass_time),
            (7, self.crash),
            (3, self.pause),
            (2, self.stop_polling),
            (2, self.vanish),
            (1, self.lose_disk),
            (1, self.restore_disk),
            (1, self.find_strange_disk),
            (2, self.compact),
            (2, self.rewind),
            (3, self.scale),
            (3, self.make_unavailable),
            (3, self.heal),
            (2, self.bury),
            (2, self.stand_still),
            (1, self.deactivate),
            (2, self.activate),
        ]

    def begin(self) -> None:
        """Sets what holds for the whole time."""
        self._weights, self._faults = zip(*self.faults(), strict=True)
        self._cluster.disturb(self.draw(0.0, 0.0, 0.05), self.draw(0.0, 0.1))

    def end(self) -> None:
        """From now on all is well, but for what was broken before."""
        self._cluster.disturb(0.0, 0.0)
        self._cluster.heal()
        self._cluster.activate()

    def lay_the_dead_to_rest(self) -> None:
        """What outlives dead processes ends; called again and again in the calm."""

    def strike(self) -> None:
        """Perhaps a fault."""
        if self._random.random() < self.chance:
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
        return self._advance(
            self._random.uniform(1, self._timeout * _LONGEST_STANDSTILL), "machine too busy"
        )

    def crash(self) -> str:
        """A process is killed."""
        name, number = self._process()
        self._cluster.crash(name, number)
        return f"kill of {self._role(name)}"

    def pause(self) -> str:
        """A process is taken for dead, and wakes up later."""
        name, number = self._process()
        self._cluster.pause(name, number, self.draw(*_HEIRS))
        return f"zombie of {self._role(name)}"

    def stop_polling(self) -> str:
        """The poll loop of a process stands still for so long that the group puts it out; all else in it goes on."""
        name, number = self._process()
        self._cluster.pause(name, number, self.draw(*_HEIRS), sleeps=False)
        return "poll loop stood still"

    def vanish(self) -> str:
        """A process is killed, and does not come back while its session lasts."""
        return "kill for good" if self._cluster.vanish(*self._process()) else ""

    def bury(self) -> str:
        """Zombies never wake up."""
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

    def find_strange_disk(self) -> str:
        """A process is killed, and its disk is one of another topology, with other rows at the same offsets."""
        self._cluster.crash(*self._process(), "strange")
        return "disk of another topic"

    def compact(self) -> str:
        """The broker removes what is superseded from the changelogs, and old tombstones."""
        self._cluster.compact()
        return "compaction"

    def rewind(self) -> str:
        """A process is killed, and its committed offsets are set back."""
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

    def deactivate(self) -> str:
        """The spouts stop to emit."""
        self._cluster.deactivate()
        return "deactivation"

    def activate(self) -> str:
        """They emit again."""
        self._cluster.activate()
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
        return (
            "an acker"
            if name == ACKER_COMPONENT
            else f"a {self._cluster.topology.component(name).kind}"
        )

    def draw(self, *choices: Any) -> Any:
        """One of some."""
        return self._random.choice(choices)
