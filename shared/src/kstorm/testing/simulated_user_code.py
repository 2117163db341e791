"""Runs user code in a simulated process. Other steps may happen where it awaits or pauses."""

from typing import Any, Generic, TypeVar

from kstorm.core.engine import Effect, Engine
from kstorm.core.engine.effects import RunUserCode
from kstorm.core.user_code import Steps
from kstorm.testing.scheduler import Actor
from kstorm.testing.stepped_await import SteppedAwaitable
from kstorm.testing.world import SimulatedWorld

E = TypeVar("E", bound=Engine[Any])

_MID_RUN = 0.3
"""Probability that user code is interrupted where it offers a pause, or before it is awaited."""


class UserCodeActor(Actor, Generic[E]):
    """A process with the pieces of user code that it has begun."""

    engine: E

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world.scheduler)
        self.world = world
        # with the awaitable that it waits for
        self._runs: list[tuple[RunUserCode, Steps, SteppedAwaitable | None]] = []

    def _then(self, effects: list[Effect]) -> None:
        """Take the effects of an event."""
        raise NotImplementedError

    def _go_on(self, entry: tuple[RunUserCode, Steps, SteppedAwaitable | None]) -> object:
        """Continue a piece of user code."""
        self._runs.remove(entry)
        self._advance(*entry)
        return None

    def _advance(
        self,
        run: RunUserCode,
        steps: Steps,
        waiting: SteppedAwaitable | None = None,
        interrupt: float = _MID_RUN,
    ) -> None:
        """Continue a piece of user code until its end, its next await, or an interruption."""
        world = self.world
        try:
            while True:
                try:
                    if waiting is not None and not waiting.go_on():
                        break
                except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the task decides
                    pending = steps.throw(error)
                else:
                    pending = next(steps)
                waiting = (
                    None if pending is None else SteppedAwaitable(world.runner.get_loop(), pending)
                )
                if interrupt and world.random.random() < interrupt:
                    break
            self._runs.append((run, steps, waiting))
        except StopIteration:
            self._then(self.engine.ran(run, world.now))
        except Exception as error:
            if not world.crash(self, error):
                raise

    def _run_through(self, run: RunUserCode) -> None:
        """Run a piece of user code to its end without interruption."""
        try:
            self.world.run(run.steps)
        except Exception as error:
            if not self.world.crash(self, error):
                raise
        else:
            self._then(self.engine.ran(run, self.world.now))
