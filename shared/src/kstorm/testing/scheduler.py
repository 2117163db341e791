"""Schedules a simulated cluster: one step of one random actor at a time.

An actor is anything in the cluster that acts by itself. An actor without steps idles until it is
woken. Only actors that may have work are asked for steps.
"""

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

Step = Callable[[], object]
"""An uninterrupted action of an actor. Returns `NOTHING` if it had no effect."""

NOTHING = object()


class Actor(ABC):
    """Takes part in a `Scheduler`."""

    def __init__(self, scheduler: "Scheduler") -> None:
        self._scheduler = scheduler
        self.listed = False
        """True while the scheduler asks it for steps. Set by the scheduler."""
        self.asleep = False
        """True while only the end of its sleep wakes it. Set by the scheduler."""
        self.dead = False
        """True once it takes no further step."""
        scheduler.register(self)
        self.wake()

    @abstractmethod
    def ready(self) -> list[Step]:
        """Return the steps that it could take now. Without steps it idles until woken."""

    def wake(self) -> None:
        """Check for work, because something has happened."""
        if not (self.listed or self.asleep or self.dead):
            self._scheduler.list(self)


class DelayedEvent(Actor):
    """A delayed event that any actor may be waiting for."""

    def __init__(self, scheduler: "Scheduler", act: Callable[[], object], steps: int) -> None:
        """Call `act` after `steps` steps of other actors, or earlier if no other actor has work."""
        super().__init__(scheduler)
        self._act = act
        scheduler.put_to_sleep(self, steps)

    def ready(self) -> list[Step]:
        return [self._come]

    def _come(self) -> None:
        self.dead = True
        self._act()
        self._scheduler.wake_all()


class Scheduler:
    """Schedules deterministically: the same `random` and the same actors give the same steps."""

    def __init__(self, random: Random) -> None:
        self._chance = random.random
        self._actors: list[Actor] = []
        self._listed: list[Actor] = []
        # (step to wake up at, order, actor). Actors that wake up at the same step do so in order.
        self._sleepers: list[tuple[int, int, Actor]] = []
        self._order = itertools.count()
        self._steps = 0

    def register(self, actor: Actor) -> None:
        self._actors = [other for other in self._actors if not other.dead]
        self._actors.append(actor)

    def wake_all(self) -> None:
        """Wake every actor, after an event that any of them may be waiting for."""
        for actor in self._actors:
            actor.wake()

    def list(self, actor: Actor) -> None:
        """Ask the actor for steps from now on, until it has none."""
        actor.listed = True
        self._listed.append(actor)

    def put_to_sleep(self, actor: Actor, steps: int) -> None:
        """Put an actor to sleep for `steps` steps of other actors, whatever happens."""
        actor.asleep = True
        heapq.heappush(self._sleepers, (self._steps + steps, next(self._order), actor))

    def wake_sleepers(self) -> bool:
        """Wake all sleepers. Return True if there were any."""
        slept = bool(self._sleepers)
        while self._sleepers:
            self._wake(heapq.heappop(self._sleepers)[-1])
        return slept

    def step(self) -> bool | None:
        """Let one actor take a step.

        Returns True if the step had an effect, False if not, and None if no actor has a step to
        take.
        """
        self._steps += 1
        while self._sleepers and self._sleepers[0][0] <= self._steps:
            self._wake(heapq.heappop(self._sleepers)[-1])
        listed, chance = self._listed, self._chance
        while listed:
            at = int(chance() * len(listed))
            actor = listed[at]
            if not (actor.dead or actor.asleep) and (steps := actor.ready()):
                return steps[int(chance() * len(steps))]() is not NOTHING
            actor.listed = False
            listed[at] = listed[-1]
            listed.pop()
        return None

    @staticmethod
    def _wake(actor: Actor) -> None:
        actor.asleep = False
        actor.wake()
