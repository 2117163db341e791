"""Computes figures from timestamps and samples. Times are in seconds since 1970 by default."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.bench.corpus import WORDS_PER_SENTENCE

BIN_SECS: Final = 0.5
"""Width of the bins of `throughput`."""

_FROM: Final = 0.25
_TO: Final = 0.95
_SHORTEST_SECS: Final = 0.001
"""The broker's timestamps are whole milliseconds."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    begin: float
    end: float
    share: float
    """The share of the output in this window."""

    @property
    def seconds(self) -> float:
        """At least a millisecond."""
        return max(_SHORTEST_SECS, self.end - self.begin)


def steady_window(stamps_ms: Sequence[int]) -> TimeWindow:
    """Return the window from 25 % to 95 % of the output: without start-up, first quarter and tail.

    `stamps_ms` are the records' timestamps in ms since 1970, in any order. Raises `ValueError`
    without any.
    """
    if not stamps_ms:
        raise ValueError("there is no window without output")
    stamps = np.sort(np.asarray(stamps_ms))
    begin, end = (
        float(stamps[min(len(stamps) - 1, int(share * len(stamps)))]) / 1000
        for share in (_FROM, _TO)
    )
    return TimeWindow(begin, end, _TO - _FROM)


def whole_window(stamps_ms: Sequence[int], begin: float) -> TimeWindow:
    """Return the window from `begin` to the last record. `stamps_ms` is as for `steady_window`.

    Raises `ValueError` without any.
    """
    return TimeWindow(begin, max(stamps_ms) / 1000, 1.0)


def throughput(stamps_ms: Sequence[int], words_a_record: float = 1.0) -> list[float]:
    """Return sentences per second in each half second from the first record on.

    A sentence counts as ten words.
    """
    if not stamps_ms:
        return []
    stamps = np.asarray(stamps_ms)
    bins = (stamps - stamps.min()) // round(BIN_SECS * 1000)
    return [
        float(count) * words_a_record / BIN_SECS / WORDS_PER_SENTENCE for count in np.bincount(bins)
    ]


class Growth:
    """A quantity that only grows, such as used CPU seconds, sampled from time to time."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._values: list[float] = []

    def add(self, time: float, value: float) -> None:
        """Add a sample that is later than all others."""
        self._times.append(time)
        self._values.append(value)

    def between(self, begin: float, end: float) -> float:
        """Return the growth between two times, interpolating samples. 0.0 without samples."""
        return self._at(end) - self._at(begin)

    def _at(self, time: float) -> float:
        return float(np.interp(time, self._times, self._values)) if self._times else 0.0


def latencies_ms(last_stamp: Mapping[int, int], measured_from: int) -> list[float]:
    """Return the latencies of the sentences whose id is `measured_from` or later, in ms, sorted.

    A latency is the time from sending to the last count. `last_stamp` maps a sentence's id (its
    time of sending in µs) to the timestamp of its last count in ms.
    """
    return sorted(
        stamp - ident / 1000 for ident, stamp in last_stamp.items() if ident >= measured_from
    )


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value that `share` of the sorted values don't exceed, or None without values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def spread(values: Iterable[float]) -> dict[str, float] | None:
    """Return `min`, `median` and `max`, or None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return {"min": ordered[0], "median": float(np.median(ordered)), "max": ordered[-1]}
