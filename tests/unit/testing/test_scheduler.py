"""Whose turn it is in the simulation."""

from random import Random

from kstorm.testing.scheduler import Actor, Scheduler, Step


class Sleeper(Actor):
    """Notes once when it is awake."""

    def __init__(self, scheduler: Scheduler, name: str, awake: list[str]) -> None:
        super().__init__(scheduler)
        self.name, self._awake = name, awake

    def ready(self) -> list[Step]:
        return [] if self.name in self._awake else [lambda: self._awake.append(self.name)]


def test_two_may_wake_up_at_the_same_step() -> None:
    """Also when one that went to sleep before them woke up in between."""
    scheduler, awake = Scheduler(Random(1)), list[str]()
    first, second, third = (Sleeper(scheduler, name, awake) for name in ("first", "second", "third"))
    scheduler.put_to_sleep(first, 1)
    scheduler.put_to_sleep(second, 3)
    assert scheduler.step() is True
    scheduler.put_to_sleep(third, 2)
    while scheduler.step() or scheduler.wake_sleepers():
        pass
    assert sorted(awake) == ["first", "second", "third"]
