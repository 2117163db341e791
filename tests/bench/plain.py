"""Word count as a first topology has it: `execute` alone, counts in the state, several tasks.

`tests.bench.wordcount` has the same records, and its bolts execute whole frames.
"""

import os

from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.topology.config import AT_LEAST_ONCE
from tests.bench.wordcount import topology_name


class Split(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "id")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        ident, *words = tuple.values[0].split()
        for word in words:
            collector.emit((word, ident))


class Count(StatefulBasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word, ident = tuple.values
        count = self.state.get(word, 0) + 1
        self.state.put(word, count)
        collector.emit((word, f"{count} {ident}"))


def topology() -> Topology:
    """One process per component, with `KSTORM_TASKS` tasks (12) and the defaults of `Config`.

    `KSTORM_GUARANTEE=exactly-once` counts each sentence once.
    """
    name, tasks = topology_name(os.environ["PEER_RUN"]), int(os.environ.get("KSTORM_TASKS", "12"))
    guarantee = os.environ.get("KSTORM_GUARANTEE", AT_LEAST_ONCE).replace("-", "_")
    builder = TopologyBuilder(name, Config(topology_processing_guarantee=guarantee))
    scheme = SchemeAsMultiScheme(StringScheme())
    source = SpoutConfig(KafkaHosts(), os.environ["PEER_IN"], "/kstorm", name, scheme=scheme)
    builder.set_spout("sentences", KafkaSpout(source)).set_num_tasks(tasks)
    builder.set_bolt("split", Split()).set_num_tasks(tasks).shuffle_grouping("sentences")
    builder.set_bolt("count", Count()).set_num_tasks(tasks).fields_grouping("split", Fields("word"))
    sink = KafkaBolt().with_topic_selector(os.environ["PEER_OUT"])
    builder.set_bolt("sink", sink).set_num_tasks(tasks).fields_grouping("count", Fields("key"))
    return builder.build()
