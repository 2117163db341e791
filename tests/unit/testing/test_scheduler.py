"""The order of turns in the simulation."""

from random import Random

from kstorm.testing.scheduler import Actor, DelayedEvent, Scheduler, Step


class Sleeper(Actor):
    """Records its wake-up once."""

    def __init__(self, scheduler: Scheduler, name: str, awake: list[str]) -> None:
        super().__init__(scheduler)
        self.name, self._awake = name, awake

    def ready(self) -> list[Step]:
        return [] if self.name in self._awake else [lambda: self._awake.append(self.name)]


def test_two_may_wake_up_at_the_same_step() -> None:
    """This holds if another actor, which went to sleep earlier, woke up in between."""
    scheduler, awake = Scheduler(Random(1)), list[str]()
    first, second, third = (
        Sleeper(scheduler, name, awake) for name in ("first", "second", "third")
    )
    scheduler.put_to_sleep(first, 1)
    scheduler.put_to_sleep(second, 3)
    assert scheduler.step() is True
    scheduler.put_to_sleep(third, 2)
    while scheduler.step() or scheduler.wake_sleepers():
        pass
    assert sorted(awake) == ["first", "second", "third"]


def test_waiting_actor_is_checked_again() -> None:
    """An actor is checked again even without a wake-up."""
    scheduler, came, seen = Scheduler(Random(1)), list[str](), list[str]()

    class Waiter(Actor):
        def ready(self) -> list[Step]:
            return [lambda: seen.append("it came")] if came and not seen else []

    Waiter(scheduler)
    DelayedEvent(scheduler, lambda: came.append("it"), 5)
    steps = 0
    while scheduler.step() is None:
        steps += 1
    assert (steps, came, seen) == (4, ["it"], [])
    assert scheduler.step() is True
    assert scheduler.step() is None
    assert seen == ["it came"]
