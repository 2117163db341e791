"""From time stamps and samples to figures. Times are in seconds since 1970 unless a name says otherwise."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.bench.corpus import WORDS_PER_SENTENCE

BIN_SECS: Final = 0.5
"""The width of the bins of `throughput`."""

_FROM: Final = 0.25
_TO: Final = 0.95
_SHORTEST_SECS: Final = 0.001
"""The broker's stamps are whole milliseconds."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run."""

    begin: float
    end: float
    share: float
    """The part of the output that lies in it."""

    @property
    def seconds(self) -> float:
        """At least a millisecond."""
        return max(_SHORTEST_SECS, self.end - self.begin)


def steady_window(stamps_ms: Sequence[int]) -> Window:
    """From 25 % to 95 % of the output: without the start, the first quarter and the tail.

    `stamps_ms` are the records' stamps, in ms since 1970, in any order.
    Raises `ValueError` without any.
    """
    if not stamps_ms:
        raise ValueError("there is no window without output")
    stamps = np.sort(np.asarray(stamps_ms))
    begin, end = (
        float(stamps[min(len(stamps) - 1, int(share * len(stamps)))]) / 1000
        for share in (_FROM, _TO)
    )
    return Window(begin, end, _TO - _FROM)


def whole_window(stamps_ms: Sequence[int], begin: float) -> Window:
    """From `begin` to the last record; `stamps_ms` as for `steady_window`. Raises `ValueError` without any."""
    return Window(begin, max(stamps_ms) / 1000, 1.0)


def throughput(stamps_ms: Sequence[int], words_a_record: float = 1.0) -> list[float]:
    """Sentences a second in each half second from the first record on, at ten words a sentence."""
    if not stamps_ms:
        return []
    stamps = np.asarray(stamps_ms)
    bins = (stamps - stamps.min()) // round(BIN_SECS * 1000)
    return [
        float(count) * words_a_record / BIN_SECS / WORDS_PER_SENTENCE for count in np.bincount(bins)
    ]


class Growth:
    """A quantity that only grows, such as CPU seconds used, sampled now and then."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._values: list[float] = []

    def add(self, time: float, value: float) -> None:
        """Take a sample, later than all before."""
        self._times.append(time)
        self._values.append(value)

    def between(self, begin: float, end: float) -> float:
        """By how much it grew; between samples it is taken to grow evenly. 0.0 without samples."""
        return self._at(end) - self._at(begin)

    def _at(self, time: float) -> float:
        return float(np.interp(time, self._times, self._values)) if self._times else 0.0


def latencies_ms(last_stamp: Mapping[int, int], measured_from: int) -> list[float]:
    """For each sentence whose id is `measured_from` or later, from its sending to its last count; in ms, sorted.

    `last_stamp` has, by a sentence's id (its time of sending in µs), the stamp of its last count in ms.
    """
    return sorted(
        stamp - ident / 1000 for ident, stamp in last_stamp.items() if ident >= measured_from
    )


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value below or at which `share` of the sorted values lie; None without values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def spread(values: Iterable[float]) -> dict[str, float] | None:
    """`min`, `median` and `max`; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return {"min": ordered[0], "median": float(np.median(ordered)), "max": ordered[-1]}
