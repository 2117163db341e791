"""Metrics of a process: Prometheus at `/metrics`, JSON at `/status`.

The tasks count in plain integers. Nothing is computed here until a page is requested. Names follow
Storm's (`__ack-count`, `__complete-latency`, …) in Prometheus' spelling.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from operator import add
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest

EXPOSITION: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
"""The headers of the page. aiohttp accepts a content type with a charset only as a header."""

# seconds: 1 ms to about 134 s, 30 % apart
_BOUNDS = [0.001 * 1.3**step for step in range(46)]


@cache
def _bounds_array() -> Any:
    import numpy as np

    return np.array(_BOUNDS)


class Latency:
    """A histogram of seconds. Adding one takes half a microsecond."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.total += seconds

    def add_all(self, seconds: list[float]) -> None:
        """Add many values, each in a tenth of the time that `add` takes."""
        # Loading numpy is slow, and commands only read histograms.
        import numpy as np

        found = np.bincount(
            np.searchsorted(_bounds_array(), seconds), minlength=len(self.counts)
        ).tolist()
        self.counts = list(map(add, self.counts, found))
        self.total += sum(seconds)

    def quantile(self, share: float) -> float | None:
        """Return the quantile in seconds, accurate to 30 %. Return None without observations."""
        return quantile(self.counts, share)

    def family(
        self, name: str, documentation: str, labels: dict[str, str]
    ) -> HistogramMetricFamily:
        family = HistogramMetricFamily(name, documentation, labels=list(labels))
        running, buckets = 0, []
        for bound, count in zip([*map("{:.6g}".format, _BOUNDS), "+Inf"], self.counts, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric(list(labels.values()), buckets, self.total)
        return family


def quantile(counts: list[int], share: float) -> float | None:
    """Return the quantile of counts, which may be summed over several processes. See
    `Latency.quantile`."""
    wanted = sum(counts) * share
    if not wanted:
        return None
    number = bisect_left(list(accumulate(counts)), wanted)
    return _BOUNDS[min(number, len(_BOUNDS) - 1)]


Sample = tuple[str, str, float, dict[str, str]]
"""Name without `kstorm_`, description, value, labels. Names ending in `_total` are counters, others
are gauges."""


class Exposition:
    """A Prometheus collector over functions that yield samples."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels
        self._sources: list[Any] = []
        self._latencies: list[tuple[str, str, Latency]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def add(self, source: Any) -> None:
        """Add a source. `source()` yields `Sample`s at each scrape."""
        self._sources.append(source)

    def add_latency(self, name: str, documentation: str, latency: Latency) -> None:
        self._latencies.append((name, documentation, latency))

    def collect(self) -> Iterator[Any]:
        """Yield the metric families. prometheus_client calls this."""
        families: dict[str, Any] = {}
        for name, documentation, value, more in self._samples():
            labels = {**self._labels, **more}
            family = families.get(name)
            if family is None:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = families[name] = kind(f"kstorm_{name}", documentation, labels=list(labels))
            family.add_metric(list(labels.values()), value)
        yield from families.values()
        for name, documentation, latency in self._latencies:
            yield latency.family(f"kstorm_{name}", documentation, self._labels)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _samples(self) -> Iterable[Sample]:
        for source in self._sources:
            yield from source()
