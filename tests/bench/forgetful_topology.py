"""The topology of `./run bench trace`: the demo's word count with a bolt that forgets tuples."""

import os
from typing import Final

from examples.wordcount.topology import SplitSentence
from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    MessageMetadataSchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.topology import (
    Bolt,
    Config,
    Fields,
    OutputCollector,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)

REFERENCE: Final = "tests.bench.forgetful_topology:topology"
NAME, SOURCE, SINK = (f"BENCH_TRACE_{name}" for name in ("NAME", "SOURCE", "SINK"))
"""Environment variables for the processes."""
FORGETS_EVERY: Final = 100_000
TIMEOUT_SECS: Final = 30.0
"""The same as in the demo."""


class ForgetfulCount(Bolt):
    """Counts words, and neither acks nor fails one tuple in 100,000."""

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        super().prepare(config, context, collector)
        self.counts: dict[str, int] = {}
        self.seen = 0

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the sink's record."""
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple) -> None:
        word, where = tuple.values
        self.seen += 1
        if self.seen % FORGETS_EVERY == 0:
            return
        count = self.counts[word] = self.counts.get(word, 0) + 1
        self.collector.emit((word, f"{count} {where}"), tuple)
        self.collector.ack(tuple)


def build(name: str, source: str, sink: str) -> Topology:
    """Build spout → split → count → sink, with one process each."""
    builder = TopologyBuilder(name, Config(topology_message_timeout_secs=TIMEOUT_SECS))
    scheme = MessageMetadataSchemeAsMultiScheme(StringScheme())
    builder.set_spout(
        "sentences", KafkaSpout(SpoutConfig(KafkaHosts(), source, "/kstorm", name, scheme=scheme))
    )
    builder.set_bolt("split", SplitSentence(source)).set_num_tasks(4).shuffle_grouping("sentences")
    builder.set_bolt("count", ForgetfulCount()).set_num_tasks(4).fields_grouping(
        "split", Fields("word")
    )
    builder.set_bolt("sink", KafkaBolt().with_topic_selector(sink)).fields_grouping(
        "count", Fields("key")
    )
    return builder.build()


def topology() -> Topology:
    """The entry point that processes load."""
    return build(os.environ[NAME], os.environ[SOURCE], os.environ[SINK])
