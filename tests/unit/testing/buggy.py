"""Typical user bugs: small topologies with one bug each, and the same topologies without it.

All process about twenty orders.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstorm.testing import FeederSpout, LocalCluster, TupleCaptureBolt
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    StatefulBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)

AMOUNTS = {f"o-{number}": number + 1 for number in range(20)}
ORDERS = [[order, amount] for order, amount in AMOUNTS.items()]


class _Order:
    """Emits orders."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("order", "amount")


class Branch(_Order, BasicBolt):
    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(list(tuple))


class Batch(_Order, Bolt):
    """Emits all tuples since the last tick at once."""

    def __init__(self) -> None:
        self.waiting: list[Tuple] = []

    def execute(self, tuple: Tuple) -> None:
        if not tuple.is_tick:
            self.waiting.append(tuple)
            return
        for held in self.waiting:
            self.collector.emit(list(held), anchors=[held])
            self.collector.ack(held)
        self.waiting.clear()


class BatchAckedBeforeItIsEmitted(Batch):
    def execute(self, tuple: Tuple) -> None:
        if not tuple.is_tick:
            self.waiting.append(tuple)
            self.collector.ack(tuple)
            return
        for held in self.waiting:
            self.collector.emit(list(held))
        self.waiting.clear()


class Unanchored(_Order, Bolt):
    def execute(self, tuple: Tuple) -> None:
        self.collector.emit(list(tuple))
        self.collector.ack(tuple)


class Join(_Order, Bolt):
    """Emits an order when it has the two halves of one attempt."""

    def __init__(self) -> None:
        self.waiting: dict[int, Tuple] = {}

    def execute(self, tuple: Tuple) -> None:
        other = self.waiting.pop(tuple.root, None)
        if other is None or other.source_component == tuple.source_component:
            self.waiting[tuple.root] = tuple
            return
        self.collector.emit(list(tuple), anchors=[other, tuple])
        self.collector.ack(other)
        self.collector.ack(tuple)


class JoinThatAcksTheFirstHalf(Join):
    def execute(self, tuple: Tuple) -> None:
        other = self.waiting.pop(tuple.root, None)
        if other is None or other.source_component == tuple.source_component:
            self.waiting[tuple.root] = tuple
        else:
            self.collector.emit(list(tuple), anchors=[tuple])
        self.collector.ack(tuple)


class StoringJoin(_Order, StatefulBolt):
    """Acks the first half at once, because its state has it."""

    def execute(self, tuple: Tuple) -> Any:
        order, other = tuple["order"], self.state.get(tuple["order"])
        if other in (None, tuple.source_component):
            self.state.put(order, tuple.source_component)
        else:
            self.state.delete(order)
            self.collector.emit(list(tuple), anchors=[tuple])
        self.collector.ack(tuple)


class JoinThatTidiesUp(StoringJoin):
    """Deletes shared data at the end of its process."""

    def cleanup(self) -> None:
        for order, _ in list(self.state.items()):
            self.state.delete(order)


class Book(StatefulBasicBolt):
    """Stores the amount of each order."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> Any:
        self.state.put(tuple["order"], tuple["amount"])

    def amounts(self) -> dict[str, int]:
        return dict(self.state.items())


class BookInAnAttribute(BasicBolt):
    def __init__(self) -> None:
        self.book: dict[str, int] = {}

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        self.book[tuple["order"]] = tuple["amount"]

    def amounts(self) -> dict[str, int]:
        return self.book


class BookThatAdds(Book):
    """Counts a replay again."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> Any:
        self.state.put(tuple["order"], self.state.get(tuple["order"], 0) + tuple["amount"])


class Known(_Order, StatefulBolt):
    """Stores the known orders, and emits each replay."""

    def execute(self, tuple: Tuple) -> Any:
        self.state.put(tuple["order"], True)
        self.collector.emit(list(tuple), anchors=[tuple])
        self.collector.ack(tuple)


class KnownNotAcked(Known):
    """Lacks the ack in one branch."""

    def execute(self, tuple: Tuple) -> Any:
        if not self.state.get(tuple["order"]):
            super().execute(tuple)


class KnownNotHandedOn(Known):
    """Drops a replay as a duplicate, although its first emit may have been lost."""

    def execute(self, tuple: Tuple) -> Any:
        if self.state.get(tuple["order"]):
            self.collector.ack(tuple)
        else:
            super().execute(tuple)


def in_a_row(*bolts: Bolt | BasicBolt) -> Topology:
    """Builds a chain from the spout `orders` through named bolts of two tasks each to `sink`."""
    builder = TopologyBuilder("orders")
    builder.set_spout("orders", FeederSpout("order", "amount"))
    before = "orders"
    for number, bolt in enumerate(bolts):
        declarer = builder.set_bolt(f"bolt-{number}", bolt, 2).fields_grouping(before, "order")
        if isinstance(bolt, Batch):
            declarer.add_configurations(topology_tick_tuple_freq_secs=1)
        before = f"bolt-{number}"
    if isinstance(bolts[-1], _Order):
        builder.set_bolt("sink", TupleCaptureBolt()).shuffle_grouping(before)
    return builder.build()


def joined_by(join: Bolt) -> Topology:
    """Builds a topology with two branches, which `join` combines."""
    builder = TopologyBuilder("orders")
    builder.set_spout("orders", FeederSpout("order", "amount"))
    builder.set_bolt("price", Branch(), 2).shuffle_grouping("orders")
    builder.set_bolt("check", Branch(), 2).shuffle_grouping("orders")
    builder.set_bolt("join", join, 2).fields_grouping("price", "order").fields_grouping(
        "check", "order"
    )
    builder.set_bolt("sink", TupleCaptureBolt()).shuffle_grouping("join")
    return builder.build()


def all_are_in_the_sink(cluster: LocalCluster) -> None:
    sink: Any = cluster.instance("sink")
    lost = AMOUNTS.keys() - {order for order, _ in sink.values()}
    assert not lost, f"acked, and not in the sink: {sorted(lost)}"


def all_are_in_the_books(cluster: LocalCluster) -> None:
    books: list[Any] = [cluster.instance("bolt-0", task) for task in range(2)]
    found = {order: amount for book in books for order, amount in book.amounts().items()}
    wrong = {
        order: (found.get(order), amount)
        for order, amount in AMOUNTS.items()
        if found.get(order) != amount
    }
    assert not wrong, f"booked, and what it should be: {wrong}"


@dataclass(frozen=True)
class Bug:
    """A topology with a bug, the same topology without it, and the judge of each."""

    name: str
    wrong: Callable[[], Topology]
    right: Callable[[], Topology]
    judge: Callable[[LocalCluster], None]
    least: float = 1 / 3
    """The share of the seeds that must find the bug."""


BUGS = [
    Bug(
        "a join acks the first half when it comes",
        lambda: joined_by(JoinThatAcksTheFirstHalf()),
        lambda: joined_by(Join()),
        all_are_in_the_sink,
    ),
    Bug(
        "a join deletes in `cleanup` the halves that wait in its state",
        lambda: joined_by(JoinThatTidiesUp()),
        lambda: joined_by(StoringJoin()),
        all_are_in_the_sink,
        least=0.1,
    ),
    Bug(
        "a batch is acked before it is emitted",
        lambda: in_a_row(BatchAckedBeforeItIsEmitted()),
        lambda: in_a_row(Batch()),
        all_are_in_the_sink,
    ),
    Bug(
        "a tuple is emitted unanchored, to a bolt that holds it",
        lambda: in_a_row(Unanchored(), Batch()),
        lambda: in_a_row(Branch(), Batch()),
        all_are_in_the_sink,
    ),
    Bug(
        "what has to stay is in an attribute, not in the state",
        lambda: in_a_row(BookInAnAttribute()),
        lambda: in_a_row(Book()),
        all_are_in_the_books,
    ),
    Bug(
        "a replay is added up again",
        lambda: in_a_row(BookThatAdds()),
        lambda: in_a_row(Book()),
        all_are_in_the_books,
    ),
    Bug(
        "a known order is not acked",
        lambda: in_a_row(KnownNotAcked()),
        lambda: in_a_row(Known()),
        all_are_in_the_sink,
    ),
    Bug(
        "a known order is acked, and not handed on",
        lambda: in_a_row(KnownNotHandedOn(), Batch()),
        lambda: in_a_row(Known(), Batch()),
        all_are_in_the_sink,
    ),
]
