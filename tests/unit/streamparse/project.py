"""A project of streamparse as its users write it: not annotated, and with the imports of streamparse."""

FILES = {
    "src/spouts/__init__.py": "",
    "src/spouts/phrases.py": """\
from streamparse.spout import ReliableSpout, Spout

PHRASES = ["a rose is a rose", "is a rose"]


class PhraseSpout(ReliableSpout):
    outputs = ["phrase"]

    def initialize(self, stormconf, context):
        self.left = list(enumerate(PHRASES * stormconf.get("phrases.times", 1)))
        self.finished = []

    def next_tuple(self):
        if self.left:
            number, phrase = self.left.pop(0)
            self.emit([phrase], tup_id=number)


class UnreliableSpout(Spout):
    outputs = ["number"]

    def initialize(self, stormconf, context):
        self.numbers = iter(range(1_000_000))

    def next_tuple(self):
        self.emit([next(self.numbers)])
""",
    "src/bolts/__init__.py": "",
    "src/bolts/words.py": """\
from collections import Counter

from streamparse import BatchingBolt, Bolt, Stream, TicklessBatchingBolt


class SplitBolt(Bolt):
    outputs = ["word", Stream(fields=["phrase", "words"], name="lengths")]

    def process(self, tup):
        words = tup.values.phrase.split()
        self.emit_many([[word] for word in words])
        self.emit([tup.values[0], len(words)], stream="lengths")
        self.logger.debug("split %r", tup.id)


class CountBolt(Bolt):
    outputs = ["word", "count"]

    def initialize(self, conf, ctx):
        self.counter = Counter()
        self.weight = conf.get("word.weight", 1)

    def process(self, tup):
        word = tup.values.word
        self.counter[word] += self.weight
        self.report_metric("words", sum(self.counter.values()))
        self.emit([word, self.counter[word]])


class BatchCountBolt(BatchingBolt):
    outputs = ["word", "size"]
    config = {"topology.tick.tuple.freq.secs": 1}
    ticks_between_batches = 1

    def group_key(self, tup):
        return tup.values.word

    def process_batch(self, key, tups):
        if key == "bad":
            raise ValueError("a bad word")
        self.emit([key, len(tups)])


class TicklessCountBolt(TicklessBatchingBolt):
    outputs = ["size"]
    secs_between_batches = 5

    def process_batch(self, key, tups):
        self.emit([len(tups)])
""",
    "topologies/phrases.py": """\
from streamparse import Grouping, Topology

from bolts.words import CountBolt, SplitBolt
from spouts.phrases import PhraseSpout


class PhraseCount(Topology):
    config = {"topology.max.spout.pending": 50, "topology.workers": 2, "phrases.times": 2}

    phrases = PhraseSpout.spec()
    split = SplitBolt.spec(inputs=[phrases], par=2)
    count = CountBolt.spec(
        name="count-bolt",
        inputs={split: Grouping.fields("word")},
        par={"prod": 3, "test": 1},
        config={"word.weight": 10, "topology.message.timeout.secs": 12},
    )
""",
}
