"""Up to which time all tuples are thought to be here: the least of what the input's tasks have reached, and a lag behind it."""

from collections.abc import Iterable
from typing import Any

from kstorm.topology import Source

NEVER = -(2**61)
"""Before every time."""


class Watermark:
    """Of one task of a windowed bolt. Times are Unix milliseconds; `now` is the machine's clock, for idle inputs alone."""

    def __init__(
        self, lag_ms: int, idle_ms: int | None, inputs: Iterable[tuple[str, str]] = ()
    ) -> None:
        """`inputs`: components and their streams, each of which is waited for until it is heard of, as in Storm: what it sends
        first would be late else."""
        self._lag, self._idle = lag_ms, idle_ms
        self._unheard = set(inputs)
        self._began: int | None = None
        self.reached: dict[int, int] = {}
        """The highest time of each task of the inputs that was heard of."""
        self._heard: dict[int, int] = {}
        self.at = NEVER
        """The watermark. It never goes back."""

    def note(self, source: Source, time: int, now: int) -> None:
        """A tuple from there."""
        task = source.task
        self._heard[task] = now
        if self._unheard:
            self._unheard.discard((source.component, source.stream))
        if time > self.reached.get(task, NEVER):
            self.reached[task] = time

    def advance(self, now: int) -> bool:
        """Whether it has moved. A task that was silent for too long does not hold it back; if all are, nothing moves it."""
        self._began = now if self._began is None else self._began
        if self._unheard and (self._idle is None or now - self._began < self._idle):
            return False
        if self._idle is None:
            waited = list(self.reached.values())
        else:
            waited = [
                time
                for task, time in self.reached.items()
                if now - self._heard.setdefault(task, now) < self._idle
            ]
        if not waited or (found := min(waited) - self._lag) <= self.at:
            return False
        self.at = found
        return True

    def stored(self) -> list[Any]:
        """For the state."""
        return [self.at, list(self.reached.items()), sorted(self._unheard)]

    def restore(self, stored: list[Any]) -> None:
        """As it was stored; tasks count as heard of when they are next asked for."""
        self.at = stored[0]
        self.reached = dict(stored[1])
        self._unheard = {(component, stream) for component, stream in stored[2]}
