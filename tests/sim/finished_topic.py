"""The topic of finished ranges in memory, with checks of its content.

When a range arrives, its counts must be those of the log and of the truth. When ZooKeeper stores an
offset, every offset below it must be in a range that arrived before.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from random import Random
from typing import Any

from kstorm.kafka.finished_ranges import FinishedRange, decode_range
from kstorm.kafka.ports import Headers, OnBatchDelivery, OnDelivery, Partition, RecordColumn
from kstorm.testing.scheduler import Step
from tests.sim.zookeeper import SessionHost

Judge = Callable[[Partition, FinishedRange], object]


class FinishedLog:
    """The topic, which outlives every crash. `judge` is called with each range that arrives."""

    def __init__(self, random: Random, judge: Judge) -> None:
        self.random, self.judge = random, judge
        self.lossy = 0.0
        """Probability that a record is refused. Half of those arrived nevertheless."""
        self.ranges: defaultdict[Partition, list[FinishedRange]] = defaultdict(list)
        """The arrived ranges, by the partition that they are about."""

    def arrive(self, value: bytes) -> None:
        """Add a record."""
        found = decode_range(value)
        partition = Partition(found.topic, found.partition)
        self.ranges[partition].append(found)
        self.judge(partition, found)

    def gap(self, partition: Partition, below: int) -> int | None:
        """Return the first offset below `below` that is in no range, or None."""
        reached = 0
        for found in sorted(self.ranges[partition], key=lambda found: found.start):
            if found.start > reached:
                break
            reached = max(reached, found.end)
        return reached if reached < below else None


class SimulatedWriter:
    """The `RecordWriter` of one spout task. Records arrive, or don't, in steps of its process."""

    def __init__(self, log: FinishedLog, process: SessionHost) -> None:
        self._log, self._process = log, process
        self._waiting: deque[tuple[bytes, OnDelivery]] = deque()
        process.background.append(self.ready)

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        assert value is not None
        assert topic.endswith(".__finished"), f"a spout writes to {topic!r}"
        self._waiting.append((value, on_delivery))
        self._process.wake()

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Any = None,
    ) -> None:
        """No spout calls it."""
        raise AssertionError

    def ready(self) -> list[Step]:
        return [self._deliver] if self._waiting else []

    async def close(self) -> None:
        self.flush()

    def flush(self) -> None:
        """Deliver all records, including new ones."""
        while self._waiting:
            self._deliver()

    def _deliver(self) -> None:
        value, on_delivery = self._waiting.popleft()
        chance = self._log.random.random
        refused = chance() < self._log.lossy
        if not refused or chance() < 0.5:
            self._log.arrive(value)
        on_delivery("as told" if refused else None, None)
        self._process.ask_again()
