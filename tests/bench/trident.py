"""A batch-wise word count: for each batch a record per word, key=word, value=`<count>`.

It exists by hand, in `kstorm.trident` as a user would write it, and in Trident without combining
before tuples are sent. All three have the same output, exactly once. The environment is as for
`tests.bench.wordcount`. `KSTORM_COUNTS` is the number of processes and tasks that count.
"""

import os
from collections import Counter
from itertools import repeat

from kstorm.kafka import (
    FieldNameBasedTupleToKafkaMapper,
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
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
    TupleBatch,
)
from kstorm.trident import (
    Count,
    Function,
    OpaqueTridentKafkaSpout,
    Stream,
    TridentCollector,
    TridentKafkaConfig,
    TridentTopology,
    TridentTuple,
    kstorm_state,
)
from tests.bench.wordcount import config, topology_name


class SplitByHand(BasicBolt):
    """Splits a sentence into words, without its id."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        for word in tuple.values[0].split()[1:]:
            collector.emit((word,))

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        words: list[str] = []
        positions: list[int] = []
        for position, sentence in enumerate(batch[0]):
            found = sentence.split()[1:]
            words += found
            positions += repeat(position, len(found))
        collector.emit_batch((words,), positions)


class CountByHand(StatefulBasicBolt):
    """Counts words in its state, and emits the new count of each word of a batch."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word = tuple.values[0]
        count = self.state.get(word, 0) + 1
        self.state.put(word, count)
        collector.emit((word, count))

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        get, put, words = self.state.get, self.state.put, batch[0]
        last = dict(zip(words, range(len(words)), strict=True))
        counts = {word: get(word, 0) + more for word, more in Counter(words).items()}
        for word, count in counts.items():
            put(word, count)
        collector.emit_batch((list(counts), list(counts.values())), [last[word] for word in counts])


class Split(Function):
    """Splits a sentence into words, without its id."""

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        for word in tuple["str"].split()[1:]:
            collector.emit([word])


def by_hand() -> Topology:
    """Build spout, split, count and sink."""
    name, counts = topology_name(os.environ["PEER_RUN"]), _counts()
    builder = TopologyBuilder(name, config(in_state=True))
    scheme = SchemeAsMultiScheme(StringScheme())
    builder.set_spout(
        "sentences",
        KafkaSpout(
            SpoutConfig(KafkaHosts(), os.environ["PEER_IN"], "/kstorm", name, scheme=scheme)
        ),
    )
    builder.set_bolt("split", SplitByHand()).shuffle_grouping("sentences")
    builder.set_bolt("count", CountByHand(), counts).fields_grouping("split", Fields("word"))
    builder.set_bolt("sink", _sink()).shuffle_grouping("count")
    return builder.build()


def trident() -> Topology:
    """Build the same with Trident's streams."""
    topology, words = _words()
    return _counted(topology, words)


def uncombined() -> Topology:
    """Build the same without combining: every word is sent, since the stream is partitioned."""
    topology, words = _words()
    return _counted(topology, words.project("word").partition_by("word"))


def _words() -> tuple[TridentTopology, Stream]:
    topology = TridentTopology(topology_name(os.environ["PEER_RUN"]), config(in_state=True))
    source = TridentKafkaConfig(KafkaHosts(), os.environ["PEER_IN"])
    source.scheme = SchemeAsMultiScheme(StringScheme())
    sentences = topology.new_stream("sentences", OpaqueTridentKafkaSpout(source))
    return topology, sentences.each(Fields("str"), Split(), Fields("word"))


def _counted(topology: TridentTopology, words: Stream) -> Topology:
    counts = words.group_by(Fields("word")).persistent_aggregate(
        kstorm_state(), Count(), Fields("count")
    )
    counts.parallelism_hint(_counts()).new_values_stream().to_kafka(_sink())
    return topology.build()


def _sink() -> KafkaBolt:
    mapper = FieldNameBasedTupleToKafkaMapper("word", "count")
    return (
        KafkaBolt().with_topic_selector(os.environ["PEER_OUT"]).with_tuple_to_kafka_mapper(mapper)
    )


def _counts() -> int:
    return int(os.environ.get("KSTORM_COUNTS", "1"))
