"""A small topology, and its trees rebuilt from its records."""

from collections.abc import Iterator

from kstorm.core.wire import AckFrame, decode, unpack_ids
from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.trees.tree import Tree, build
from kstorm.operations.trees.tree_reader import TopicRecord, TreeReader
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)
from tests.sim.acks import records_of


class Split(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        for word in tuple["sentence"].split():
            collector.emit([word])


class Forgets(Bolt):
    """Never acks or fails one word."""

    def execute(self, tuple: Tuple) -> None:
        if tuple["word"] != "moon":
            self.collector.ack(tuple)


class HoldsAndSends(Bolt):
    """Emits for each word, and never acks the word `moon`."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple) -> None:
        self.collector.emit([tuple["word"]], tuple)
        if tuple["word"] != "moon":
            self.collector.ack(tuple)


class End(BasicBolt):
    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        pass


def topology(
    feeder: FeederSpout, second: Bolt | BasicBolt, third: bool = False, tasks: int = 2
) -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("feeder", feeder)
    builder.set_bolt("split", Split()).shuffle_grouping("feeder")
    builder.set_bolt("count", second, tasks).fields_grouping("split", "word")
    if third:
        builder.set_bolt("sink", End()).shuffle_grouping("count")
    return builder.build()


def trees(
    sentences: list[str], second: Bolt | BasicBolt, third: bool = False, tasks: int = 2
) -> list[Tree]:
    """Returns the tree of each sentence, in order."""
    feeder = FeederSpout("sentence")
    with LocalCluster(topology(feeder, second, third, tasks)) as cluster:
        for number, sentence in enumerate(sentences):
            feeder.feed([sentence], number)
        cluster.run_until_idle()
        found = list(records(cluster))
        return [rebuilt(cluster.topology, found, root) for root in roots(found)]


def records(cluster: LocalCluster) -> Iterator[TopicRecord]:
    for topic, partitions in cluster.topology.topics().items():
        for partition in range(partitions):
            for offset, value in records_of(cluster, topic, partition):
                yield TopicRecord(topic, partition, offset, 1000 + offset, value)


def roots(found: list[TopicRecord]) -> list[int]:
    inits = (
        decode(AckFrame, record.value).init_roots for record in found if record.topic == "t.__acker"
    )
    return [root for column in inits for root in unpack_ids(column)]


def rebuilt(of: Topology, found: list[TopicRecord], root: int) -> Tree:
    gatherer = TreeReader(outline_of(of), root)
    for record in found:
        gatherer.take(record)
    return build(gatherer.found)
