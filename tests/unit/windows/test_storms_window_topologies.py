"""The window topologies of Storm's starter that its page on windows names."""

from typing import Any

import pytest

from kstorm.testing import BoltTester, FeederSpout, LocalCluster, complete_topology
from kstorm.topology import Config, OutputFieldsDeclarer, Topology, TopologyBuilder
from kstorm.windows import Count, Duration, StatefulWindowedBolt, TupleWindow, WindowedBolt
from tests.unit.windows.shown import Run

S = 1000
"""A second."""


class SlidingWindowSum(WindowedBolt):
    """Storm's `SlidingWindowSumBolt`: adds the new tuples, and subtracts the expired ones."""

    sum = 0

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("sum")

    def execute(self, window: TupleWindow) -> None:
        """Reads only the new and expired tuples."""
        self.sum += sum(tuple[0] for tuple in window.new) - sum(
            tuple[0] for tuple in window.expired
        )
        self.collector.emit([self.sum])


class TumblingWindowAvg(WindowedBolt):
    """Storm's `TumblingWindowAvgBolt`."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("avg")

    def execute(self, window: TupleWindow) -> None:
        """Emits the average of the window, rounded down."""
        self.collector.emit([sum(tuple[0] for tuple in window) // len(window)])


def test_sliding_window_topology() -> None:
    """The sum covers the last thirty numbers every ten, and the average covers three sums."""
    builder = TopologyBuilder("test")
    builder.set_spout("integer", FeederSpout("value", "ts", "msgid"))
    builder.set_bolt(
        "slidingsum", SlidingWindowSum().with_window(Count(30), Count(10))
    ).shuffle_grouping("integer")
    builder.set_bolt(
        "tumblingavg", TumblingWindowAvg().with_tumbling_window(Count(3))
    ).shuffle_grouping("slidingsum")
    numbers = list(range(60))
    result = complete_topology(builder.build(), {"integer": [[n, 0, n] for n in numbers]})
    sums = [sum(numbers[max(0, end - 30) : end]) for end in range(10, 61, 10)]
    assert result.emitted("slidingsum") == [[each] for each in sums]
    assert result.emitted("tumblingavg") == [[sum(sums[:3]) // 3], [sum(sums[3:]) // 3]]


def test_sliding_tuple_ts_topology() -> None:
    """Sums five seconds every three, with times of the previous day."""
    bolt = SlidingWindowSum().with_window(Duration.seconds(5), Duration.seconds(3))
    tester = BoltTester(
        bolt.with_timestamp_field("ts").with_lag(Duration.seconds(5)), "value", "ts", "msgid"
    )
    yesterday = 1_764_000_000_000
    assert yesterday % 3000 == 0
    for second in range(1, 21):
        tester.give([second, yesterday + second * S, second])
    tester.tick()
    expected = [sum(range(max(1, end - 4), end + 1)) for end in range(3, 16, 3)]
    assert tester.emitted() == [[each] for each in expected]


class WindowSum(StatefulWindowedBolt):
    """Storm's `WindowSumBolt`: sums all windows. `init_state` gets the saved sum."""

    def init_state(self, state: Any) -> None:
        """Restores the total."""
        super().init_state(state)
        self.total = state.get("sum", 0)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("sum")

    def execute(self, window: TupleWindow) -> None:
        """Saves the sum."""
        self.total += sum(tuple["value"] for tuple in window)
        self.state.put("sum", self.total)
        self.collector.emit([self.total])


def stateful() -> Topology:
    """Builds windows of the last five tuples, every three."""
    builder = TopologyBuilder("test", Config(topology_processing_guarantee="exactly_once"))
    builder.set_spout("spout", FeederSpout("value", "msgid"))
    builder.set_bolt("sumbolt", WindowSum().with_window(Count(5), Count(3))).shuffle_grouping(
        "spout"
    )
    return builder.build()


def test_stateful_windowing_topology() -> None:
    """After a restart within a window, the bolt continues without a field of ids.

    It shows no window twice.
    """
    with LocalCluster(stateful()) as cluster:
        spout: Any = cluster.topology.component("spout").component
        for number in (1, 2, 3, 4):
            spout.feed([number, number])
        cluster.run_until_idle()
        cluster.checkpoint()
        cluster.crash("sumbolt")
        for number in (5, 6):
            spout.feed([number, number])
        cluster.run_until_idle()
        cluster.checkpoint()
        assert cluster.emitted("sumbolt") == [[6], [6 + 2 + 3 + 4 + 5 + 6]]


class Averages(StatefulWindowedBolt):
    """Storm's `AvgBolt`: the average of each window, and of all tuples so far."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares both averages."""
        declarer.declare("global", "window")

    def execute(self, window: TupleWindow) -> None:
        """Iterates over the tuples."""
        total = count = 0
        for tuple in window:
            total, count = total + tuple[0], count + 1
        before = self.state.get("avg", [0, 0])
        now = [before[0] + total, before[1] + count]
        self.state.put("avg", now)
        self.collector.emit([now[0] / now[1], total / count])


def test_persistent_windowing_topology() -> None:
    """The windows are ten seconds every two. They are in the state without a setting.

    `new` and `expired` are available too.
    """
    run = Run(
        Averages().with_window(Duration.seconds(10), Duration.seconds(2)), {"in": ["n", "ts"]}
    )
    for second, number in [(1.0, 10), (3.0, 20), (11.5, 60)]:
        run.tick(second)
        run.give(number)
    run.tick(14.0)
    assert run.tester.emitted()[:3] == [[10.0, 10.0], [40 / 3, 15.0], [14.0, 15.0]]
    assert run.tester.emitted()[-1] == [pytest.approx((10 * 5 + 20 * 5 + 60 * 2) / 12), 60.0]
