"""The source message of each tree, as encoded in the frames of inits: two bytes per message.

Only a spout knows the source of a tree, and only until the tree has ended. Frames are kept for a
day. So for messages of the last day, the trees can be found by the message's coordinates, and the
message by a tree's root.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from struct import unpack_from
from typing import Final, NamedTuple

import msgspec

from kstorm.errors import FrameError

WIDTHS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""The bytes that a step may take, each with its format."""


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
        if width not in WIDTHS:
            return self.first + max(further, 0)
        steps: tuple[int, ...] = unpack_from(f"<{further}{WIDTHS[width]}", self.steps)
        return self.first + sum(steps)


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
    if left or width not in WIDTHS:
        raise FrameError(f"a run of {run.count} offsets has {len(run.steps)} bytes of steps")
    return unpack_from(f"<{further}{WIDTHS[width]}", run.steps)
