"""The topology under test: a word count, and a diamond with a join, fed by one spout.

                  ┌─words──▶ count ──▶ words (topic)
    messages ──▶ split
        │         └─halves─▶ join ──▶ joined (topic)
        └───────▶ check ─────▶┘

A message is `<id> word word …`. `split` sends its words to the count, and their number to the join.
`check` sends a checksum. The join holds the half that arrives first, and anchors to both. The word
`!raise` makes `check` always raise. The word `!large` makes `split` emit more than a record may
hold.
"""

import os
import time
from collections import OrderedDict
from typing import Final
from zlib import crc32

import msgspec

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
    Bolt,
    Config,
    Fields,
    OutputCollector,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)
from kstorm.topology.config import AT_LEAST_ONCE

NAME: Final = "chaos"
REFERENCE: Final = "tests.chaos.topology:topology"
"""The reference that the services load."""
TIMEOUT_VARIABLE: Final = "KSTORM_CHAOS_TIMEOUT_SECS"
"""The environment variable with the message timeout."""
GUARANTEE_VARIABLE: Final = "KSTORM_CHAOS_GUARANTEE"
"""The environment variable with `topology_processing_guarantee`."""
SOURCE: Final = "chaos-messages"
PARTITIONS: Final = 6
"""Partitions of the source topic."""
WORDS: Final = "chaos-words"
JOINED: Final = "chaos-joined"
RAISE: Final = "!raise"
LARGE: Final = "!large"
LARGE_BYTES: Final = 5_000_000
RETRIES: Final = 10
ZK_ROOT: Final = "/kstorm"


class Split(BasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The words with their positions, and their number."""
        declarer.declare_stream("words", ("word", "id", "position"))
        declarer.declare_stream("halves", ("id", "branch", "answer"))

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        id, *words = tuple[0].split()
        for position, word in enumerate(words):
            collector.emit(
                (word if word != LARGE else word * (LARGE_BYTES // len(LARGE)), id, position),
                "words",
            )
        collector.emit((id, "length", len(words)), "halves")


class Check(BasicBolt):
    """Emits a checksum of a message."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare_stream("halves", ("id", "branch", "answer"))

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emit the checksum. Raises for a message with `!raise`."""
        text: str = tuple[0]
        id, *words = text.split()
        if RAISE in words:
            raise ValueError(f"{id} says {RAISE}")
        collector.emit((id, "checksum", crc32(text.encode())), "halves")


class Count(StatefulBasicBolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the record to write."""
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        word, id, position = tuple.values
        count = self.state.get(word, 0) + 1
        self.state.put(word, count)
        record = {"id": id, "position": position, "word": word, "count": count}
        collector.emit((word, msgspec.json.encode(record)))


class Join(Bolt):
    """Joins the two halves of one attempt at a message, which share the root of their tree.

    It duplicates the join of `examples/diamond.py` on purpose. Examples are read and copied as a
    whole, so they import no join from elsewhere, and the library does not import its examples.
    """

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        super().prepare(config, context, collector)
        self._waiting: OrderedDict[int, tuple[float, Tuple]] = OrderedDict()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the record to write."""
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple) -> None:
        """Hold the first half. With the second, emit and ack both. Ticks fail old halves."""
        if tuple.is_tick:
            self._give_up(time.monotonic() - self.config.topology_message_timeout_secs)
            return
        _, other = self._waiting.pop(tuple.root, (0.0, None))
        # That branch was executed again.
        if other is not None and other["branch"] == tuple["branch"]:
            self.collector.ack(other)
            other = None
        if other is None:
            self._waiting[tuple.root] = (time.monotonic(), tuple)
            return
        record = {
            "id": tuple["id"],
            other["branch"]: other["answer"],
            tuple["branch"]: tuple["answer"],
        }
        self.collector.emit((tuple["id"], msgspec.json.encode(record)), anchors=[other, tuple])
        self.collector.ack(other)
        self.collector.ack(tuple)

    def _give_up(self, before: float) -> None:
        while self._waiting:
            root, (since, half) = next(iter(self._waiting.items()))
            if since > before:
                return
            del self._waiting[root]
            self.collector.fail(half)


def topology() -> Topology:
    """Build it: two processes for the count and the acker, one for everything else."""
    timeout = float(os.environ.get(TIMEOUT_VARIABLE, "12"))
    config = Config(
        topology_message_timeout_secs=timeout,
        topology_acker_executors=2,
        topology_processing_guarantee=os.environ.get(GUARANTEE_VARIABLE, AT_LEAST_ONCE),
        # The join fails a half whenever its partner is late.
        topology_bolt_retry_limit=RETRIES,
    )
    builder = TopologyBuilder(NAME, config)
    spout = KafkaSpout(
        SpoutConfig(
            KafkaHosts(),
            SOURCE,
            ZK_ROOT,
            NAME,
            scheme=SchemeAsMultiScheme(StringScheme()),
            retry_limit=RETRIES,
            retry_initial_delay_ms=100,
            retry_delay_multiplier=2.0,
            retry_delay_max_ms=2000,
        )
    )
    builder.set_spout("messages", spout).set_num_tasks(2)
    builder.set_bolt("split", Split()).set_num_tasks(3).shuffle_grouping("messages")
    builder.set_bolt("check", Check()).set_num_tasks(2).shuffle_grouping("messages")
    count = builder.set_bolt("count", Count(), 2).set_num_tasks(4)
    count.fields_grouping("split", Fields("word"), "words")
    join = builder.set_bolt("join", Join()).set_num_tasks(2)
    join.add_configurations(
        topology_tick_tuple_freq_secs=1.0, topology_bolt_retry_delay_max_ms=1000.0
    )
    join.fields_grouping("split", "id", "halves").fields_grouping("check", "id", "halves")
    words = builder.set_bolt("words", KafkaBolt().with_topic_selector(WORDS)).set_num_tasks(2)
    words.fields_grouping("count", Fields("key"))
    joined = builder.set_bolt("joined", KafkaBolt().with_topic_selector(JOINED)).set_num_tasks(2)
    joined.fields_grouping("join", "key")
    return builder.build()
