"""Word count, the main job: sentences from a Kafka topic, counts of words into another.

It is processed exactly once: whatever dies, each occurrence of a word is counted once, and has one record in the sink topic.
Every word carries the place where it was read. So a reader can tell what was counted, and, if the topology is processed at least
once instead, a replay from a new word.
"""

import os
import time
from collections.abc import Mapping

import msgspec

from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    MessageMetadataSchemeAsMultiScheme,
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
from kstorm.topology.config import EXACTLY_ONCE


class SplitSentence(BasicBolt):
    """Splits a sentence, of the topic `source`, into words."""

    def __init__(self, source: str = "sentences") -> None:
        self._source = source

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """A word, and where in the source it stands."""
        declarer.declare("word", "id")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emits each word, anchored to the sentence."""
        sentence, partition, offset = tuple.values
        for position, word in enumerate(sentence.split()):
            collector.emit((word, f"{self._source}-{partition}-{offset}-{position}"))


class WordCount(StatefulBasicBolt):
    """Counts words; the counts survive the process."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the sink's record."""
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word, where = tuple.values
        count = self.state.get(word, 0) + 1
        self.state.put(word, count)
        record = {"word": word, "count": count, "id": where, "emitted_at": int(time.time() * 1000)}
        collector.emit((word, msgspec.json.encode(record)))


def build(
    name: str = "wordcount",
    source: str = "sentences",
    sink: str = "word-counts",
    config: Config | None = None,
    executors: Mapping[str, int] | None = None,
) -> Topology:
    """Wires spout → split → count → sink. `executors` is the number of processes by component, 1 if not said."""
    processes = {"sentences": 1, "split": 1, "count": 1, "sink": 1, **(executors or {})}
    builder = TopologyBuilder(name, config)
    scheme = MessageMetadataSchemeAsMultiScheme(StringScheme())
    spout = KafkaSpout(SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme))
    builder.set_spout("sentences", spout, processes["sentences"]).set_num_tasks(2)
    split = builder.set_bolt("split", SplitSentence(source), processes["split"]).set_num_tasks(4)
    split.shuffle_grouping("sentences")
    count = builder.set_bolt("count", WordCount(), processes["count"]).set_num_tasks(4)
    count.fields_grouping("split", Fields("word"))
    # By word here too: with two tasks writing counts of one word, the last one written need not be the highest.
    write = builder.set_bolt(
        "sink", KafkaBolt().with_topic_selector(sink), processes["sink"]
    ).set_num_tasks(2)
    write.fields_grouping("count", Fields("key"))
    return builder.build()


def topology() -> Topology:
    """What a service loads: `KSTORM_TOPOLOGY=examples.wordcount.topology:topology`."""
    return build(config=Config(topology_processing_guarantee=EXACTLY_ONCE))


def demo() -> Topology:
    """What `./run demo` runs: under the names of one run, and with two processes of each kind that it is going to kill."""
    name = os.environ.get("WORDCOUNT_NAME", "wordcount")
    prefix = os.environ.get("WORDCOUNT_TOPIC_PREFIX", "")
    config = Config(
        topology_processing_guarantee=os.environ.get("WORDCOUNT_GUARANTEE", EXACTLY_ONCE),
        topology_message_timeout_secs=float(os.environ.get("WORDCOUNT_TIMEOUT_SECS", "30")),
        topology_acker_executors=2,
    )
    return build(name, f"{prefix}sentences", f"{prefix}word-counts", config, executors={"count": 2})
