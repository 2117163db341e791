"""Word count, the main example: sentences from one Kafka topic, counts of words to another.

It is processed exactly once. Whatever dies, each occurrence of a word is counted once and has one
record in the sink topic. Every word carries its position in the source. So a reader knows what was
counted. With at-least-once processing it can also distinguish a replay from a new word.
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
    EXACTLY_ONCE,
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


class SplitSentence(BasicBolt):
    """Splits a sentence of the topic `source` into words."""

    def __init__(self, source: str = "sentences") -> None:
        self._source = source

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """A word and its position in the source."""
        declarer.declare("word", "id")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emit each word, anchored to the sentence."""
        sentence, partition, offset = tuple.values
        for position, word in enumerate(sentence.split()):
            collector.emit((word, f"{self._source}-{partition}-{offset}-{position}"))


class WordCount(StatefulBasicBolt):
    """Counts words. The counts survive the process."""

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
    """Wire spout → split → count → sink. `executors`: processes by component, by default 1."""
    processes = {"sentences": 1, "split": 1, "count": 1, "sink": 1, **(executors or {})}
    builder = TopologyBuilder(name, config)
    scheme = MessageMetadataSchemeAsMultiScheme(StringScheme())
    spout = KafkaSpout(SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme))
    builder.set_spout("sentences", spout, processes["sentences"]).set_num_tasks(2)
    split = builder.set_bolt("split", SplitSentence(source), processes["split"]).set_num_tasks(4)
    split.shuffle_grouping("sentences")
    count = builder.set_bolt("count", WordCount(), processes["count"]).set_num_tasks(4)
    count.fields_grouping("split", Fields("word"))
    # Group by word here too. If two tasks wrote the counts of one word, the last record might not
    # have the highest count.
    write = builder.set_bolt(
        "sink", KafkaBolt().with_topic_selector(sink), processes["sink"]
    ).set_num_tasks(2)
    write.fields_grouping("count", Fields("key"))
    return builder.build()


def topology() -> Topology:
    """Return the topology for a service: `KSTORM_TOPOLOGY=examples.wordcount.topology:topology`."""
    return build(config=Config(topology_processing_guarantee=EXACTLY_ONCE))


def demo() -> Topology:
    """Return the topology of `./run demo`.

    Each run has its own names, and two processes of the components that the demo kills.
    """
    name = os.environ.get("WORDCOUNT_NAME", "wordcount")
    prefix = os.environ.get("WORDCOUNT_TOPIC_PREFIX", "")
    config = Config(
        topology_processing_guarantee=os.environ.get("WORDCOUNT_GUARANTEE", EXACTLY_ONCE),
        topology_message_timeout_secs=float(os.environ.get("WORDCOUNT_TIMEOUT_SECS", "30")),
        topology_acker_executors=2,
    )
    return build(name, f"{prefix}sentences", f"{prefix}word-counts", config, executors={"count": 2})
