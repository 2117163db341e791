"""A stuck transaction differs from normal ones in librdkafka's statistics of a partition."""

import json
from collections.abc import Mapping

from kstorm.runtime.kafka.open_transactions import OpenTransactions
from kstorm.runtime.kafka.statistics import read_statistics


class World:
    """A consumer of the topic `in`, with its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.found = OpenTransactions("in", lambda: self.now)

    def after(
        self, seconds: float, logs: Mapping[int, tuple[int, int]], read: set[int] | None = None
    ) -> str:
        """Returns the problem after statistics with a last stable offset and an end per partition."""
        self.now += seconds
        partitions = {
            str(number): {"ls_offset": stable, "hi_offset": end, "app_offset": 3}
            for number, (stable, end) in logs.items()
        }
        told = json.dumps({"topics": {"in": {"partitions": partitions}, "other": {}}})
        self.found.heard(read_statistics(told), set(logs) if read is None else read)
        return self.found.problem()


def test_stuck_transaction_is_named() -> None:
    """The report has the partition and the minimum duration."""
    world = World()
    assert world.after(0, {3: (7, 9), 4: (5, 5)}) == ""
    assert world.after(4, {3: (7, 9), 4: (5, 5)}) == ""
    said = world.after(4, {3: (7, 20), 4: (5, 5)})
    assert (
        said == "topic in partition 3: a transaction has been open for at least 8 s, from offset 7 "
        "on; readers wait for it"
    )
    assert world.found.longest_secs == 8
    assert world.after(2, {3: (20, 20), 4: (5, 5)}) == ""
    assert world.found.longest_secs == 0


def test_short_transactions_are_not_reported() -> None:
    """A transaction is always open, but it changes."""
    world = World()
    assert [world.after(2, {0: (number, number + 3)}) for number in range(10)] == [""] * 10


def test_unfetched_partition_is_ignored() -> None:
    """Its statistics are those of its last fetch, or -1 without any fetch."""
    world = World()
    for _ in range(5):
        assert world.after(2, {0: (7, 9), 1: (-1001, 9)}, read={1}) == ""
