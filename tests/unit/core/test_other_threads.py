"""Collectors used by other threads: no call is lost or applied twice."""

from collections import Counter
from collections.abc import Callable
from functools import reduce
from operator import xor
from random import Random
from threading import Thread
from typing import Any

import pytest

from kstorm.core.wire import AckFrame, decode, unpack_ids
from kstorm.errors import EmitError
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    OutputFieldsDeclarer,
    Tuple,
    TupleBatch,
)
from tests.unit.core.bolt_harness import Basic, Harness, Plain
from tests.unit.core.exact_harness import ExactHarness
from tests.unit.core.spout_harness import Harness as SpoutHarness


def elsewhere(*calls: Callable[[], Any]) -> list[BaseException]:
    """Run each call in its own thread, and return their exceptions."""
    raised: list[BaseException] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    threads = [Thread(target=run, args=(call,), name="worker") for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


class Held(Bolt):
    """Holds its tuples."""

    def __init__(self) -> None:
        self.held: list[Tuple] = []

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple) -> None:
        self.held.append(tuple)


def folded(outbox: Any, total: dict[int, int]) -> None:
    """Add the sent acks to `total`, as an acker does."""
    for send in outbox.drain_acks():
        frame = decode(AckFrame, send.value)
        for root, val in zip(unpack_ids(frame.roots), unpack_ids(frame.vals), strict=True):
            total[root] = total.get(root, 0) ^ val


@pytest.mark.parametrize("exact", [False, True], ids=["at least once", "exactly once"])
def test_every_ack_of_four_threads_leaves(exact: bool) -> None:
    """The threads ack while the owner executes, acks and drains."""
    bolt = Held()
    harness: Any
    if exact:
        harness = ExactHarness(bolt)
        harness.give(0, *map(str, range(3000)))
    else:
        plain = Plain()
        harness = Harness(plain)
        harness.give(*((str(number), number + 1, number + 1) for number in range(3000)))
        bolt.held = plain.got
    tuples, collector = bolt.held[:], harness.task.collector
    collector._next_id = lambda: Random().getrandbits(64)
    total: dict[int, int] = {}

    def work(share: list[Tuple]) -> Callable[[], None]:
        def ack_all() -> None:
            for tuple in share:
                collector.emit([tuple["word"]], tuple)
                collector.ack(tuple)

        return ack_all

    threads = [Thread(target=work(tuples[first::4])) for first in range(4)]
    for thread in threads:
        thread.start()
    edges: Counter[int] = Counter()
    while True:
        alive = any(thread.is_alive() for thread in threads)
        harness.outbox.take_over()
        for root, edge in _sent(harness):
            edges[root] ^= edge
        folded(harness.outbox, total)
        if not alive:
            break
    roots = {tuple.root for tuple in tuples}
    assert len(roots) == 3000
    # The acker's row: the tuple's edge, its ack, and the edges of the tuples emitted with it.
    open_rows = {
        tuple.root for tuple in tuples if tuple.edge ^ total.get(tuple.root, 0) ^ edges[tuple.root]
    }
    assert open_rows == set()
    assert collector.acked == 3000


def _sent(harness: Any) -> list[tuple[int, int]]:
    if isinstance(harness, ExactHarness):
        return [(root, edge) for _, root, edge in harness.sent()]
    return [(row[4], row[5]) for row in harness.sent()]


def test_a_call_of_another_thread_waits_for_the_end_of_the_execution() -> None:
    """A failed execution therefore does not drop it."""
    harness: ExactHarness

    class Fails(Held):
        def execute(self, tuple: Tuple) -> None:
            if tuple["word"] == "held":
                self.held.append(tuple)
                return
            elsewhere(lambda: self.collector.ack(self.held[0]))
            raise ValueError

    bolt = Fails()
    harness = ExactHarness(bolt)
    harness.give(0, "held")
    harness.give(1, "bad")
    assert harness.acks() == {}
    harness.outbox.take_over()
    assert harness.acks() == {1: 1}


def test_an_invalid_emit_raises_in_its_thread() -> None:
    harness = Harness(Plain())
    (error,) = elsewhere(lambda: harness.collector.emit(["a", "b"]))
    assert isinstance(error, EmitError)
    assert "emits 2 values" in str(error)
    assert not harness.outbox.handed_over


def test_a_grouping_that_raises_later_fails_the_anchor() -> None:
    """Otherwise the ack after the emit would lose the tuple."""
    bolt = Plain()
    harness = Harness(bolt)
    harness.give(("a", 1, 1))
    routes = harness.collector._routes["default"]

    def choose(_values: Any) -> Any:
        raise ValueError("the grouping")

    harness.collector._plain["default"] = routes.fields, 100, -1, {}, choose
    (one,) = bolt.got

    def work() -> None:
        harness.collector.emit(["x"], one)
        harness.collector.ack(one)

    assert elsewhere(work) == []
    harness.outbox.take_over()
    assert (harness.collector.acked, harness.collector.failed) == (0, 1)
    assert harness.outbox.fails == {1}
    assert harness.errors == [("the grouping", "emitting for the thread 'worker'")]


def test_a_direct_emit_of_another_thread_returns_its_task() -> None:
    harness = Harness(Plain())
    returned: list[Any] = []
    elsewhere(lambda: returned.append(harness.collector.emit(["x"], stream="to-one", task=4)))
    elsewhere(lambda: returned.append(harness.collector.emit(["x"])))
    assert returned == [(4,), ()]


def test_batches_of_another_thread_are_copied() -> None:
    class Batches(Held):
        def execute_batch(self, batch: TupleBatch) -> None:
            self.batch = batch

    bolt = Batches()
    harness = ExactHarness(bolt)
    harness.give(0, "a", "b")
    words = ["x", "y"]

    def work() -> None:
        bolt.collector.emit_batch([words], bolt.batch)
        words.clear()
        bolt.collector.ack_batch(bolt.batch)

    assert elsewhere(work) == []
    harness.outbox.take_over()
    sent = harness.sent()
    assert [word for word, *_ in sent] == ["x", "y"]
    assert (
        reduce(xor, [edge for *_, edge in sent], 0) ^ reduce(xor, harness.acks().values(), 0)
        == 1 ^ 2
    )


@pytest.mark.parametrize("exact", [False, True], ids=["at least once", "exactly once"])
def test_a_basic_bolts_collector_is_refused(exact: bool) -> None:
    raised: list[BaseException] = []

    class Threads(BasicBolt):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            declarer.declare("word")

        def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
            raised.extend(elsewhere(lambda: collector.emit(["x"])))

    if exact:
        ExactHarness(Threads()).give(0, "a")
    else:
        basic = Basic()
        basic.do = Threads().execute
        Harness(basic).give(("a", 1, 1))
    (error,) = raised
    assert isinstance(error, EmitError)
    assert "'bolt' is a BasicBolt and emits from the thread 'worker'" in str(error)
    assert "asyncio.to_thread" in str(error)


def test_a_spouts_collector_is_refused() -> None:
    harness = SpoutHarness()
    errors = elsewhere(
        lambda: harness.emit(["x"], message_id=1),
        lambda: harness.task.collector.emit_batch([["x"]], [1]),
        lambda: harness.task.collector.dead_letter("bad", value=b""),
    )
    assert len(errors) == 3
    for error in errors:
        assert isinstance(error, EmitError)
        assert "uses its collector in the thread 'worker'" in str(error)
        assert "queue.SimpleQueue" in str(error)
    assert harness.task.in_flight == 0


@pytest.mark.parametrize("exact", [False, True], ids=["at least once", "exactly once"])
def test_a_task_that_has_left_acks_nothing(exact: bool) -> None:
    """Its tuples are executed elsewhere, and two acks of one tuple would cancel out."""
    harness: Any
    if exact:
        bolt = Held()
        harness = ExactHarness(bolt)
        harness.give(0, "a")
        (one,) = bolt.held
    else:
        plain = Plain()
        harness = Harness(plain)
        harness.give(("a", 1, 1))
        (one,) = plain.got
    collector = harness.task.collector
    elsewhere(lambda: collector.ack(one))
    collector.close()
    collector.ack(one)
    elsewhere(lambda: collector.ack(one))
    harness.outbox.take_over()
    assert harness.acks() == {}
