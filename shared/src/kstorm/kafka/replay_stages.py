"""Releases the replay requests of a batch in stages: a few first, the rest only if those succeed.

All tasks read the same topic in the same order. In it, the requests of a stage precede those of the
next stage, and a failure precedes the end of its request. So all tasks of a spout reach the same
decision without communication.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from kstorm.kafka.ports import Partition
from kstorm.kafka.replay_requests import ReplayFailure, ReplayRequest, decode_failure

SIZES: Final = (1, 10)
"""Sizes of the first stages. The last stage has the rest."""
MOST_FAILED: Final = 0.2
"""Maximum share of a stage that may fail again."""


def stage_sizes(count: int) -> list[int]:
    """Return the sizes of the stages for `count` requests."""
    sizes: list[int] = []
    for size in (*SIZES, count):
        if size := min(size, count - sum(sizes)):
            sizes.append(size)
    return sizes


class ReplayStages:
    """A spout task's view of the batches."""

    def __init__(self) -> None:
        self._failures: dict[bytes, ReplayFailure] = {}
        self._failed = Counter[tuple[str, int]]()
        self._current: dict[str, int] = {}
        """For each batch, the first stage that has an open request."""
        self._begun: dict[tuple[str, int], float] = {}
        """Time in ms when each (batch, stage) was first seen to be the current one."""

    def take_notice(self, key: bytes, value: bytes | None) -> None:
        """Apply a failure's record. A tombstone removes it. Raises `FrameError` if invalid."""
        before = self._failures.pop(key, None)
        if before is not None:
            self._failed[before.batch, before.stage] -= 1
        if value is not None:
            failure = self._failures[key] = decode_failure(value)
            self._failed[failure.batch, failure.stage] += 1

    def look(self, orders: Collection[ReplayRequest], now_ms: float) -> None:
        """Update the current stages from the open requests."""
        current: dict[str, int] = {}
        for order in orders:
            if order.batch:
                current[order.batch] = min(order.stage, current.get(order.batch, order.stage))
        self._current = current
        self._begun = {stage: self._begun.get(stage, now_ms) for stage in current.items()}

    def stopped(self, order: ReplayRequest) -> str:
        """Return why the request must not run at all, or ""."""
        for stage, size in enumerate(order.stages[: order.stage + 1]) if order.batch else ():
            failed = self._failed[order.batch, stage]
            if failed > MOST_FAILED * size:
                return (
                    f"{failed:,} of {size:,} failed again in stage {stage + 1} of "
                    f"{len(order.stages)}"
                )
        return ""

    def may_begin(self, order: ReplayRequest, now_ms: float) -> bool:
        """Return True if the request's stage has begun and the requested rate allows it to run."""
        if not order.batch:
            return True
        begun = self._begun.get((order.batch, order.stage))
        return begun is not None and begun + order.pace <= now_ms

    def needless(self, held: Collection[Partition]) -> Iterator[bytes]:
        """Yield the keys of failures to delete.

        Their partition is held, and their batch has ended.
        """
        for key, failure in self._failures.items():
            if (
                failure.batch not in self._current
                and Partition(failure.topic, failure.partition) in held
            ):
                yield key
