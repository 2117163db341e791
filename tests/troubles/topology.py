"""The topology of the troubles. A message contains its cost, and whether it is poison.

messages ──▶ check ──▶ count ──▶ store
               └─────▶ recent
"""

import time
from typing import Final

from kstorm.kafka import JsonScheme, KafkaHosts, KafkaSpout, SchemeAsMultiScheme, SpoutConfig
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.windows import Duration, TupleWindow, WindowedBolt

NAME: Final = "troubles"
REFERENCE: Final = "tests.troubles.topology:topology"
SOURCE: Final = "troubles-messages"
PARTITIONS: Final = 4
_RETRIES: Final = 7
_FIELDS: Final = ("key", "at", "cost", "poison")


class Check(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "at", "cost")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emit the message. Raises for poison."""
        key, at, cost, poison = tuple.values
        if poison:
            raise ValueError(f"{key} is poison")
        collector.emit((key, at, cost))


class Count(StatefulBasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "count", "cost")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        key, _, cost = tuple.values
        count = self.state.get(key, 0) + 1
        self.state.put(key, count)
        collector.emit((key, count, cost))


class Recent(WindowedBolt):
    def execute(self, window: TupleWindow) -> None:
        """Do nothing, because only the late tuples matter."""


class Store(BasicBolt):
    """A sink whose duration is the cost of the message."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if tuple["cost"]:
            time.sleep(tuple["cost"])


def topology() -> Topology:
    scheme = SchemeAsMultiScheme(JsonScheme(*_FIELDS))
    config = SpoutConfig(KafkaHosts(), SOURCE, "/kstorm", NAME, scheme=scheme, retry_limit=_RETRIES)
    recent = Recent().with_tumbling_window(Duration.seconds(1))
    recent.with_timestamp_field("at").with_lag(Duration.seconds(2))
    builder = TopologyBuilder(NAME)
    builder.set_spout("messages", KafkaSpout(config)).set_num_tasks(2)
    builder.set_bolt("check", Check()).set_num_tasks(2).shuffle_grouping("messages")
    builder.set_bolt("count", Count(), 2).set_num_tasks(4).fields_grouping("check", "key")
    builder.set_bolt("recent", recent).set_num_tasks(2).fields_grouping("check", "key")
    builder.set_bolt("store", Store()).set_num_tasks(2).shuffle_grouping("count")
    return builder.build()
