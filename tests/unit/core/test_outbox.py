"""The outbox folds, splits and packs tuples. A tuple that it cannot send fails its trees."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core import completion_box
from kstorm.core import outbox as module
from kstorm.core.completion_box import CompletionBox
from kstorm.core.lanes import Lane
from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.wire import (
    AckFrame,
    CompletionFrame,
    TupleFrame,
    decode,
    task_of,
    unpack_ids,
    unpack_pairs,
)
from kstorm.topology import Bolt, Config, OutputFieldsDeclarer, Spout, Topology, TopologyBuilder


class Source(Spout):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("x")


def topology(**settings: Any) -> Topology:
    """Builds spouts a (tasks 1, 2) and b (task 3), a bolt (tasks 4, 5), and four acker tasks."""
    builder = TopologyBuilder("t", Config(**settings))
    builder.set_spout("a", Source(), 2)
    builder.set_spout("b", Source())
    builder.set_bolt("bolt", Bolt(), 2).shuffle_grouping("a").shuffle_grouping("b")
    return builder.build()


def lane_of(outbox: Outbox, task: int = 1, partition: int = 0) -> Lane:
    return outbox.lane("a", task, "default", "t.bolt", partition, 4 + partition)


def put(
    lane: Lane,
    values: Sequence[Any],
    root: int = 0,
    edge: int = 0,
    more: dict[int, int] | None = None,
) -> None:
    if more:
        lane.more[len(lane.rows)] = more
    lane.rows.append(values)
    lane.roots.append(root)
    lane.edges.append(edge)


def tuples(sends: list[OutgoingRecord]) -> list[TupleFrame]:
    return [decode(TupleFrame, send.value) for send in sends]


def test_tuples_of_one_lane_make_one_frame() -> None:
    """The columns of values, roots and edges are in the order of the emits."""
    outbox = Outbox(topology())
    lane = lane_of(outbox, partition=1)
    put(lane, ["apple"], 7, 70)
    put(lane, ["pear"], 8, 80, {9: 90})
    put(lane, ["plum"])
    (send,) = outbox.drain_tuples()
    assert (send.topic, send.partition) == ("t.bolt", 1)
    (frame,) = tuples([send])
    assert (frame.component, frame.task, frame.stream, frame.count) == ("a", 1, "default", 3)
    assert frame.columns == [["apple", "pear", "plum"]]
    assert unpack_ids(frame.roots) == (7, 8, 0)
    assert unpack_ids(frame.edges) == (70, 80, 0)
    assert frame.more == {1: {9: 90}}
    assert outbox.drain_tuples() == []
    put(lane, ["fig"])
    outbox.drain_tuples()
    assert outbox.sent == {("default", "t.bolt"): 4}


def test_untracked_tuples_carry_no_ids() -> None:
    """A frame without any root has empty columns of ids."""
    outbox = Outbox(topology())
    put(lane_of(outbox), [1])
    (frame,) = tuples(outbox.drain_tuples())
    assert (frame.roots, frame.edges) == (b"", b"")


def test_tuples_of_several_tasks_leave_in_one_frame() -> None:
    """With their ids, further anchors and emitting tasks. Each part of a split frame has its own."""
    outbox = Outbox(topology(topology_frame_max_tuples=4))
    lanes = [lane_of(outbox, task=task) for task in (1, 2, 3)]
    expected = []
    for number in range(10):
        task = 1 + number % 3
        more = {500: 600 + number} if number == 4 else None
        put(lanes[task - 1], [number], 10 + number, 100 + number, more)
        expected.append((task, number, 10 + number, 100 + number, more))
    found = []
    for frame in tuples(outbox.drain_tuples()):
        assert frame.count <= 4
        for row in range(frame.count):
            root, edge = unpack_ids(frame.roots)[row], unpack_ids(frame.edges)[row]
            value = frame.columns[0][row]
            found.append((task_of(frame, row), value, root, edge, frame.more.get(row)))
    assert found == sorted(expected, key=lambda one: one[0])
    assert not outbox.has_tuples


def test_first_format_has_a_frame_for_each_pair_of_tasks() -> None:
    outbox = Outbox(topology(topology_frame_format=1))
    for task in (1, 2):
        put(lane_of(outbox, task=task), [task])
    assert [(frame.task, frame.runs) for frame in tuples(outbox.drain_tuples())] == [
        (1, []),
        (2, []),
    ]


def test_oversized_tuple_names_its_task() -> None:
    """The tuple is found among those of other tasks."""
    outbox = Outbox(topology(topology_frame_max_bytes=20_000))
    put(lane_of(outbox, task=1), ["small"])
    put(lane_of(outbox, task=2), ["x" * 30_000], 7, 70)
    put(lane_of(outbox, task=2), ["small, too"])
    frames = tuples(outbox.drain_tuples())
    assert [(frame.task, frame.columns) for frame in frames] == [
        (1, [["small"]]),
        (2, [["small, too"]]),
    ]
    assert [(one.task, one.pairs) for one in outbox.too_large] == [(2, {7: 70})]


def test_lanes_do_not_mix() -> None:
    """Each receiving task gets its own frame."""
    outbox = Outbox(topology())
    for partition in (0, 1):
        put(lane_of(outbox, task=1 + partition, partition=partition), [partition])
    assert [
        (send.partition, frame.task) for send in outbox.drain_tuples() for frame in tuples([send])
    ] == [(0, 1), (1, 2)]


def test_a_forgotten_task_sends_nothing() -> None:
    """Its lanes drop their tuples."""
    outbox = Outbox(topology())
    kept, gone = lane_of(outbox, task=1), lane_of(outbox, task=2)
    put(kept, ["kept"])
    put(gone, ["gone"])
    outbox.forget(2)
    assert [frame.columns for frame in tuples(outbox.drain_tuples())] == [[["kept"]]]


def test_tuples_without_fields() -> None:
    """A stream may have no fields. Its frame has the number of tuples."""
    outbox = Outbox(topology())
    lane = lane_of(outbox)
    put(lane, [], 1, 2)
    put(lane, [], 3, 4)
    (frame,) = tuples(outbox.drain_tuples())
    assert (frame.count, frame.columns, unpack_ids(frame.roots)) == (2, [], (1, 3))


@given(
    st.integers(1, 7),
    st.lists(st.tuples(st.text(max_size=30), st.booleans()), max_size=40),
    st.integers(300, 500),
)
def test_frames_are_split_by_tuples_and_bytes(
    most: int, given_tuples: list[tuple[str, bool]], most_bytes: int
) -> None:
    """Each frame is within both limits. Together they hold every tuple with its ids, in order."""
    outbox = Outbox(topology(topology_frame_max_tuples=most, topology_frame_max_bytes=most_bytes))
    lane = lane_of(outbox)
    put_in = []
    for number, (text, multi) in enumerate(given_tuples):
        more = {1000 + number: 2000 + number} if multi else None
        put(lane, [text], number + 1, 100 + number, more)
        put_in.append((text, number + 1, 100 + number, more))
    sends = outbox.drain_tuples()
    came_out = []
    for send, frame in zip(sends, tuples(sends), strict=True):
        assert frame.count <= most
        assert len(send.value) <= most_bytes
        rows = zip(*frame.columns, unpack_ids(frame.roots), unpack_ids(frame.edges), strict=True)
        came_out += [(*row, frame.more.get(position)) for position, row in enumerate(rows)]
    assert came_out == put_in
    assert outbox.too_large == []


def test_one_tuple_that_is_too_large_fails_alone() -> None:
    """All its roots fail, the other tuples are sent, and the caller learns its task."""
    outbox = Outbox(topology(topology_frame_max_bytes=2000))
    lane = lane_of(outbox)
    for number in range(8):
        big = number == 5
        put(
            lane,
            ["x" * 3000 if big else "x" * 300],
            number + 1,
            50 + number,
            {77: 78, 79: 80} if big else None,
        )
    frames = tuples(outbox.drain_tuples())
    assert [root for frame in frames for root in unpack_ids(frame.roots)] == [1, 2, 3, 4, 5, 7, 8]
    assert all(frame.more == {} for frame in frames)
    assert outbox.fails == {6, 77, 79}
    (what,) = outbox.too_large
    assert (what.component, what.task, what.stream, what.limit) == ("a", 1, "default", 2000)
    assert what.size > 3000
    assert "topology_frame_max_bytes" in what.reason


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "bad",
    [
        object(),
        2**64,
        "\ud800",
        1j,
        {object(): 1},
        nested(100_000),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        msgspec.Raw(b""),
        msgspec.Raw(b"{}"),
        msgspec.Raw(b"\xc1"),
        [{"deep": msgspec.Raw(b"\x92\x01")}],
    ],
)
def test_a_value_that_messagepack_cannot_hold_fails_alone(bad: Any) -> None:
    """The error message is different from that of a tuple that is too large."""
    outbox = Outbox(topology())
    lane = lane_of(outbox)
    for number, value in enumerate(["good", bad, "fine"]):
        put(lane, [value], number + 1, 50 + number)
    assert [frame.columns for frame in tuples(outbox.drain_tuples())] == [[["good"]], [["fine"]]]
    assert outbox.fails == {2}
    assert "cannot be encoded as MessagePack" in outbox.too_large[0].reason


def test_an_untracked_tuple_that_is_too_large_fails_nothing() -> None:
    """It has no tree to fail, but it is still reported."""
    outbox = Outbox(topology(topology_frame_max_bytes=100))
    put(lane_of(outbox), ["x" * 200])
    assert outbox.drain_tuples() == []
    assert outbox.fails == set()
    assert len(outbox.too_large) == 1


def acks(sends: list[OutgoingRecord]) -> dict[int, list[AckFrame]]:
    frames: dict[int, list[AckFrame]] = {}
    for send in sends:
        assert send.topic == "t.__acker"
        frames.setdefault(send.partition, []).append(decode(AckFrame, send.value))
    return frames


def test_acks_go_to_the_acker_of_their_root() -> None:
    """The acker task is the root modulo their number. Each acker gets one frame."""
    outbox = Outbox(topology())
    outbox.acks = {4: 40, 8: 80, 5: 50}
    outbox.fails = {6, 9}
    outbox.resets = {7}
    frames = acks(outbox.drain_acks())
    assert {acker: len(all_of_it) for acker, all_of_it in frames.items()} == {
        0: 1,
        1: 1,
        2: 1,
        3: 1,
    }
    assert sorted(unpack_pairs(frames[0][0].roots, frames[0][0].vals)) == [(4, 40), (8, 80)]
    assert (unpack_ids(frames[1][0].roots), unpack_ids(frames[1][0].failed)) == ((5,), (9,))
    assert unpack_ids(frames[2][0].failed) == (6,)
    assert unpack_ids(frames[3][0].reset) == (7,)
    assert outbox.drain_acks() == []


def test_an_ack_that_folded_to_nothing_is_not_sent() -> None:
    """An XOR of zero changes no row."""
    outbox = Outbox(topology())
    outbox.acks = {4: 0}
    assert outbox.drain_acks() == []
    assert outbox.acks == {}


def test_inits_name_their_spout_task() -> None:
    """There is one frame per spout task and acker. Inits precede acks and fails of the same drain."""
    outbox = Outbox(topology())
    outbox.init(1, 4, 40)
    outbox.init(1, 8, 80)
    outbox.init(3, 12, 120)
    outbox.fails = {4}
    frames = acks(outbox.drain_acks())[0]
    assert [
        (frame.task, list(unpack_pairs(frame.init_roots, frame.init_vals))) for frame in frames
    ] == [(1, [(4, 40), (8, 80)]), (3, [(12, 120)]), (0, [])]
    assert unpack_ids(frames[2].failed) == (4,)
    assert outbox.drain_acks() == []


def test_without_ackers_nothing_is_sent_to_them() -> None:
    """Failures of untracked tuples are dropped and do not pile up."""
    outbox = Outbox(topology(topology_acker_executors=0))
    outbox.fails = {1}
    assert outbox.drain_acks() == []
    assert outbox.fails == set()


def test_frames_of_news_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million acks in one drain are several records within the broker's limit."""
    monkeypatch.setattr(module, "_MAX_ROWS", 3)
    outbox = Outbox(topology(topology_acker_tasks=1))
    outbox.acks = {root: root + 100 for root in range(1, 9)}
    outbox.fails = set(range(20, 25))
    outbox.resets = {30}
    for root in range(40, 44):
        outbox.init(1, root, root)
    frames = acks(outbox.drain_acks())[0]
    assert all(len(c) <= 24 for f in frames for c in (f.init_roots, f.roots, f.failed, f.reset))
    assert [root for f in frames for root in unpack_ids(f.init_roots)] == list(range(40, 44))
    assert [pair for f in frames for pair in unpack_pairs(f.roots, f.vals)] == [
        (r, r + 100) for r in range(1, 9)
    ]
    assert sorted(root for f in frames for root in unpack_ids(f.failed)) == list(range(20, 25))
    assert [root for f in frames for root in unpack_ids(f.reset)] == [30]


def completions(sends: list[OutgoingRecord]) -> dict[tuple[str, int], list[CompletionFrame]]:
    frames: dict[tuple[str, int], list[CompletionFrame]] = {}
    for send in sends:
        frames.setdefault((send.topic, send.partition), []).append(
            decode(CompletionFrame, send.value)
        )
    return frames


def test_completions_go_to_the_task_that_emitted() -> None:
    """They go to the task's partition in its component's topic, in one frame."""
    box = CompletionBox(topology())
    box.acked = {2: [5, 6], 3: [7]}
    box.failed = {2: [8]}
    box.reset = {1: [9]}
    frames = completions(box.drain())
    assert {place: len(some) for place, some in frames.items()} == {
        ("t.a.__completions", 0): 1,
        ("t.a.__completions", 1): 1,
        ("t.b.__completions", 0): 1,
    }
    (second,) = frames["t.a.__completions", 1]
    assert (unpack_ids(second.acked), unpack_ids(second.failed)) == ((5, 6), (8,))
    assert unpack_ids(frames["t.a.__completions", 0][0].reset) == (9,)
    assert box.drain() == []


@pytest.mark.parametrize("task", [0, 4, 6, 65_535])
def test_completions_for_unknown_tasks_are_counted_and_dropped(task: int) -> None:
    """A ledger from an earlier topology may have unknown tasks. The other tasks are notified."""
    box = CompletionBox(topology())
    box.acked = {task: [5, 6], 1: [7]}
    box.failed = {task: [8]}
    assert list(completions(box.drain())) == [("t.a.__completions", 0)]
    assert box.undeliverable == 3
    assert box.drain() == []


def test_frames_of_completions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the same as for ack frames."""
    monkeypatch.setattr(completion_box, "_MAX_ROWS", 2)
    box = CompletionBox(topology())
    box.acked = {1: [1, 2, 3, 4, 5]}
    box.failed = {1: [6]}
    frames = completions(box.drain())["t.a.__completions", 0]
    assert [unpack_ids(frame.acked) for frame in frames] == [(1, 2), (3, 4), (5,)]
    assert [unpack_ids(frame.failed) for frame in frames] == [(6,), (), ()]
