"""Faults of a simulated cluster, and an adversary that injects them at random."""

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
"""As a share of the message timeout. A longer standstill would time out every tree."""

Fault = tuple[int, Callable[[], str]]
"""Weight of a fault, and the function that injects it.

The function returns the fault's name, or "" if it could not inject the fault.
"""


class Adversary:
    """Injects faults into a cluster between any two steps.

    `names`: the components that it may strike. All components by default.
    """

    def __init__(self, cluster: LocalCluster, random: Random, names: Sequence[str] = ()) -> None:
        self.struck: Counter[str] = Counter()
        """Injected faults by name."""
        self.chance = CHANCE
        self._cluster, self._random = cluster, random
        chosen = list(names) or [*cluster.topology.components, ACKER_COMPONENT, ACKER_COMPONENT]
        # a topology may have no ackers
        self._names = [name for name in chosen if cluster.executors(name)]
        self._timeout = cluster.topology.longest_message_timeout_secs
        self._patience = float("inf")  # virtual seconds that may still pass

    def faults(self) -> list[Fault]:
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
        """Set the rates of disturbances that stay the same for the whole schedule."""
        self._weights, self._faults = zip(*self.faults(), strict=True)
        self._cluster.disturb(self.draw(0.0, 0.0, 0.05), self.draw(0.0, 0.1))

    def end(self) -> None:
        """Stop injecting faults and heal the cluster. Damage already done remains."""
        self._cluster.disturb(0.0, 0.0)
        self._cluster.heal()
        self._cluster.activate()

    def lay_the_dead_to_rest(self) -> None:
        """End whatever outlives dead processes. Called repeatedly once faults have stopped."""

    def strike(self) -> None:
        """Inject a fault with probability `chance`."""
        if self._random.random() < self.chance:
            (fault,) = self._random.choices(self._faults, self._weights)
            name = fault()
            if name:
                self.struck[name] += 1

    # Faults. Each returns its name, or "" if it could not strike or need not be counted.

    def checkpoint(self) -> str:
        """Start a checkpoint, which a crash may interrupt."""
        self._cluster.begin_checkpoint(self._name())
        return "checkpoint"

    def pass_time(self) -> str:
        """Advance the clock by up to 3 seconds."""
        return self._advance(self._random.uniform(0.1, 3), "")

    def stand_still(self) -> str:
        """Advance the clock while no work is done, as on an overloaded machine."""
        return self._advance(
            self._random.uniform(1, self._timeout * _LONGEST_STANDSTILL), "machine too busy"
        )

    def crash(self) -> str:
        name, number = self._process()
        self._cluster.crash(name, number)
        return f"kill of {self._role(name)}"

    def pause(self) -> str:
        """Turn a process into a zombie: its tasks move, and it wakes up later."""
        name, number = self._process()
        self._cluster.pause(name, number, self.draw(*_HEIRS))
        return f"zombie of {self._role(name)}"

    def stop_polling(self) -> str:
        """Stall a process's poll loop until the group removes it. Everything else in the process
        runs on."""
        name, number = self._process()
        self._cluster.pause(name, number, self.draw(*_HEIRS), sleeps=False)
        return "poll loop stopped"

    def vanish(self) -> str:
        """Kill a process that does not return before its session expires."""
        return "kill for good" if self._cluster.vanish(*self._process()) else ""

    def bury(self) -> str:
        """Kill all zombies before they wake up."""
        self._cluster.bury()
        return ""

    def lose_disk(self) -> str:
        """Kill a process and lose its disk."""
        self._cluster.crash(*self._process(), "lost")
        return "lost disk"

    def restore_disk(self) -> str:
        """Kill a process and restore its disk from an earlier run."""
        self._cluster.crash(*self._process(), "old")
        return "disk from an earlier run"

    def find_strange_disk(self) -> str:
        """Kill a process and give it a disk of another topology, with other rows at the same
        offsets."""
        self._cluster.crash(*self._process(), "strange")
        return "disk of another topic"

    def compact(self) -> str:
        """Compact the changelogs: remove superseded records and old tombstones."""
        self._cluster.compact()
        return "compaction"

    def rewind(self) -> str:
        """Kill a process and set its committed offsets back."""
        name, number = self._process()
        self._cluster.rewind(name, number)
        self._cluster.crash(name, number)
        return "offsets set back"

    def scale(self) -> str:
        self._cluster.scale(self._name(), self._random.randint(1, _MOST_EXECUTORS))
        return "scale"

    def make_unavailable(self) -> str:
        """Make one partition unreadable and unwritable."""
        place = self._cluster.any_place(self._random)
        if place is None:
            return ""
        self._cluster.stall(*place)
        return "slow broker"

    def heal(self) -> str:
        self._cluster.heal()
        return ""

    def deactivate(self) -> str:
        self._cluster.deactivate()
        return "deactivation"

    def activate(self) -> str:
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
        """Return one of `choices` at random."""
        return self._random.choice(choices)
