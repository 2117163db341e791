"""Storm's `ExclamationTopology`: adds two times three exclamation marks to each word.

`kstorm dev examples.storm_starter.exclamation:topology --topic words --topic exclaimed`
"""

from examples.storm_starter import sink, text_spout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)


class ExclamationBolt(BasicBolt):
    """Adds three exclamation marks."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([f"{tuple[0]}!!!"])


def topology() -> Topology:
    builder = TopologyBuilder("exclamation")
    builder.set_spout("word", text_spout("words"), 2)
    builder.set_bolt("exclaim1", ExclamationBolt(), 3).shuffle_grouping("word")
    builder.set_bolt("exclaim2", ExclamationBolt(), 2).shuffle_grouping("exclaim1")
    builder.set_bolt("sink", sink("exclaimed", "word", "word")).shuffle_grouping("exclaim2")
    return builder.build()
