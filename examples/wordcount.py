"""Word count, the main job: sentences from a Kafka topic, counts of words into another.

Every word carries the place where it was read, so that whoever reads the counts can tell a replay from a new word:
counts are at least once, and `id` says once per what.
"""

import time

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


class SplitSentence(BasicBolt):
    """Splits a sentence into words."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """A word, and where in the source it stands."""
        declarer.declare("word", "id")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emits each word, anchored to the sentence."""
        sentence, partition, offset = tuple.values
        for position, word in enumerate(sentence.split()):
            collector.emit((word, f"{partition}-{offset}-{position}"))


class WordCount(StatefulBasicBolt):
    """Counts words; the counts survive the process."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the sink's record."""
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emits the new count."""
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
    executors: int = 1,
) -> Topology:
    """Wires spout → split → count → sink. `executors` is the number of processes of each component."""
    builder = TopologyBuilder(name, config)
    scheme = MessageMetadataSchemeAsMultiScheme(StringScheme())
    spout = KafkaSpout(SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme))
    builder.set_spout("sentences", spout, executors).set_num_tasks(2)
    builder.set_bolt("split", SplitSentence(), executors).set_num_tasks(4).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), executors).set_num_tasks(4).fields_grouping("split", Fields("word"))
    builder.set_bolt("sink", KafkaBolt().with_topic_selector(sink), executors).set_num_tasks(2).shuffle_grouping(
        "count"
    )
    return builder.build()


def topology() -> Topology:
    """What a service loads: `KSTORM_TOPOLOGY=examples.wordcount:topology`."""
    return build()
