"""A value that MessagePack encodes but cannot decode fails only its own tuple in the frame."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.wire import (
    VERSION,
    SalvagedFrame,
    TupleFrame,
    decode,
    encode,
    pack_ids,
    unpack_ids,
)
from kstorm.errors import FrameError
from kstorm.testing import LocalCluster
from kstorm.testing.spouts import FeederSpout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    OutputFieldsDeclarer,
    TopologyBuilder,
    Tuple,
)
from tests.unit.core.bolt_harness import Basic, Harness, Plain


@dataclass(frozen=True)
class Key:
    """A value that is a valid key here, but a map after decoding."""

    name: str = "a"


class Struct(msgspec.Struct, frozen=True):
    """Another such value."""

    name: str = "a"


BAD = [
    {Key(): 1},
    {Struct(): 1},
    {(Key(),): 1},
    [{"deep": {Key(): 1}}],
    msgspec.msgpack.Ext(-1, b"odd"),
    msgspec.msgpack.Ext(-1, b"\xff" * 12),
]


def frame_of(
    *values: Any, more: dict[int, dict[int, int]] | None = None, tracked: bool = True
) -> TupleFrame:
    """Builds a frame of words. The n-th word has the root n + 1 and the edge 100 + n."""
    count = len(values)
    roots, edges = pack_ids(range(1, count + 1)), pack_ids(range(100, 100 + count))
    ids = (roots, edges) if tracked else (b"", b"")
    return TupleFrame(VERSION, "words", 1, "default", count, *ids, more or {}, [list(values)])


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def deep_in_the_stack(calls: int, call: Callable[[], Any]) -> Any:
    return call() if not calls else deep_in_the_stack(calls - 1, call)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_other_tuples_of_the_frame_are_decoded(bad: Any, at: int) -> None:
    """They keep their ids and anchors. The error names all trees of the lost tuple."""
    values = ["a", "b"]
    values.insert(at, bad)
    more = {at: {77: 1, 78: 2}, 2 if at != 2 else 0: {79: 3}}
    frame = decode(TupleFrame, encode(frame_of(*values, more=more)))
    assert isinstance(frame, SalvagedFrame)
    assert (frame.columns, frame.count) == ([["a", "b"]], 2)
    kept = [position for position in range(3) if position != at]
    assert unpack_ids(frame.roots) == tuple(position + 1 for position in kept)
    assert unpack_ids(frame.edges) == tuple(position + 100 for position in kept)
    assert frame.more == {kept.index(2 if at != 2 else 0): {79: 3}}
    assert (frame.lost, set(frame.lost_pairs)) == (1, {at + 1, 77, 78})
    assert frame.reason


def test_other_tuples_keep_their_tasks() -> None:
    """This covers a frame with tuples of several tasks. A task without readable tuples has no run."""
    frame = frame_of("a", BAD[0], "b", BAD[0], "c", "d")
    frame.runs = [(3, 3), (5, 1), (4, 2)]
    found = decode(TupleFrame, encode(frame))
    assert found.columns == [["a", "b", "c", "d"]]
    assert found.runs == [(3, 2), (4, 2)]


@pytest.mark.parametrize("kind", [Plain, Basic])
@pytest.mark.parametrize("bad", BAD)
def test_a_bolt_executes_the_others_and_fails_it(kind: Any, bad: Any) -> None:
    """The error names the component that emitted the value, and the reason."""
    bolt = kind()
    harness = Harness(bolt)
    if kind is Plain:
        bolt.do = harness.collector.ack
    harness.run(harness.task.receive(decode(TupleFrame, encode(frame_of("a", bad, "b")))))
    assert [tuple[0] for tuple in bolt.got] == ["a", "b"]
    assert harness.outbox.fails == {2}
    assert harness.acks() == {1: 100, 3: 102}
    ((said, doing),) = harness.errors
    assert (
        "1 of 3 tuples of 'words' on the stream 'default' hold a value that MessagePack can "
        "encode but not decode" in said
    )
    assert doing == "receiving"
    assert (harness.task.executed, harness.task.collector.failed, harness.task.unfinished) == (
        3,
        1,
        0,
    )


class Batches(Basic):
    """Takes whole frames, and rejects empty ones."""

    def execute_batch(self, batch: Any, collector: Any) -> None:
        assert len(batch)


@pytest.mark.parametrize("bolt", [Basic(), Batches()], ids=["one by one", "batches"])
@pytest.mark.parametrize("tracked", [True, False])
def test_a_frame_of_nothing_else(tracked: bool, bolt: Basic) -> None:
    """Nothing is executed, and the tracked tuples fail."""
    harness = Harness(bolt)
    harness.run(
        harness.task.receive(decode(TupleFrame, encode(frame_of(BAD[0], BAD[4], tracked=tracked))))
    )
    assert bolt.got == []
    assert harness.outbox.fails == ({1, 2} if tracked else set())
    assert len(harness.errors) == 1


def test_nesting_limit_counts_from_the_value() -> None:
    """The allowed depth counts from the value, so the reader's own call depth does not matter."""
    depth = next(
        depth
        for depth in range(1000, 0, -1)
        if isinstance(_encoded(frame_of("a", nested(depth), "b")), bytes)
    )
    data = encode(frame_of("a", nested(depth), "b"))
    frame = deep_in_the_stack(100, lambda: decode(TupleFrame, data))
    assert (frame.count, getattr(frame, "lost", 0)) == (3, 0)
    assert [frame.columns[0][0], frame.columns[0][2]] == ["a", "b"]
    assert sys.getrecursionlimit() < 2000


def _encoded(frame: TupleFrame) -> bytes | None:
    try:
        return encode(frame)
    except RecursionError:
        return None


def test_invalid_frame_is_refused() -> None:
    """The frame is truncated, has a short column, another version, or ids of a wrong width."""
    good = frame_of("a", BAD[0])
    for data in (
        encode(good)[:-1],
        encode(good) + b"\x01",
        encode(msgspec.structs.replace(good, count=3)),
        encode(msgspec.structs.replace(good, count=2**40)),
        encode(msgspec.structs.replace(good, roots=b"12345678")),
        encode(msgspec.structs.replace(good, version=9)),
    ):
        with pytest.raises(FrameError):
            decode(TupleFrame, data)


scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.datetimes(timezones=st.just(UTC))
    | st.decimals()
    | st.uuids()
    | st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary(max_size=13))
)
keys: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=2)
    | st.builds(Key)
    | st.builds(Struct)
)
keys |= st.tuples(st.text(max_size=2), st.builds(Key)) | st.frozensets(
    st.text(max_size=2), max_size=2
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.just("good") | anything, max_size=6))
def test_every_emitted_tuple_is_read_or_lost(values: list[Any]) -> None:
    """The values are all that MessagePack accepts, alone and in a frame. Both ways agree."""
    taken = []
    for value in values:
        try:
            encode(frame_of(value))
        except (TypeError, ValueError, OverflowError):
            continue
        taken.append(value)
    frame = decode(TupleFrame, encode(frame_of(*taken)))
    alone = [decode(TupleFrame, encode(frame_of(value))) for value in taken]
    read_alone = [value for one in alone for value in one.columns[0]]
    assert msgspec.msgpack.encode(frame.columns[0]) == msgspec.msgpack.encode(read_alone)
    assert getattr(frame, "lost", 0) == sum(getattr(one, "lost", 0) for one in alone)
    assert frame.columns[0].count("good") >= values.count("good")


def test_in_a_topology_the_neighbours_are_acked() -> None:
    """The spout receives the failure of the other message."""

    class Sink(BasicBolt):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            """Declares no fields."""

        def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
            """Does nothing."""

    spout, builder = FeederSpout("word"), TopologyBuilder("t")
    builder.set_spout("words", spout)
    builder.set_bolt("sink", Sink()).shuffle_grouping("words")
    with LocalCluster(builder.build()) as cluster:
        for number in range(20):
            spout.feed([BAD[number % 6] if number % 7 == 3 else "word"], number)
        cluster.run_until_idle()
        assert sorted(cluster.failed("words")) == [3, 10, 17]
        assert len(cluster.acked("words")) == 17
        assert cluster.dead_letters == []
