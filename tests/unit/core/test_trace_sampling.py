"""Each tuple of a traced tree records the tuples that it is anchored to."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.lanes import Lane
from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.trace_sampling import TraceSampler, trace_sampler
from kstorm.core.wire import TupleFrame, decode, unpack_ids
from kstorm.errors import ConfigError
from kstorm.topology import Bolt, Config, TopologyBuilder, Tuple, TupleBatch
from tests.unit.core.bolt_harness import Basic, Harness, Plain
from tests.unit.core.test_outbox import topology

LOW, HIGH = 1, (1 << 56) - 1
"""The root of a tree that only a share of 1 traces, and one that every share traces."""


def parents(sends: list[OutgoingRecord]) -> Iterator[tuple[int, int, list[int]]]:
    """Yields the root, edge and parents of each sent tuple."""
    for send in sends:
        frame = decode(TupleFrame, send.value)
        for at, (root, edge) in enumerate(
            zip(unpack_ids(frame.roots), unpack_ids(frame.edges), strict=True)
        ):
            yield root, edge, frame.parents.get(at, [])


@given(st.floats(0.001, 1), st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=50))
def test_one_and_many_agree(share: float, roots: list[int]) -> None:
    """The sampler gives the same answer for a column of roots and for each single root."""
    trace, column = TraceSampler(share), np.array(roots, np.uint64)
    assert trace.parents(column, column) == {
        at: [root] for at, root in enumerate(roots) if trace.picks(root)
    }


def test_traced_share_matches_the_setting() -> None:
    """A larger share includes every tree of a smaller one. Root 0 is not a tree."""
    roots = np.random.default_rng(1).integers(1, 2**64 - 1, 100_000, np.uint64)
    picked = {share: set(TraceSampler(share).parents(roots, roots)) for share in (0.01, 0.1, 1.0)}
    assert 900 < len(picked[0.01]) < 1100
    assert picked[0.01] < picked[0.1] < picked[1.0]
    assert len(picked[1.0]) > 99_990
    assert not TraceSampler(1).picks(0)
    assert trace_sampler(0) is None


def test_a_share_is_at_most_1() -> None:
    """An operator may have meant per cent."""
    with pytest.raises(
        ConfigError, match="topology_trace is 5: it must be a share of the trees, from 0 to 1"
    ):
        Config(topology_trace=5)


class Anchoring(Plain):
    """Emits one tuple per input."""

    def __init__(self) -> None:
        super().__init__()
        self.do = lambda tuple: self.collector.emit(["x"], tuple) and None


class AnchoringBatches(Plain):
    """Emits a batch per input batch. The last two tuples are anchored to the first."""

    def execute_batch(self, batch: TupleBatch) -> Any:
        last = len(batch) - 1
        self.collector.emit_batch([["x"] * (last + 2)], batch, [*range(last + 1), 0])
        self.collector.emit_batch([["y"] * (last + 1)], batch)


class Basically(Basic):
    """Emits two tuples per input."""

    def __init__(self) -> None:
        super().__init__()
        self.do = lambda tuple, collector: [collector.emit([word]) for word in "xy"] and None


@pytest.mark.parametrize("bolt", [Anchoring, AnchoringBatches, Basically])
def test_parents_are_recorded_for_every_way_to_emit(
    bolt: type[Plain | Basic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It covers single emits, batches and basic bolts. Untraced trees record no parents."""
    monkeypatch.setattr("tests.unit.core.bolt_harness.TopologyBuilder", _tracing_builder)
    harness = Harness(bolt())
    harness.give(("a", HIGH, 20), ("b", LOW, 30), ("c", HIGH - 1, 40), ("d", 0, 0))
    found = list(parents(harness.outbox.drain_tuples()))
    assert {(root, tuple(edges)) for root, _, edges in found} == {
        (HIGH, (20,)),
        (LOW, ()),
        (HIGH - 1, (40,)),
        (0, ()),
    }
    assert len(found) >= 8


def _tracing_builder(name: str) -> Any:
    return TopologyBuilder(name, Config(topology_trace=0.5))


def test_all_anchors_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parent has the edge of its tree, because it may be in several trees."""
    monkeypatch.setattr("tests.unit.core.bolt_harness.TopologyBuilder", _tracing_builder)
    bolt = Plain()
    harness = Harness(bolt)
    harness.give(("a", LOW, 20), ("b", LOW + 1, 30), more={1: {HIGH: 31}})
    held: list[Tuple] = bolt.got
    harness.collector.emit(["both"], held)
    harness.collector.emit(["one"], [held[0]])
    found = list(parents(harness.outbox.drain_tuples()))
    assert {tuple(edges) for _, _, edges in found} == {(20, 30, 31), ()}


def test_parents_stay_with_their_tuples_when_frames_are_cut() -> None:
    """The tuples of a lane, single or in batches, may be split into several frames."""
    outbox = Outbox(topology(topology_frame_max_tuples=2))
    lane: Lane = outbox.lane("a", 1, "default", "t.bolt", 0, 4)
    ids = np.arange(1, 4, dtype=np.uint64)
    lane.put([["x"] * 3], 3, ids, ids, {0: [101], 2: [103]})
    for edge in (4, 5):
        lane.parents[len(lane.rows)] = [100 + edge]
        lane.rows.append(["y"])
        lane.roots.append(edge)
        lane.edges.append(edge)
    found = [(edge, edges) for _, edge, edges in parents(outbox.drain_tuples())]
    assert found == [(1, [101]), (2, []), (3, [103]), (4, [104]), (5, [105])]


def test_untraced_frames_have_no_parents() -> None:
    harness = Harness(Anchoring())
    harness.give(("a", HIGH, 20))
    assert {tuple(edges) for _, _, edges in parents(harness.outbox.drain_tuples())} == {()}
    assert issubclass(Anchoring, Bolt)
