"""What a run reports to, and what the pages ask: is it alive, is it ready, and what has it done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kstorm_pipeline.monitor.metrics import Metrics
from kstorm_pipeline.monitor.pulse import Pulse, signs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql.streaming.query import StreamingQuery

_READY_SHARE = 0.1
"""A query that stands still for this share of what counts as dead is not ready."""


class Monitor:
    """One run. A query at work that shows no sign of life for `stalled_seconds` means that the process is no longer alive."""

    def __init__(self, stalled_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.metrics = Metrics()
        self._stalled, self._clock = stalled_seconds, clock
        self._pulses: dict[str, Pulse] = {}

    def follow(self, names: Iterable[str]) -> None:
        """Watch over the queries of these names, in the place of others."""
        self._pulses = {name: self._pulse(name) for name in names}

    def _pulse(self, name: str) -> Pulse:
        pulse = Pulse(self._clock())
        self.metrics.show_still(name, lambda: pulse.still_for(self._clock()))
        return pulse

    def look(self, query: StreamingQuery) -> None:
        """Take the signs of life of one of them."""
        signs = signs_of(query)
        self.note(str(query.name), signs, begun=signs is None or query.lastProgress is not None)

    def note(self, name: str, signs: object | None, *, begun: bool) -> None:
        """A query has these signs of life, None if it waits for its time; `begun`: it has done what there was to do, once."""
        pulse = self._pulses[name]
        pulse.look(signs, self._clock())
        pulse.begun = pulse.begun or begun

    @property
    def stalled(self) -> str | None:
        """Why the process should be ended and started again; None if it should not."""
        return self._still(self._stalled)

    @property
    def not_ready(self) -> str | None:
        """Why the tables do not follow the topic now; None if they do."""
        pulses = self._pulses
        if not pulses:
            return "starting"
        waiting = [name for name, pulse in pulses.items() if not pulse.begun]
        return self._still(self._stalled * _READY_SHARE) or (
            f"{waiting[0]} is at its first batch" if waiting else None
        )

    def _still(self, limit: float) -> str | None:
        now = self._clock()
        for name, pulse in self._pulses.items():
            seconds = pulse.still_for(now)
            if seconds > limit:
                return f"{name} has stood still for {seconds:.0f} s"
        return None
