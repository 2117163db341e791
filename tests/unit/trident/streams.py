"""Streams for the tests, and what comes of them."""

from collections.abc import Callable, Sequence
from typing import Any

from kstorm.testing import FeederSpout, complete_topology
from kstorm.topology import Fields, Topology
from kstorm.trident import Function, Stream, TridentCollector, TridentTopology, TridentTuple

Rows = Sequence[Sequence[Any]]


class Split(Function):
    """Adds the words of a sentence."""

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        """One tuple a word."""
        for word in tuple[0].split():
            collector.emit([word])


def wired(*fields: str, do: Callable[[Stream], Any], name: str = "t") -> Topology:
    """A topology of one stream `in` with these fields."""
    topology = TridentTopology(name)
    do(topology.new_stream("in", FeederSpout(Fields(*fields))))
    return topology.build()


def came_out(do: Callable[[Stream], Stream], fields: Sequence[str], rows: Rows) -> list[list[Any]]:
    """What the last operation gives of these tuples, which come in one frame or in several."""
    topology = wired(*fields, do=lambda stream: do(stream).name("out"))
    result = complete_topology(topology, {"in": rows})
    assert result.errors == []
    return result.emitted("out")
