"""Word count as a first topology has it: `execute` alone, counts in the state, several tasks."""

import os

from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.topology import BasicBolt, Config, Fields, Topology, TopologyBuilder
from kstorm.topology.config import AT_LEAST_ONCE
from tests.bench import wordcount


class Split(wordcount.Split):
    execute_batch = BasicBolt.execute_batch


class Count(wordcount.CountInState):
    execute_batch = BasicBolt.execute_batch


def topology() -> Topology:
    """One process per component, with `KSTORM_TASKS` tasks (12) and the defaults of `Config`.

    `KSTORM_GUARANTEE=exactly-once` counts each sentence once.
    """
    name, tasks = (
        wordcount.topology_name(os.environ["PEER_RUN"]),
        int(os.environ.get("KSTORM_TASKS", "12")),
    )
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
