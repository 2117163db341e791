"""Streams for the tests, and the results of their operations."""

from collections.abc import Callable, Sequence
from typing import Any

from kstorm.testing import FeederSpout, LocalCluster, complete_topology
from kstorm.topology import Fields, Topology
from kstorm.trident import Function, Stream, TridentCollector, TridentTopology, TridentTuple
from kstorm.trident.batches import Batch
from kstorm.trident.bolts import StepsBolt
from kstorm.trident.steps import run_all

Rows = Sequence[Sequence[Any]]


class Split(Function):
    """Adds the words of a sentence."""

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        for word in tuple[0].split():
            collector.emit([word])


def wired(*fields: str, do: Callable[[Stream], Any], name: str = "t") -> Topology:
    """Builds a topology of one stream `in` with these fields."""
    topology = TridentTopology(name)
    do(topology.new_stream("in", FeederSpout(Fields(*fields))))
    return topology.build()


def came_out(do: Callable[[Stream], Stream], fields: Sequence[str], rows: Rows) -> list[list[Any]]:
    """Returns the output of the last operation for these rows, which arrive in one or more frames."""
    topology = wired(*fields, do=lambda stream: do(stream).name("out"))
    result = complete_topology(topology, {"in": rows})
    assert result.errors == []
    return result.emitted("out")


def of_partition(
    do: Callable[[Stream], Stream], fields: Sequence[str], rows: Rows
) -> list[list[Any]]:
    """Returns the output of the operations, all in one bolt, for these rows as one batch of a task."""
    topology = wired(*fields, do=lambda stream: do(stream).name("out"))
    bolt = topology.component("out").component
    assert isinstance(bolt, StepsBolt)
    found = run_all(bolt._steps, Batch.of_rows([tuple(row) for row in rows]))
    return [list(row) for row in zip(*found.columns(), strict=True)]


def last_by_key(rows: Rows) -> dict[Any, Any]:
    """Returns the last value of each key."""
    return {key: value for key, value in rows}  # noqa: C416 - there have to be two


def feed(cluster: LocalCluster, spout: str, *rows: Sequence[Any]) -> None:
    """Feeds a stream these tuples, and runs until all are done."""
    component: Any = cluster.topology.component(spout).component
    for row in rows:
        component.feed(row)
    cluster.run_until_idle()
    cluster.advance_time(5)
    cluster.run_until_idle()
