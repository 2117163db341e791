"""Whose turn it is: a step at a time of one actor, drawn by chance.

An actor is whatever acts by itself in a simulated cluster. An actor without steps idles until
somebody wakes it; only actors that may have something to do are asked for their steps.
"""

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

Step = Callable[[], object]
"""What an actor does without giving way. It returns `NOTHING` if that came to nothing."""

NOTHING = object()


class Actor(ABC):
    """Takes part in a `Scheduler`."""

    def __init__(self, scheduler: "Scheduler") -> None:
        self._scheduler = scheduler
        self.listed = False
        """Whether the scheduler will ask it; the scheduler's note."""
        self.asleep = False
        """Whether nothing wakes it but the end of its sleep; the scheduler's note."""
        self.dead = False
        """Whether it will never take a step again."""
        scheduler.register(self)
        self.wake()

    @abstractmethod
    def ready(self) -> list[Step]:
        """The steps that it could take now; none when there is nothing to do until somebody wakes it."""

    def wake(self) -> None:
        """Something happened that it may have to deal with."""
        if not (self.listed or self.asleep or self.dead):
            self._scheduler.list(self)


class Later(Actor):
    """Something that comes to pass by itself, and for which anybody may wait."""

    def __init__(self, scheduler: "Scheduler", act: Callable[[], object], steps: int) -> None:
        """It comes after so many steps of others, or when nobody else has anything to do."""
        super().__init__(scheduler)
        self._act = act
        scheduler.put_to_sleep(self, steps)

    def ready(self) -> list[Step]:
        """It comes."""
        return [self._come]

    def _come(self) -> None:
        self.dead = True
        self._act()
        self._scheduler.wake_all()


class Scheduler:
    """The same `random` and the same actors take the same steps."""

    def __init__(self, random: Random) -> None:
        self._chance = random.random
        self._actors: list[Actor] = []
        self._listed: list[Actor] = []
        self._sleepers: list[
            tuple[int, int, Actor]
        ] = []  # those that wake up at one step do so in order
        self._order = itertools.count()
        self._steps = 0

    def register(self, actor: Actor) -> None:
        """There is another actor."""
        self._actors = [other for other in self._actors if not other.dead]
        self._actors.append(actor)

    def wake_all(self) -> None:
        """Something has happened for which anybody may have waited."""
        for actor in self._actors:
            actor.wake()

    def list(self, actor: Actor) -> None:
        """From now on the actor is asked for steps, until it has none."""
        actor.listed = True
        self._listed.append(actor)

    def put_to_sleep(self, actor: Actor, steps: int) -> None:
        """Lets an actor do nothing for so many steps of others, whatever happens."""
        actor.asleep = True
        heapq.heappush(self._sleepers, (self._steps + steps, next(self._order), actor))

    def wake_sleepers(self) -> bool:
        """Ends every sleep; whether anybody slept."""
        slept = bool(self._sleepers)
        while self._sleepers:
            self._wake(heapq.heappop(self._sleepers)[-1])
        return slept

    def step(self) -> bool | None:
        """Lets one actor take a step; whether that came to anything. None if nobody has a step to take."""
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
