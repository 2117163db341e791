"""Storm's `SlidingWindowTopology`: the average of three sums, each of the last thirty numbers.

`kstorm dev examples.storm_starter.sliding_window:topology --topic numbers --topic averages`
"""

from examples.storm_starter import json_spout, sink
from kstorm.topology import OutputFieldsDeclarer, Topology, TopologyBuilder
from kstorm.windows import Count, TupleWindow, WindowedBolt


class SlidingWindowSumBolt(WindowedBolt):
    """Emits the sum of a window."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("sum")

    def execute(self, window: TupleWindow) -> None:
        self.collector.emit([sum(tuple["value"] for tuple in window)])


class TumblingWindowAvgBolt(WindowedBolt):
    """Emits the average of a window, rounded down."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("name", "average")

    def execute(self, window: TupleWindow) -> None:
        self.collector.emit(["average", sum(tuple["sum"] for tuple in window) // len(window)])


def topology() -> Topology:
    builder = TopologyBuilder("sliding-window")
    builder.set_spout("numbers", json_spout("numbers", "value"))
    sums = SlidingWindowSumBolt().with_window(Count(30), Count(10))
    builder.set_bolt("sum", sums).shuffle_grouping("numbers")
    averages = TumblingWindowAvgBolt().with_tumbling_window(Count(3))
    builder.set_bolt("average", averages).shuffle_grouping("sum")
    builder.set_bolt("sink", sink("averages", "name", "average")).shuffle_grouping("average")
    return builder.build()
