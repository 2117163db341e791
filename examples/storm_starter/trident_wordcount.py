"""Storm's `TridentWordCount`: counts words, and answers questions about the counts.

`kstorm dev examples.storm_starter.trident_wordcount:topology --topic sentences --topic asked --topic counts --topic answers`
"""

from collections.abc import Iterable

from kstorm.kafka import KafkaHosts, SchemeAsMultiScheme, StringScheme
from kstorm.topology import Fields, Topology
from kstorm.trident import (
    Count,
    MapGet,
    OpaqueTridentKafkaSpout,
    TridentKafkaConfig,
    TridentTopology,
    kstorm_state,
)


def split(sentence: str) -> Iterable[str]:
    """Return the words of a sentence."""
    return sentence.split()


def text(topic: str) -> OpaqueTridentKafkaSpout:
    """Return a spout that emits each message of the topic as text, in the field `str`."""
    config = TridentKafkaConfig(KafkaHosts(), topic)
    config.scheme = SchemeAsMultiScheme(StringScheme())
    return OpaqueTridentKafkaSpout(config)


def topology() -> Topology:
    trident = TridentTopology("trident-word-count")
    counts = (
        trident.new_stream("sentences", text("sentences"))
        .each(Fields("str"), split, Fields("word"))
        .group_by(Fields("word"))
        .persistent_aggregate(kstorm_state(), Count(), Fields("count"))
        .parallelism_hint(2)
    )
    counts.new_values_stream().to_kafka("counts", key="word")
    asked = trident.new_stream("asked", text("asked"))
    asked.state_query(counts, Fields("str"), MapGet(), Fields("count")).to_kafka("answers")
    return trident.build()
