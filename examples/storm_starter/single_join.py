"""Storm's `SingleJoinExample`: joins the gender and the age of a person by their id.

`kstorm dev examples.storm_starter.single_join:topology --topic genders --topic ages --topic people`
"""

from examples.storm_starter import json_spout, sink
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.windows import Duration, JoinBolt


class Describe(BasicBolt):
    """Makes one text of the joined fields."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "person")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([str(tuple["id"]), f"{tuple['gender']}, {tuple['age']}"])


def topology() -> Topology:
    builder = TopologyBuilder("single-join")
    builder.set_spout("genders", json_spout("genders", "id", "gender"))
    builder.set_spout("ages", json_spout("ages", "id", "age"))
    join = JoinBolt("genders", "id").join("ages", "id", "genders").select("id", "gender", "age")
    joined = builder.set_bolt("join", join.with_tumbling_window(Duration.seconds(10)), 2)
    joined.fields_grouping("genders", "id").fields_grouping("ages", "id")
    builder.set_bolt("describe", Describe()).shuffle_grouping("join")
    builder.set_bolt("sink", sink("people", "id", "person")).shuffle_grouping("describe")
    return builder.build()
