"""Which orders of a batch may be carried out: a few first, and the others only when those have gone well.

The orders' topic tells every task the same, in one order: a stage's orders are written before the next one's, a failure before the
end of its order. So all tasks of a spout come to the same judgement, and none of them has to be asked.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from kstorm.kafka.orders import Failure, Order, decode_failure
from kstorm.kafka.ports import Partition

SIZES: Final = (1, 10)
"""Of the first stages; the last one has the rest."""
MOST_FAILED: Final = 0.2
"""The share of a stage that may fail again."""


def stages_of(count: int) -> list[int]:
    """The sizes of the stages of so many orders."""
    sizes: list[int] = []
    for size in (*SIZES, count):
        if size := min(size, count - sum(sizes)):
            sizes.append(size)
    return sizes


class Stages:
    """What a spout task knows of batches."""

    def __init__(self) -> None:
        self._failures: dict[bytes, Failure] = {}
        self._failed = Counter[tuple[str, int]]()
        self._current: dict[str, int] = {}
        """By batch: the first stage that has an open order."""
        self._begun: dict[tuple[str, int], float] = {}
        """When each of these was first seen to be the current one, in ms."""

    def take_notice(self, key: bytes, value: bytes | None) -> None:
        """Of the record of a failure; a tombstone says that nobody needs it any more. Raises `FrameError` if it is none."""
        before = self._failures.pop(key, None)
        if before is not None:
            self._failed[before.batch, before.stage] -= 1
        if value is not None:
            failure = self._failures[key] = decode_failure(value)
            self._failed[failure.batch, failure.stage] += 1

    def look(self, orders: Collection[Order], now_ms: float) -> None:
        """Takes notice of the orders that are open."""
        current: dict[str, int] = {}
        for order in orders:
            if order.batch:
                current[order.batch] = min(order.stage, current.get(order.batch, order.stage))
        self._current = current
        self._begun = {stage: self._begun.get(stage, now_ms) for stage in current.items()}

    def stopped(self, order: Order) -> str:
        """Why it is not to be carried out at all; empty if it is."""
        for stage, size in enumerate(order.stages[: order.stage + 1]) if order.batch else ():
            failed = self._failed[order.batch, stage]
            if failed > MOST_FAILED * size:
                return f"{failed:,} of {size:,} failed again in stage {stage + 1} of {len(order.stages)}"
        return ""

    def may_begin(self, order: Order, now_ms: float) -> bool:
        """Whether its stage has begun, and its time in that has come."""
        if not order.batch:
            return True
        begun = self._begun.get((order.batch, order.stage))
        return begun is not None and begun + order.pace <= now_ms

    def needless(self, held: Collection[Partition]) -> Iterator[bytes]:
        """Keys of failures in these partitions whose batch has ended: to be deleted."""
        for key, failure in self._failures.items():
            if (
                failure.batch not in self._current
                and Partition(failure.topic, failure.partition) in held
            ):
                yield key
