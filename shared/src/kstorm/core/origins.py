"""The source message of each tree, as encoded in the frames of inits: two bytes per message.

Only a spout knows the source of a tree, and only until the tree has ended. Frames are kept for a
day. So for messages of the last day, the trees can be found by the message's coordinates, and the
message by a tree's root.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kstorm.errors import FrameError

Numbers = NDArray[np.int64]


class Origin(NamedTuple):
    """A message, and the attempt at it that a tree belongs to."""

    topic: str
    partition: int
    offset: int
    attempt: int
    """1 for the first."""


class OriginRun(msgspec.Struct, array_like=True, frozen=True):
    """The origins of consecutive trees.

    Their messages are from one partition and in ascending order.
    """

    topic: str
    """Empty if the origins of these trees are unknown."""
    partition: int
    attempt: int
    count: int
    first: int
    """Offset of the first message."""
    steps: bytes = b""
    """Difference of each offset from the one before, little-endian, all in 1, 2, 4 or 8 bytes.
    Empty if each is 1."""

    @property
    def last(self) -> int:
        """Offset of the last message, as far as the run is readable."""
        further = self.count - 1
        width = len(self.steps) // further if further > 0 else 0
        if width not in _WIDTHS:
            return self.first + max(further, 0)
        return self.first + int(np.frombuffer(self.steps, f"<u{width}", further).sum())


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
        if not places.size or places.max() < 0:
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
        width = next(width for width in _WIDTHS if int(steps.max()) < 1 << 8 * width)
        return OriginRun(
            topic, partition, attempt, count, first, steps.astype(f"<u{width}").tobytes()
        )


def unknown_origins(count: int) -> tuple[Numbers, Numbers]:
    """Return the columns for trees of unknown origin."""
    return np.full(count, -1), np.zeros(count, np.int64)


def read_origins(runs: Iterable[OriginRun], count: int) -> Iterator[Origin | None]:
    """Yield the origin of each of the `count` trees of a frame, in order. None where unknown.

    Raises `FrameError` if the runs do not cover `count` trees.
    """
    found = 0
    for run in runs:
        if run.count < 1:
            raise FrameError(f"a run of origins has {run.count} trees")
        found += run.count
        if found > count:
            break
        if not run.topic:
            yield from repeat(None, run.count)
            continue
        for offset in accumulate(_steps(run), initial=run.first):
            yield Origin(run.topic, run.partition, offset, run.attempt)
    if found not in (0, count):
        raise FrameError(f"a frame of {count} trees has origins for {found}")
    if not found:
        yield from repeat(None, count)


def _steps(run: OriginRun) -> Sequence[int]:
    further = run.count - 1
    if not run.steps:
        return range(0) if not further else [1] * further
    width, left = divmod(len(run.steps), further) if further else (0, 1)
    if left or width not in _WIDTHS:
        raise FrameError(f"a run of {run.count} offsets has {len(run.steps)} bytes of steps")
    steps: list[int] = np.frombuffer(run.steps, f"<u{width}").tolist()
    return steps


_WIDTHS = (1, 2, 4, 8)
_MOST_PLACES = 10_000
