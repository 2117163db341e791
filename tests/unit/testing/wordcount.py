"""Small topologies for the tests of the local cluster."""

import asyncio
from typing import Any

from kstorm.testing import FeederSpout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)


class Split(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if "raise" in tuple["sentence"]:
            raise ValueError("cannot")
        for word in tuple["sentence"].split():
            collector.emit([word])


class Count(StatefulBasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        await asyncio.sleep(0)
        count = self.state.get(tuple["word"], 0) + 1
        self.state.put(tuple["word"], count)
        collector.emit([tuple["word"], count])


class Hold(Bolt):
    """Holds every tuple until a tick, or forever."""

    def __init__(self) -> None:
        self.held: list[Tuple] = []

    def execute(self, tuple: Tuple) -> None:
        if not tuple.is_tick:
            self.held.append(tuple)
            return
        for held in self.held:
            self.collector.ack(held)
        self.held.clear()


def wordcount(feeder: FeederSpout, **settings: Any) -> Topology:
    builder = TopologyBuilder("wc", Config(**settings))
    builder.set_spout("sentences", feeder, 2)
    builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), 2).set_num_tasks(3).fields_grouping("split", "word")
    return builder.build()


def one_bolt(feeder: FeederSpout, bolt: Bolt | BasicBolt, **settings: Any) -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("feeder", feeder)
    builder.set_bolt("bolt", bolt).shuffle_grouping("feeder").add_configurations(**settings)
    return builder.build()
