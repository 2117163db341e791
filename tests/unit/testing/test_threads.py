"""Bolts that ack from other threads: every tree ends, with either guarantee."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kstorm.testing import BoltTester, FeederSpout, LocalCluster
from kstorm.topology import Bolt, Config, OutputFieldsDeclarer, TopologyBuilder, Tuple
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE

POOL = ThreadPoolExecutor(4)
RUNNING: list[Future[None]] = []


class Pooled(Bolt):
    """Executes in a thread pool."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple) -> None:
        RUNNING.append(POOL.submit(self._work, tuple))

    def _work(self, tuple: Tuple) -> None:
        self.collector.emit([tuple["word"]], tuple)
        self.collector.ack(tuple)


def settle() -> None:
    """Wait until the pool is idle."""
    while RUNNING:
        RUNNING.pop().result()


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
def test_every_tree_ends(guarantee: str) -> None:
    feeder = FeederSpout("word")
    builder = TopologyBuilder(
        "t", Config(topology_processing_guarantee=guarantee, topology_max_spout_pending=20)
    )
    builder.set_spout("words", feeder)
    builder.set_bolt("pooled", Pooled(), 2).shuffle_grouping("words")
    builder.set_bolt("sink", Sink()).shuffle_grouping("pooled")
    with LocalCluster(builder.build()) as cluster:
        for number in range(500):
            feeder.feed([str(number)], number)
        done: list[Any] = []
        for _ in range(2000):
            cluster.run_until_idle()
            settle()
            done = cluster.acked("words")
            if len(done) == 500:
                break
        assert sorted(done) == list(range(500))
        assert cluster.pending == 0
        assert len(cluster.emitted("pooled")) == 500


class Sink(Bolt):
    def execute(self, tuple: Tuple) -> None:
        self.collector.ack(tuple)


def test_bolt_tester_records_what_a_thread_did() -> None:
    tester = BoltTester(Pooled(), "word")
    message = tester.give(["a"])
    settle()
    tester.settle()
    assert tester.emitted() == [["a"]]
    assert tester.acked == [message]
