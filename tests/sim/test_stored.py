"""Queries of a state return exactly the committed content, at any moment of any schedule.

Processes are killed during transactions, are assumed dead and resume, and get tasks back on an old
disk. Transactions are aborted, and executions rolled back. After each step the test compares the
queryable content of each task with the committed records of its changelog. The comparison ends at
the offset that the query returns.
"""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from kstorm.core.exactly_once.unfinished import is_unfinished_key
from kstorm.core.recovery import LocalCopy
from kstorm.runtime.store.stored_state import StoredState
from kstorm.testing import LocalCluster
from kstorm.testing.disks import DiskTable
from kstorm.testing.logs import TransactionFate
from kstorm.testing.process import SimulatedProcess
from kstorm.topology import (
    BasicOutputCollector,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)
from tests.sim.exactly_once.components import Messages
from tests.sim.exactly_once.small_world import BOLT, explore_small_world

SCHEDULES = 60


class Tables:
    """The disk of a process with the interface of a `TaskStore`."""

    def __init__(self, process: SimulatedProcess[Any]) -> None:
        self._process = process

    def copy(self, task: int) -> LocalCopy | None:
        return self._table(task).copy if task in self._process.engine.tenures else None

    def get(self, task: int, key: bytes) -> bytes | None:
        return self._table(task).rows.get(key)

    def items(self, task: int, start: bytes, at_once: int) -> Iterable[tuple[bytes, bytes]]:
        return sorted(row for row in self._table(task).rows.items() if row[0] >= start)

    def _table(self, task: int) -> DiskTable:
        return self._process.disk._tables.get(self._process._changelog(task), DiskTable())


def committed(process: SimulatedProcess[Any], task: int, reached: int) -> dict[str, bytes]:
    """Return a task's state from its changelog, up to an offset."""
    table = DiskTable()
    for written in process.world.logs.changelog(process._changelog(task))[: reached + 1]:
        if written.transaction.fate is TransactionFate.COMMITTED and not is_unfinished_key(
            written.change[0]
        ):
            table.apply([written.change])
    return {key.decode(): value for key, value in table.rows.items()}


def compare(cluster: LocalCluster, seen: Counter[str]) -> None:
    """Assert that both are the same."""
    for process in cluster.processes(BOLT):
        stored = StoredState(Tables(process))
        for task in list(process.engine.tenures):
            if (copy := stored.copy(task)) is not None:
                expected = committed(process, task, copy.reached)
                told = dict(stored.page(task, "", None, 1000).pairs)
                assert told == expected, (process.name, task, copy)
                assert {key: stored.get(task, key) for key in expected} == expected
                seen["told"] += bool(told)
                seen["amid a transaction"] += process.transacting is not None and bool(told)


def test_exactly_once_queries_return_only_committed_state() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        explore_small_world(seed, look=lambda cluster: compare(cluster, seen))
    assert seen["told"] > 1000
    assert seen["amid a transaction"] > 100


class Count(StatefulBasicBolt):
    """Counts by key."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self.state.put(tuple["key"], self.state.get(tuple["key"], 0) + 1)


def at_least_once() -> Topology:
    """The same without epochs."""
    builder = TopologyBuilder("small")
    builder.set_spout("messages", Messages([list(range(8))]))
    builder.set_bolt(BOLT, Count(), 2).set_num_tasks(2).fields_grouping("messages", "key")
    return builder.build()


def test_at_least_once_queries_return_only_committed_state() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        random = Random(f"told {seed}")
        with LocalCluster(at_least_once(), seed, resources={}, at_once=False) as cluster:
            for _ in range(120):
                cluster.step()
                compare(cluster, seen)
                if random.random() < 0.1:
                    cluster.begin_checkpoint(BOLT)
                if random.random() < 0.02:
                    cluster.crash(BOLT, random.randrange(2), random.choice(("kept", "lost", "old")))
    assert seen["told"] > 100
    assert seen["amid a transaction"] > 10
