"""A word count of random sentences, with a spout without a queue: it caches and replays its tuples.

It follows the `RandomSentenceSpout` of the note *Storm's ack mechanism*. A sentence stays in the
spout's own cache until its tree is complete. If the tree fails, `fail` emits the sentence again.
This survives the death of bolts and ackers, but not that of the spout, whose cache is lost. If no
message may be lost, read from a source that stores messages: `KafkaSpout`, `RabbitMQSpout` or
`KestrelSpout`.
"""

import random
import time
import uuid
from collections.abc import Callable
from typing import Final

from kstorm.kafka import KafkaBolt
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Spout,
    SpoutOutputCollector,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)

SENTENCES: Final = (
    "the cow jumped over the moon",
    "an apple a day keeps the doctor away",
    "four score and seven years ago",
    "snow white and the seven dwarfs",
    "i am at two with nature",
)


class RandomSentenceSpout(Spout):
    """Emits a random sentence every `interval_secs`, and retries it until it has been processed."""

    def __init__(
        self, interval_secs: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval, self._clock = interval_secs, clock

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        super().open(config, context, collector)
        self.pending: dict[uuid.UUID, str] = {}
        self._next = self._clock()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("sentence")

    def next_tuple(self) -> None:
        """Emit a sentence if one is due. The clock decides, because `next_tuple` must not sleep."""
        if self._clock() < self._next:
            return
        self._next += self._interval
        message_id = uuid.uuid4()
        self.pending[message_id] = random.choice(SENTENCES)
        self.collector.emit([self.pending[message_id]], message_id)

    def ack(self, message_id: uuid.UUID) -> None:
        """Remove the processed sentence from the cache."""
        del self.pending[message_id]

    def fail(self, message_id: uuid.UUID) -> None:
        """Emit the sentence again with the same id."""
        self.collector.emit([self.pending[message_id]], message_id)


class SplitSentence(BasicBolt):
    """Splits a sentence into words."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emit each word, anchored to the sentence."""
        for word in tuple["sentence"].split():
            collector.emit([word])


class WordCount(StatefulBasicBolt):
    """Counts words. The counts survive the process."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The word and its count, in the fields that a `KafkaBolt` reads by default."""
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        count = self.state.get(tuple["word"], 0) + 1
        self.state.put(tuple["word"], count)
        collector.emit([tuple["word"], count])


def topology() -> Topology:
    """Run it by `./run topology examples.random_sentence:topology --topic random-words`."""
    builder = TopologyBuilder("random-sentences")
    builder.set_spout("sentences", RandomSentenceSpout())
    builder.set_bolt("split", SplitSentence(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), 2).fields_grouping("split", Fields("word"))
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("random-words")).fields_grouping(
        "count", Fields("key")
    )
    return builder.build()
