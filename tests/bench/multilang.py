"""Word count whose split and count are programs in another process, over Storm's multilang protocol.

The programs are those of the other peers, so Storm and kstorm run the same ones. `PEER_PYTHON`
runs them, and `PEER_HERE` is their folder.
"""

import os
from dataclasses import replace

from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.multilang import ShellBolt
from kstorm.topology import Fields, Topology, TopologyBuilder
from tests.bench import wordcount


def topology() -> Topology:
    """One task and one process per component. `KSTORM_SHELL` is `json` (default) or `msgpack`."""
    name = wordcount.topology_name(os.environ["PEER_RUN"])
    config = replace(wordcount.config(in_state=False), topology_message_timeout_secs=300)
    builder = TopologyBuilder(name, config)
    scheme = SchemeAsMultiScheme(StringScheme())
    source = SpoutConfig(KafkaHosts(), os.environ["PEER_IN"], "/kstorm", name, scheme=scheme)
    builder.set_spout("sentences", KafkaSpout(source)).set_num_tasks(1)
    split, count = _program("split", "word", "id"), _program("count", "key", "message")
    builder.set_bolt("split", split).set_num_tasks(1).shuffle_grouping("sentences")
    builder.set_bolt("count", count).set_num_tasks(1).fields_grouping("split", Fields("word"))
    sink = KafkaBolt().with_topic_selector(os.environ["PEER_OUT"])
    builder.set_bolt("sink", sink).set_num_tasks(1).fields_grouping("count", Fields("key"))
    return builder.build()


def _program(name: str, *fields: str) -> ShellBolt:
    script = f"{os.environ['PEER_HERE']}/shell_{name}.py"
    if os.environ.get("KSTORM_SHELL") == "msgpack":
        command = [os.environ["PEER_PYTHON"], script, "msgpack"]
        return ShellBolt(command, fields, serializer="msgpack")
    return ShellBolt([os.environ["PEER_PYTHON"], script, "json"], fields)
