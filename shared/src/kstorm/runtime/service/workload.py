"""How busy a process is, what it waits for when it could work, and what it sends where: Storm's *capacity*, and its causes."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kstorm.runtime.service.metrics import Sample
from kstorm.topology import Topology


class Busy:
    """Seconds in which work was at hand, however much of it at once: of 10 in a window of 10 s, the process is the bottleneck."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._works = 0
        self._since = 0.0

    def __enter__(self) -> None:
        if not self._works:
            self._since = time.monotonic()
        self._works += 1

    def __exit__(self, *_: object) -> None:
        self._works -= 1
        if not self._works:
            self._seconds += time.monotonic() - self._since

    @property
    def seconds(self) -> float:
        """Since the process began."""
        return self._seconds + (time.monotonic() - self._since if self._works else 0.0)


class Workload:
    """Of one process, since it began."""

    def __init__(
        self, topology: Topology, sent: Callable[[], Mapping[tuple[str, str], int]]
    ) -> None:
        """`sent` says how many tuples were sent, by stream and topic."""
        self._sent = sent
        self._bolts = {topology.bolt_topic(bolt.id): bolt.id for bolt in topology.bolts}
        self.busy = Busy()
        self._holding: dict[str, Callable[[], bool]] = {}
        self._held: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._counted: dict[str, Callable[[], float]] = {}
        self._looked = time.monotonic()

    def watch(self, cause: str, holds: Callable[[], bool]) -> None:
        """Something may hold the work back: `holds` says whether it does now."""
        self._holding[cause], self._held[cause] = holds, 0.0

    def count(self, cause: str, seconds: Callable[[], float]) -> None:
        """Something holds the work back that somebody else measures."""
        self._counted[cause] = seconds

    def look(self) -> None:
        """Called every few milliseconds: what holds now has held since the last call."""
        now = time.monotonic()
        for cause, holds in self._holding.items():
            if holds():
                self._held[cause] += now - self._looked
                self._since.setdefault(cause, time.time())
            else:
                self._since.pop(cause, None)
        self._looked = now

    @property
    def waits(self) -> dict[str, float]:
        """Seconds by cause. Several may hold at the same time."""
        return {**self._held, **{cause: seconds() for cause, seconds in self._counted.items()}}

    @property
    def edges(self) -> list[tuple[str, str, int]]:
        """Stream, component and how many tuples went there."""
        return [
            (stream, self._bolts[topic], tuples) for (stream, topic), tuples in self._sent().items()
        ]

    def samples(self) -> Iterable[Sample]:
        """As `/metrics` shows it."""
        yield "busy_seconds_total", "Seconds in which work was at hand", self.busy.seconds, {}
        for cause, seconds in self.waits.items():
            yield (
                "waits_seconds_total",
                "Seconds in which something held the work back",
                seconds,
                {"cause": cause},
            )
        for stream, target, tuples in self.edges:
            yield (
                "edge_tuples_total",
                "Tuples sent to a component on a stream",
                tuples,
                {"stream": stream, "target": target},
            )

    def status(self) -> dict[str, Any]:
        """As `/status` shows it."""
        return {
            "busy_seconds": round(self.busy.seconds, 3),
            "waits": {cause: round(seconds, 3) for cause, seconds in self.waits.items()},
            "waits_since": {cause: round(since, 3) for cause, since in self._since.items()},
            "edges": [
                {"stream": stream, "target": target, "tuples": tuples}
                for stream, target, tuples in self.edges
            ],
        }
