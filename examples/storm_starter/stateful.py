"""Storm's `StatefulTopology`: sums of numbers, in two bolts with state.

The sums survive crashes. With exactly-once processing each number is in them once.

`kstorm dev examples.storm_starter.stateful:topology --topic numbers --topic sums`
"""

from examples.storm_starter import json_spout, sink
from kstorm.topology import (
    EXACTLY_ONCE,
    BasicOutputCollector,
    Config,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)


class StatefulSumBolt(StatefulBasicBolt):
    """Adds the numbers that it receives, and passes them on with the sum."""

    def __init__(self, name: str) -> None:
        self._name = name

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("value", "name", "sum")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        total = self.state.get("sum", 0) + tuple["value"]
        self.state.put("sum", total)
        collector.emit([tuple["value"], self._name, total])


def topology() -> Topology:
    config = Config(topology_processing_guarantee=EXACTLY_ONCE)
    builder = TopologyBuilder("stateful", config)
    builder.set_spout("numbers", json_spout("numbers", "value"))
    builder.set_bolt("partial", StatefulSumBolt("partial")).shuffle_grouping("numbers")
    builder.set_bolt("total", StatefulSumBolt("total")).global_grouping("partial")
    builder.set_bolt("sink", sink("sums", "name", "sum")).shuffle_grouping("total")
    return builder.build()
