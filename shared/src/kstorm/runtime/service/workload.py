"""Measure how busy a process is (Storm's *capacity*), the causes of its waits, and the tuples that
it sends to each component."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kstorm.runtime.base.metrics import Sample
from kstorm.topology import Topology


class BusyTime:
    """Seconds in which at least one piece of work was running.

    If a process is busy for 10 s in a window of 10 s, it is the bottleneck.
    """

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
        """Busy seconds since the process started."""
        return self._seconds + (time.monotonic() - self._since if self._works else 0.0)


class WorkloadMeter:
    """The workload of one process since its start."""

    def __init__(
        self, topology: Topology, sent: Callable[[], Mapping[tuple[str, str], int]]
    ) -> None:
        """`sent` returns the number of tuples sent, by stream and topic."""
        self._sent = sent
        self._bolts = {topology.bolt_topic(bolt.id): bolt.id for bolt in topology.bolts}
        self.busy = BusyTime()
        self._holding: dict[str, Callable[[], bool]] = {}
        self._held: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._counted: dict[str, Callable[[], float]] = {}
        self._looked = time.monotonic()

    def watch(self, cause: str, holds: Callable[[], bool]) -> None:
        """Measure the time in which `holds` returns True, which means that this cause holds up the
        work."""
        self._holding[cause], self._held[cause] = holds, 0.0

    def count(self, cause: str, seconds: Callable[[], float]) -> None:
        """Add a cause that is measured elsewhere."""
        self._counted[cause] = seconds

    def look(self) -> None:
        """Attribute the time since the last call to the current causes. Called every few
        milliseconds."""
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
        """Seconds by cause. Several causes may apply at the same time."""
        return {**self._held, **{cause: seconds() for cause, seconds in self._counted.items()}}

    @property
    def edges(self) -> list[tuple[str, str, int]]:
        """Stream, component, and the number of tuples sent to it."""
        return [
            (stream, self._bolts[topic], tuples) for (stream, topic), tuples in self._sent().items()
        ]

    def samples(self) -> Iterable[Sample]:
        """Yield the metrics for `/metrics`."""
        yield (
            "busy_seconds_total",
            "Seconds in which the process was working",
            self.busy.seconds,
            {},
        )
        for cause, seconds in self.waits.items():
            yield (
                "waits_seconds_total",
                "Seconds in which work was held back",
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
        return {
            "busy_seconds": round(self.busy.seconds, 3),
            "waits": {cause: round(seconds, 3) for cause, seconds in self.waits.items()},
            "waits_since": {cause: round(since, 3) for cause, since in self._since.items()},
            "edges": [
                {"stream": stream, "target": target, "tuples": tuples}
                for stream, target, tuples in self.edges
            ],
        }
