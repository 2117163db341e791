"""The cost of the core's parts. Nothing here asserts a time: `--compare` shows the change."""

from collections import deque
from itertools import count
from random import Random
from typing import Any

import pytest

from kstorm.core.bolt_task import BoltTask
from kstorm.core.completion_box import CompletionBox
from kstorm.core.ids import random_columns, random_ids
from kstorm.core.ledger import BUCKETS, Ledger
from kstorm.core.outbox import Outbox
from kstorm.core.routing import routes
from kstorm.core.spout_task import SpoutTask
from kstorm.core.wire import (
    VERSION,
    AckFrame,
    CompletionFrame,
    TupleFrame,
    decode,
    encode,
    pack_ids,
    unpack_ids,
)
from kstorm.kafka import (
    KAFKA,
    FieldNameBasedTupleToKafkaMapper,
    KafkaBolt,
    KafkaHosts,
    KafkaPorts,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import Partition
from kstorm.topology import Fields, TopologyBuilder, TopologyContext
from tests.bench.conftest import WORDS, Measure, N
from tests.bench.inprocess import CountOneByOne, InProcess, SplitOneByOne
from tests.bench.wordcount import Count, Split
from tests.unit.core.test_batches import Words

PIPE = InProcess(tasks=4)
TOPOLOGY = PIPE.topology


def ids(number: int, seed: int = 1) -> list[int]:
    return Random(seed).sample(range(1, 1 << 63), number)


def frame(component: str, columns: list[list[Any]], words_a_tree: int = 10) -> TupleFrame:
    """Return a frame of tracked tuples. Adjacent tuples belong to the same tree."""
    size = len(columns[0])
    roots = [root for root in ids(size // words_a_tree + 1) for _ in range(words_a_tree)][:size]
    task = TOPOLOGY.task_ids(component)[0]
    return TupleFrame(
        VERSION,
        component,
        task,
        "default",
        size,
        pack_ids(roots),
        pack_ids(ids(size, 2)),
        {},
        columns,
    )


def test_encode(measure: Measure) -> None:
    """Encode a frame of tuples of two strings."""
    found = frame("split", [WORDS, WORDS])
    measure(N, lambda: encode(found))


def test_decode(measure: Measure) -> None:
    """Decode a frame of tuples of two strings."""
    data = encode(frame("split", [WORDS, WORDS]))
    measure(N, lambda: decode(TupleFrame, data))


def test_route(measure: Measure) -> None:
    """Choose the task by fields, one tuple after the other."""
    (choose,) = routes(TOPOLOGY, "split", 0, Outbox(TOPOLOGY))["default"].choosers
    rows = [(word, "1") for word in WORDS]
    measure(N, lambda: [choose(row) for row in rows])


def test_spread(measure: Measure) -> None:
    """Spread a batch by fields over four tasks."""
    (spread,) = routes(TOPOLOGY, "split", 0, Outbox(TOPOLOGY))["default"].spreaders
    columns = [WORDS, WORDS]
    measure(N, lambda: list(spread(columns, N)))


def run_bolt(measure: Measure, component: str, bolt: Any, found: TupleFrame, items: int) -> None:
    """Measure a bolt that executes a frame, including the draining of its output."""
    outbox = Outbox(TOPOLOGY)
    task = BoltTask(TOPOLOGY, component, 0, bolt, outbox, random_ids(), _raise, random_columns())
    bolt.prepare(task.config, TopologyContext(TOPOLOGY, component, 0))

    def act() -> None:
        for _ in task.receive(found):
            pass
        outbox.drain_tuples()
        outbox.drain_acks()

    measure(items, act)


SENTENCES = [" ".join(["7", *WORDS[at : at + 10]]) for at in range(0, N, 10)]


def test_split(measure: Measure) -> None:
    """Split, in batches: a word emitted, sent."""
    run_bolt(measure, "split", Split(), frame("spout", [SENTENCES], 1), N)


def test_split_one_by_one(measure: Measure) -> None:
    """Split, tuple by tuple: a word emitted, sent."""
    run_bolt(measure, "split", SplitOneByOne(), frame("spout", [SENTENCES], 1), N)


def test_count(measure: Measure) -> None:
    """Count, in batches: a word executed, its count emitted, acked, sent."""
    run_bolt(measure, "count", Count(), frame("split", [WORDS, WORDS]), N)


def test_count_one_by_one(measure: Measure) -> None:
    """Count, tuple by tuple: a word executed, its count emitted, acked, sent."""
    run_bolt(measure, "count", CountOneByOne(), frame("split", [WORDS, WORDS]), N)


def test_acker(measure: Measure) -> None:
    """Acker: a row begun or acked (a tree has an init and three acks)."""
    box = CompletionBox(TOPOLOGY)
    ledger = Ledger(box)
    offsets, roots, edges, ones = count(), pack_ids(ids(N)), pack_ids(ids(N, 2)), pack_ids([1] * N)

    def act() -> None:
        ledger.apply(AckFrame(VERSION, 1, init_roots=roots, init_vals=edges), next(offsets))
        for news in (ones, edges, ones):
            ledger.apply(AckFrame(VERSION, 0, roots=roots, vals=news), next(offsets))
        box.acked.clear()

    measure(4 * N, act)


def test_checkpoint(measure: Measure) -> None:
    """Acker: an open tree in a checkpoint of 100,000 (20 bytes each)."""
    ledger = Ledger(CompletionBox(TOPOLOGY))
    roots = ids(100_000)
    ledger.apply(AckFrame(VERSION, 1, init_roots=pack_ids(roots), init_vals=pack_ids(roots)), 0)
    one_a_bucket = pack_ids(
        [next(root for root in roots if root % BUCKETS == bucket) for bucket in range(BUCKETS)]
    )
    offsets = count(1)

    def act() -> None:
        news = pack_ids([next(offsets)] * BUCKETS)  # changes every bucket
        ledger.apply(AckFrame(VERSION, 0, roots=one_a_bucket, vals=news), next(offsets))
        assert sum(map(len, ledger.checkpoint().values())) < 20.1 * 100_000

    measure(100_000, act)


class Message:
    def __init__(self, offset: int) -> None:
        self.offset, self.value = lambda: offset, lambda: b"some words in a sentence that was read"
        self.key, self.partition, self.topic = (lambda: None), (lambda: 0), (lambda: "lines")
        self.headers = lambda: None
        self.timestamp = lambda: (0, 0)


def test_spout(measure: Measure) -> None:
    """KafkaSpout: a message read, emitted in a batch, its tree completed, its offset moved on."""
    outbox = Outbox(TOPOLOGY)
    spout: Any = PIPE.spouts[0].spout
    task = SpoutTask(
        TOPOLOGY, "spout", 0, spout, outbox, random_ids(), _raise, 0.0, random_columns()
    )
    config = SpoutConfig(
        KafkaHosts(), "lines", "", "id", scheme=SchemeAsMultiScheme(StringScheme())
    )
    manager = PartitionManager(Partition("lines", 0), config, task.collector, offset=0)
    spout.ack = manager.ack
    offsets = count()

    def act() -> None:
        manager.waiting = deque(Message(next(offsets)) for _ in range(N))
        rows: list[Any] = []
        tree_ids: list[Any] = []
        manager.take(0.0, N, N, rows, tree_ids)
        task.collector.emit_batch([list(column) for column in zip(*rows, strict=True)], tree_ids)
        outbox.drain_tuples()
        roots = [
            root
            for send in outbox.drain_acks()
            for root in unpack_ids(decode(AckFrame, send.value).init_roots)
        ]
        for _ in task.completed(CompletionFrame(VERSION, 0, acked=pack_ids(roots)), 0.0):
            pass
        task.latencies.clear()
        assert manager.commit() is not None

    measure(N, act)


class Writer:
    """A writer that confirms everything immediately."""

    def write_batch(
        self, topic: str, keys: Any, values: Any, on_done: Any, headers: Any = None
    ) -> None:
        on_done(())


def test_kafka_bolt(measure: Measure) -> None:
    """KafkaBolt: a tuple executed and acked, without librdkafka's part."""
    mapper = FieldNameBasedTupleToKafkaMapper("word", "number")
    bolt = KafkaBolt().with_topic_selector("counts").with_tuple_to_kafka_mapper(mapper)
    builder = TopologyBuilder("t")
    builder.set_spout("in", PIPE.spouts[0].spout)
    builder.set_bolt("count", Words()).shuffle_grouping("in")
    builder.set_bolt("sink", bolt).fields_grouping("count", Fields("word"))
    topology, outbox = builder.build(), Outbox(TOPOLOGY)
    task = BoltTask(topology, "sink", 0, bolt, outbox, random_ids(), _raise, random_columns())
    lent: Any = Writer()
    ports = KafkaPorts(lent, lent, lambda: lent, lent)
    bolt.prepare(task.config, TopologyContext(topology, "sink", 0, {KAFKA: ports}), task.collector)
    found = frame("count", [WORDS, WORDS])
    found.component, found.task = "count", topology.task_ids("count")[0]

    def act() -> None:
        for _ in task.receive(found):
            pass
        outbox.drain_acks()

    measure(N, act)


@pytest.mark.parametrize("batches", [True, False], ids=["in batches", "tuple by tuple"])
def test_all(measure: Measure, batches: bool) -> None:
    """All of the core: a sentence of ten words."""
    pipe = InProcess(batches=batches)
    measure(len(SENTENCES), lambda: pipe.run(SENTENCES))


def _raise(error: BaseException, doing: str) -> None:
    raise error
