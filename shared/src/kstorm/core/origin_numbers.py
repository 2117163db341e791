"""Encodes the source messages of a spout's trees, column by column. `origins` reads them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kstorm.core.origins import WIDTHS, OriginRun

Numbers = NDArray[np.int64]
_MOST_PLACES: Final = 10_000

Run = tuple[str, int, int, Sequence[int]]
"""Consecutive messages: topic, partition, attempt, and the offset of each."""


class OriginNumbers:
    """Assigns numbers to triples of topic, partition and attempt."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._places: list[tuple[str, int, int]] = []

    def columns(self, runs: Iterable[Run]) -> tuple[Numbers, Numbers]:
        """Return two columns: the place number and the offset of each message."""
        numbers: list[int] = []
        sizes: list[int] = []
        offsets: list[Any] = []
        for topic, partition, attempt, run in runs:
            place = (topic, partition, attempt)
            number = self._numbers.get(place)
            if number is None:
                number = self._numbers[place] = len(self._places)
                self._places.append(place)
            numbers.append(number)
            sizes.append(len(run))
            offsets.append(run)
        joined = offsets[0] if len(offsets) == 1 else [offset for run in offsets for offset in run]
        places = (
            np.full(sizes[0], numbers[0])
            if len(sizes) == 1
            else np.repeat(np.array(numbers, np.int64), sizes)
        )
        return places, np.array(joined, np.int64)

    def make_room(self) -> None:
        """Reset the numbers if there are too many. Call it only when no column is in use.

        A message that is retried forever gets another place at each attempt.
        """
        if len(self._places) > _MOST_PLACES:
            self._numbers, self._places = {}, []

    def runs(self, places: Numbers, offsets: Numbers) -> list[OriginRun]:
        """Encode the origins of a frame's trees. Returns an empty list if none is known."""
        if not places.size or np.max(places) < 0:
            return []
        cuts = np.flatnonzero((places[1:] != places[:-1]) | (offsets[1:] < offsets[:-1])) + 1
        bounds = [0, *cuts.tolist(), places.size]
        return [self._run(int(places[at]), offsets[at:end]) for at, end in pairwise(bounds)]

    def _run(self, number: int, offsets: Numbers) -> OriginRun:
        count = offsets.size
        if number < 0:
            return OriginRun("", -1, 0, count, 0)
        topic, partition, attempt = self._places[number]
        first = int(offsets[0])
        if int(offsets[-1]) - first == count - 1 and (count < 3 or (np.diff(offsets) == 1).all()):
            return OriginRun(topic, partition, attempt, count, first)
        steps = np.diff(offsets)
        width = next(width for width in WIDTHS if int(steps.max()) < 1 << 8 * width)
        return OriginRun(
            topic, partition, attempt, count, first, steps.astype(f"<u{width}").tobytes()
        )


def unknown_origins(count: int) -> tuple[Numbers, Numbers]:
    """Return the columns for trees of unknown origin."""
    return np.full(count, -1), np.zeros(count, np.int64)
