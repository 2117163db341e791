"""A bolt task by itself: frames in, and what it sends."""

from collections.abc import Callable
from itertools import count
from typing import Any

from kstorm.core.bolt_task import BoltTask
from kstorm.core.outbox import Outbox
from kstorm.core.user_code import Steps
from kstorm.core.wire import VERSION, AckFrame, TupleFrame, decode, pack_ids, unpack_ids
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    OutputFieldsDeclarer,
    Spout,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)

Row = tuple[str, int, int]
"""A word, its root and its edge."""


class Words(Spout):
    """The spout upstream."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")
        declarer.declare_stream("pairs", "left", "right")


class Outputs:
    """The streams that both kinds of bolts declare."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")
        declarer.declare_stream("errors", "what")
        declarer.declare_stream("unheard", "what")
        declarer.declare_stream("to-one", "word", direct=True)


class Plain(Outputs, Bolt):
    """Keeps what it gets and does what the test says."""

    def __init__(self) -> None:
        self.do: Callable[[Tuple], Any] = lambda tuple: None
        self.got: list[Tuple] = []

    def execute(self, tuple: Tuple) -> Any:
        self.got.append(tuple)
        return self.do(tuple)


class Basic(Outputs, BasicBolt):
    """The same with a collector that anchors and acks."""

    def __init__(self) -> None:
        self.do: Callable[[Tuple, BasicOutputCollector], Any] = lambda tuple, collector: None
        self.got: list[Tuple] = []

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> Any:
        self.got.append(tuple)
        return self.do(tuple, collector)


class Harness:
    """Task 1 of bolt "bolt" (task ids: spout 1, bolt 2 and 3, next 4 and 5, sink 6). Edges are 2^20, 2^21, …"""

    def __init__(self, bolt: Plain | Basic, **settings: Any) -> None:
        builder = TopologyBuilder("t")
        builder.set_spout("words", Words())
        declarer = builder.set_bolt("bolt", bolt, 2).add_configurations(**settings)
        declarer.shuffle_grouping("words").shuffle_grouping("words", "pairs")
        builder.set_bolt("next", Bolt(), 2).shuffle_grouping("bolt").direct_grouping(
            "bolt", "to-one"
        )
        builder.set_bolt("sink", Bolt()).all_grouping("bolt").all_grouping("bolt", "errors")
        topology = builder.build()
        self.outbox = Outbox(topology)
        self.errors: list[tuple[str, str]] = []
        self.drawn: list[int] = []
        powers = count(20)

        def next_id() -> int:
            self.drawn.append(1 << next(powers))
            return self.drawn[-1]

        self.task = BoltTask(
            topology,
            "bolt",
            0,
            bolt,
            self.outbox,
            next_id,
            lambda error, doing: self.errors.append((str(error), doing)),
        )
        self.collector = self.task.collector
        if isinstance(bolt, Bolt):
            bolt.prepare(self.task.config, TopologyContext(topology, "bolt", 0), self.collector)

    def run(self, steps: Steps) -> None:
        """Plain methods: nothing to wait for."""
        assert all(step is None for step in steps)

    def give(self, *rows: Row, more: dict[int, dict[int, int]] | None = None) -> None:
        words, roots, edges = zip(*rows, strict=True)
        frame = TupleFrame(
            VERSION,
            "words",
            1,
            "default",
            len(rows),
            pack_ids(roots),
            pack_ids(edges),
            more or {},
            [list(words)],
        )
        self.run(self.task.receive(frame))

    def acks(self) -> dict[int, int]:
        """The XOR by root that left for the ackers."""
        frames = [decode(AckFrame, send.value) for send in self.outbox.drain_acks()]
        return {
            root: val
            for frame in frames
            for root, val in zip(unpack_ids(frame.roots), unpack_ids(frame.vals), strict=True)
        }

    def sent(self) -> list[tuple[str, int, str, Any, int, int, dict[int, int]]]:
        """Every tuple that left: topic, partition, stream, values, root, edge, other roots and edges."""
        tuples = []
        for send in self.outbox.drain_tuples():
            frame = decode(TupleFrame, send.value)
            roots = unpack_ids(frame.roots) or (0,) * frame.count
            edges = unpack_ids(frame.edges) or (0,) * frame.count
            for position, values in enumerate(zip(*frame.columns, strict=True)):
                other = frame.more.get(position, {})
                tuples.append(
                    (
                        send.topic,
                        send.partition,
                        frame.stream,
                        list(values),
                        roots[position],
                        edges[position],
                        other,
                    )
                )
        return tuples
