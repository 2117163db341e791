"""A value that no record can hold makes one dead letter with its place and the reason.

Its neighbours are processed.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kstorm.core.dead_letters import DeadLetter
from kstorm.core.wire import TupleFrame, decode
from kstorm.kafka import KafkaHosts, KafkaSpout, SchemeAsMultiScheme, SpoutConfig
from kstorm.kafka.finished_ranges import decode_range
from kstorm.testing import BoltTester, FeederSpout, LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    Fields,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
    TupleBatch,
)
from kstorm.topology.config import EXACTLY_ONCE
from tests.sim.exactly_once.components import Messages


def cyclic() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "2**64": (lambda: 2**64, "MessagePack holds integers from"),
    "-2**63 - 1": (lambda: -(2**63) - 1, "MessagePack holds integers from"),
    "10**5000": (lambda: 10**5000, "MessagePack holds integers from"),
    "object": (object, "cannot be encoded as MessagePack"),
    "object in a list": (lambda: [1, {"a": object()}], "cannot be encoded as MessagePack"),
    "object as a key": (lambda: {object(): 1}, "cannot be encoded as MessagePack"),
    "cyclic": (cyclic, "nested too deeply, or contains itself"),
    "deep": (deep, "nested too deeply, or contains itself"),
    "surrogate": (lambda: "a\ud800", "surrogates not allowed"),
    "800,000 bytes": (lambda: "x" * 800_000, "800,0"),
}
KINDS = pytest.mark.parametrize("what", BAD)
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", EXACTLY_ONCE])


class Made:
    """A scheme whose value is a bad one if the message has its name."""

    output_fields = Fields("id", "value")

    def deserialize(self, message: bytes) -> Any:
        name = message.decode()
        return name, BAD[name][0]() if name in BAD else name


class Passes(BasicBolt):
    """Emits its input, and the bad value in place of its name."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "value")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([tuple[0], "first"])
        collector.emit([tuple[0], made(tuple)])


class PassesItself(Bolt):
    """The same bolt with its own collector."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "value")

    def execute(self, tuple: Tuple) -> None:
        self.collector.emit([tuple[0], made(tuple)], tuple)
        self.collector.ack(tuple)


class PassesDirectly(Bolt):
    """The same bolt with direct emits."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "value", direct=True)

    def execute(self, tuple: Tuple) -> None:
        (task,) = self.context.topology.task_ids("end")
        self.collector.emit([tuple[0], made(tuple)], tuple, task=task)
        self.collector.ack(tuple)


class PassesBatches(Passes):
    """The same bolt with batches."""

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> Any:
        values = [list(batch.columns[0]), [made(tuple) for tuple in batch.tuples()]]
        collector.emit_batch(values)


class Keeps(StatefulBasicBolt):
    """Puts the value into its state."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "value")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        value = made(tuple)
        self.state.put("value", bytes(17 << 20) if tuple[0] == "800,000 bytes" else value)
        collector.emit([tuple[0], "kept"])


class End(BasicBolt):
    """Accepts every tuple."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None: ...


def made(tuple: Tuple) -> Any:
    return BAD[tuple[0]][0]() if tuple[0] in BAD else tuple[0]


def source(scheme: Any = None) -> SpoutConfig:
    scheme = scheme or SchemeAsMultiScheme(Named())
    return SpoutConfig(KafkaHosts(), "lines", "/spouts", "t", scheme=scheme)


class Named(Made):
    """Declares the message in two fields."""

    def deserialize(self, message: bytes) -> Any:
        return message.decode(), message.decode()


def wired(bolt: Bolt | BasicBolt, guarantee: str, scheme: Any = None) -> Topology:
    config = Config(topology_processing_guarantee=guarantee)
    builder = TopologyBuilder("t", config)
    builder.set_spout("lines", KafkaSpout(source(scheme)))
    builder.set_bolt("bolt", bolt).shuffle_grouping("lines")
    end = builder.set_bolt("end", End())
    if isinstance(bolt, PassesDirectly):
        end.direct_grouping("bolt")
    else:
        end.shuffle_grouping("bolt")
    return builder.build()


def only_letter(topology: Topology, what: str) -> tuple[FakeKafka, DeadLetter, LocalCluster]:
    """Returns the only dead letter after a bad message between two good ones."""
    kafka = FakeKafka({"lines": 1})
    for line in ("before", what, "after"):
        kafka.produce("lines", line)
    with kafka.cluster(topology) as cluster:
        cluster.advance_time(10)
        (letter,) = cluster.dead_letters
        assert (cluster.pending, cluster.unsettled) == (0, 0)
        assert kafka.stored_offset(source()) == 3
    return kafka, letter, cluster


@KINDS
@GUARANTEES
def test_a_spout_gives_up_the_message(what: str, guarantee: str) -> None:
    """The letter has the message's coordinates, content and field.

    Its offset is in the finished ranges.
    """
    topology = wired(Passes(), guarantee, SchemeAsMultiScheme(Made()))
    kafka, letter, _ = only_letter(topology, what)
    assert (letter.component, letter.topic, letter.partition, letter.offset) == (
        "lines",
        "lines",
        0,
        1,
    )
    assert (letter.value, letter.attempts) == (what.encode(), 1)
    assert letter.kind == ("too_large" if what == "800,000 bytes" else "refused")
    assert "its field 'value'" in letter.reason
    assert BAD[what][1] in letter.reason
    ranges = [decode_range(record.value() or b"") for record in kafka.records("t.__finished")]
    assert [run for own in ranges for run in own.dead] == [(1, 2)]


BOLTS: list[type[Bolt] | type[BasicBolt]] = [
    Passes,
    PassesItself,
    PassesDirectly,
    PassesBatches,
    Keeps,
]


@KINDS
@pytest.mark.parametrize("bolt", BOLTS)
def test_at_least_once_the_message_of_a_bolts_tuple_is_given_up(
    what: str, bolt: type[Bolt] | type[BasicBolt]
) -> None:
    """The message is given up after one attempt. The letter names the bolt and its line."""
    _, letter, _ = only_letter(wired(bolt(), "at_least_once"), what)
    assert (letter.topic, letter.partition, letter.offset, letter.attempts) == ("lines", 0, 1, 1)
    assert letter.value == what.encode()
    expect_cause(letter, what, bolt)


@KINDS
@pytest.mark.parametrize("bolt", BOLTS)
def test_exactly_once_the_bolts_tuple_is_given_up(
    what: str, bolt: type[Bolt] | type[BasicBolt]
) -> None:
    """The letter has the tuple's place in the bolt's topic. Its execution has no effect."""
    _, letter, cluster = only_letter(wired(bolt(), EXACTLY_ONCE), what)
    assert (letter.topic, letter.partition, letter.attempts) == ("t.bolt", 0, 1)
    assert letter.offset >= 0
    assert json.loads(letter.value or b"")["values"] == {"id": what, "value": what}
    assert len(letter.roots) == 1
    frames = [decode(TupleFrame, value) for value in cluster.sent("t.end")]
    assert what not in [value for frame in frames for value in frame.columns[0]]
    assert cluster.open_trees == 0
    expect_cause(letter, what, bolt)


def expect_cause(letter: DeadLetter, what: str, bolt: type[Any]) -> None:
    assert letter.error is not None
    assert letter.error.component == "bolt"
    assert letter.error.where.startswith("test_unsendable.py:")
    if bolt is not Keeps:
        assert "its field 'value'" in letter.error.message
        assert letter.kind == ("too_large" if what == "800,000 bytes" else "refused")
        assert letter.error.type == (
            "TupleTooLargeError" if what == "800,000 bytes" else "UnsendableError"
        )


@KINDS
def test_emit_raises_in_a_bolt(what: str) -> None:
    """The bolt may catch the error. Otherwise the tester reports it."""
    bolt = BoltTester(Passes(), "id")
    bolt.give([what])
    (error,) = bolt.errors
    assert (bolt.failed, bolt.acked) == ([0], [])
    assert "a tuple of 'bolt' on the stream 'default'" in str(error.error)


@KINDS
@pytest.mark.parametrize("batch", [False, True])
def test_any_other_spout_gets_a_fail(what: str, batch: bool) -> None:
    """The failure is immediate, and the error names the line of the emit."""

    class Feeds(FeederSpout):
        given: list[str]

        def next_tuple(self) -> None:
            if not batch:
                super().next_tuple()
            elif self.given:
                columns, self.given = [list(self.given), [made_of(x) for x in self.given]], []
                self.collector.emit_batch(columns, columns[0])

    feeder = Feeds("id", "value")
    feeder.given = ["before", what, "after"] if batch else []
    builder = TopologyBuilder("t")
    builder.set_spout("feeder", feeder)
    builder.set_bolt("end", End()).shuffle_grouping("feeder")
    with LocalCluster(builder.build()) as cluster:
        for name in () if batch else ("before", what, "after"):
            feeder.feed([name, made_of(name)], name)
        cluster.run_until_idle()
        assert sorted(cluster.acked("feeder")) == ["after", "before"]
        assert cluster.failed("feeder") == [what]
        (error,) = cluster.errors
        assert BAD[what][1] in str(error.error)


def made_of(name: str) -> Any:
    return BAD[name][0]() if name in BAD else name


class Sends(Messages):
    """Emits a bad value for message 2."""

    def next_tuple(self) -> None:
        position = self.positions()
        super().next_tuple()
        if self.positions() != position and self.bad:
            self.bad = False
            self.collector.emit([9, 2**64], "id 9")

    bad = True


def test_exactly_once_any_other_spout_leaves_a_letter() -> None:
    """Its message is acked when the letter is stored, because the spout never replays it."""
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=EXACTLY_ONCE))
    builder.set_spout("messages", Sends([[1, 2]]))
    builder.set_bolt("end", End()).shuffle_grouping("messages")
    with LocalCluster(builder.build()) as cluster:
        cluster.run_for(10)
        (letter,) = cluster.dead_letters
        assert (letter.component, letter.kind) == ("messages", "refused")
        assert "MessagePack holds integers from" in letter.reason
        assert (cluster.pending, cluster.failed("messages")) == (0, [])
