"""A bolt task: its executions, emits, acks and fails."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kstorm.core.user_code import drive
from kstorm.core.wire import VERSION, TupleFrame, pack_ids
from kstorm.errors import EmitError, FailedException, FrameError, ReportedFailedException
from kstorm.topology import BasicOutputCollector, Tuple
from tests.unit.core.bolt_harness import Basic, Harness, Plain

# Executing.


def test_tuples_are_executed_in_order_with_their_source(bolt: Plain, harness: Harness) -> None:
    """Values have names, and the source has fields, root and edge."""
    harness.give(("a", 1, 10), ("b", 0, 0), ("c", 2, 20))
    assert [(t["word"], t.root, t.edge) for t in bolt.got] == [
        ("a", 1, 10),
        ("b", 0, 0),
        ("c", 2, 20),
    ]
    assert (bolt.got[0].source_component, bolt.got[0].source_task, bolt.got[0].source_stream) == (
        "words",
        1,
        "default",
    )
    assert harness.task.executed == 3
    assert harness.task.unfinished == 3


def test_untracked_frames(bolt: Plain, harness: Harness) -> None:
    """The tuples of a frame without ids have no tree, and acking them sends nothing."""
    bolt.do = harness.collector.ack
    harness.run(
        harness.task.receive(
            TupleFrame(VERSION, "words", 1, "pairs", 2, b"", b"", {}, [[1, 2], [3, 4]])
        )
    )
    assert [list(tuple) for tuple in bolt.got] == [[1, 3], [2, 4]]
    assert harness.outbox.acks == {}
    assert harness.task.unfinished == 0


def test_a_long_frame_offers_pauses(bolt: Plain, harness: Harness) -> None:
    """The driver may switch to other work between tuples. No tuple is skipped or executed twice."""
    harness.task.pause_every = 4
    frame = TupleFrame(
        VERSION, "words", 1, "default", 10, b"", b"", {}, [list(map(str, range(10)))]
    )
    assert [len(bolt.got) for _ in harness.task.receive(frame)] == [4, 8]
    assert [tuple[0] for tuple in bolt.got] == list(map(str, range(10)))


@pytest.mark.parametrize(
    ("component", "stream", "columns", "said"),
    [
        (
            "sink",
            "default",
            [["a"]],
            "stream 'default' of 'sink', to which 'bolt' does not subscribe",
        ),
        (
            "words",
            "errors",
            [["a"]],
            "stream 'errors' of 'words', to which 'bolt' does not subscribe",
        ),
        ("nobody", "default", [["a"]], "to which 'bolt' does not subscribe"),
        (
            "words",
            "default",
            [["a"], ["b"]],
            "2 columns, but the stream 'default' of 'words' has 1 fields: was the topology",
        ),
        ("words", "pairs", [["a"]], "1 columns, but the stream 'pairs' of 'words' has 2 fields"),
        ("words", "default", [], "0 columns"),
    ],
)
def test_frames_for_another_component_are_refused(
    bolt: Plain, harness: Harness, component: str, stream: str, columns: list[list[Any]], said: str
) -> None:
    """Each such frame is refused before its first tuple."""
    frame = TupleFrame(VERSION, component, 1, stream, 1, b"", b"", {}, columns)
    for _ in range(2):
        with pytest.raises(FrameError, match=said):
            harness.task.receive(frame)
    assert bolt.got == []


def test_frames_of_one_source_that_differ(harness: Harness) -> None:
    """A valid frame does not make a later frame of its source valid."""
    harness.give(("a", 1, 10))
    with pytest.raises(FrameError, match="2 columns"):
        harness.task.receive(
            TupleFrame(VERSION, "words", 1, "default", 1, b"", b"", {}, [["a"], ["b"]])
        )


# Errors.


def test_exception_fails_the_tuple_and_the_bolt_continues(bolt: Plain, harness: Harness) -> None:
    """The error is reported with the tuple's source, and the next tuples are executed."""

    def execute(tuple: Tuple) -> None:
        if tuple[0] == "bad":
            raise ValueError("cannot")
        harness.collector.ack(tuple)

    bolt.do = execute
    harness.give(("a", 1, 10), ("bad", 2, 20), ("c", 3, 30))
    assert harness.outbox.acks == {1: 10, 3: 30}
    assert harness.outbox.fails == {2}
    assert harness.errors == [("cannot", "executing a tuple of 'words'")]


def test_an_error_after_the_ack_does_not_fail_the_tuple(bolt: Plain, harness: Harness) -> None:
    """The tuple stays acked, and the error is reported."""

    def execute(tuple: Tuple) -> None:
        harness.collector.ack(tuple)
        raise ValueError("late")

    bolt.do = execute
    harness.give(("a", 1, 10))
    assert harness.outbox.acks == {1: 10}
    assert harness.outbox.fails == set()
    assert len(harness.errors) == 1


@pytest.mark.parametrize(
    ("error", "reports"), [(FailedException, 0), (ReportedFailedException, 1), (KeyError, 1)]
)
def test_failing_quietly_and_failing_with_a_report(
    bolt: Plain, harness: Harness, error: type[Exception], reports: int
) -> None:
    """Storm's FailedException fails the tuple without a report. Every other exception is reported."""

    def execute(tuple: Tuple) -> None:
        raise error("no")

    bolt.do = execute
    harness.give(("a", 1, 10))
    assert harness.outbox.fails == {1}
    assert len(harness.errors) == reports


@pytest.mark.parametrize(
    ("values", "how", "said"),
    [
        (["a"], {"stream": "eror"}, "'bolt' emits on the stream 'eror', which it did not declare"),
        (["a", "b"], {}, "'bolt' emits 2 values on the stream 'default', which declares 1 fields"),
        (
            ["a"],
            {"task": 4},
            (
                "emits to a task on the stream 'default', which is not a direct stream: declare it "
                "with direct=True"
            ),
        ),
        (["a"], {"stream": "to-one"}, "direct stream 'to-one' without a task"),
        (
            ["a"],
            {"stream": "to-one", "task": 6},
            r"emits to task 6 .*consumers' tasks are \[4, 5\]",
        ),
    ],
)
def test_wrong_emits_fail_the_tuple(
    bolt: Plain, harness: Harness, values: Sequence[Any], how: dict[str, Any], said: str
) -> None:
    """They are reported as errors of the bolt. Nothing is sent, and no edge is left."""

    def execute(tuple: Tuple) -> None:
        with pytest.raises(EmitError, match=said):
            harness.collector.emit(values, tuple, **how)
        harness.collector.ack(tuple)

    bolt.do = execute
    harness.give(("a", 7, 10))
    assert harness.errors == []
    assert harness.outbox.acks == {7: 10}
    assert harness.sent() == []


def test_a_direct_emit(bolt: Plain, harness: Harness) -> None:
    """The tuple goes to the named task, and is anchored as usual."""
    harness.give(("a", 7, 10))
    assert list(harness.collector.emit(["x"], bolt.got[0], "to-one", 5)) == [5]
    ((topic, partition, *_, root, edge, _),) = harness.sent()
    assert (topic, partition, root) == ("t.next", 1, 7)
    harness.collector.ack(bolt.got[0])
    assert harness.outbox.acks == {7: 10 ^ edge}


def test_emit_without_subscribers(bolt: Plain, harness: Harness) -> None:
    """The emit has no receiver and adds nothing to the tree."""
    harness.give(("a", 7, 10))
    assert harness.collector.emit(["x"], bolt.got[0], "unheard") == ()
    harness.collector.ack(bolt.got[0])
    assert harness.outbox.acks == {7: 10}


def test_reported_errors_fail_nothing(bolt: Plain, harness: Harness) -> None:
    harness.give(("a", 7, 10))
    harness.collector.report_error(ValueError("odd"))
    assert harness.errors == [("odd", "reported")]
    assert harness.outbox.fails == set()


# Basic bolts.


def test_a_basic_bolt_anchors_and_acks_by_itself() -> None:
    """Every emit is anchored to the input, and the collector acks the input after `execute`."""
    bolt = Basic()
    harness = Harness(bolt)
    bolt.do = lambda tuple, collector: [collector.emit([tuple[0] + "!"], "errors")].clear()
    harness.give(("a", 7, 10), ("b", 8, 20))
    sent = harness.sent()
    assert [(values, root) for _, _, _, values, root, *_ in sent] == [(["a!"], 7), (["b!"], 8)]
    assert harness.acks() == {7: 10 ^ harness.drawn[0], 8: 20 ^ harness.drawn[1]}
    assert harness.task.unfinished == 0


def test_a_basic_bolt_fails_by_raising() -> None:
    """Its earlier emits are sent, and the tree fails."""
    bolt = Basic()
    harness = Harness(bolt)

    def execute(tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(["x"], "errors")
        raise FailedException("not now")

    bolt.do = execute
    harness.give(("a", 7, 10))
    assert len(harness.sent()) == 1
    assert harness.outbox.acks == {}
    assert harness.outbox.fails == {7}
    assert harness.errors == []


def test_a_basic_bolt_may_reset_and_report() -> None:
    bolt = Basic()
    harness = Harness(bolt)

    def execute(tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.reset_timeout(tuple)
        collector.report_error(ValueError("odd"))
        collector.emit(["x"], "to-one", 4)

    bolt.do = execute
    harness.give(("a", 7, 10))
    assert harness.outbox.resets == {7}
    assert harness.errors == [("odd", "reported")]
    assert [partition for _, partition, *_ in harness.sent()] == [0]


# Async.


def test_an_async_execute() -> None:
    """The task awaits it before the next tuple.

    Its exception fails its tuple, and anchors are correct.
    """
    bolt = Basic()
    harness = Harness(bolt)

    async def execute(tuple: Tuple, collector: BasicOutputCollector) -> None:
        await asyncio.sleep(0)
        if tuple[0] == "bad":
            raise ValueError("cannot")
        collector.emit([tuple[0]], "errors")

    bolt.do = execute
    frame = TupleFrame(
        VERSION,
        "words",
        1,
        "default",
        3,
        pack_ids([1, 2, 3]),
        pack_ids([10, 20, 30]),
        {},
        [["a", "bad", "c"]],
    )
    asyncio.run(drive(harness.task.receive(frame)))
    assert [(values, root) for _, _, _, values, root, *_ in harness.sent()] == [
        (["a"], 1),
        (["c"], 3),
    ]
    assert harness.outbox.fails == {2}
    assert set(harness.acks()) == {1, 3}
    assert harness.errors == [("cannot", "executing a tuple of 'words'")]


def test_an_execute_with_a_yield_in_it_fails_its_tuples(bolt: Plain, harness: Harness) -> None:
    """Python makes a generator of it, which runs nothing.

    An ack of the tuple would lose it silently.
    """

    def execute(tuple: Tuple) -> Any:
        yield harness.collector.emit(["x"], tuple)

    bolt.do = execute
    frame = TupleFrame(
        VERSION, "words", 1, "default", 1, pack_ids([1]), pack_ids([10]), {}, [["a"]]
    )
    asyncio.run(drive(harness.task.receive(frame)))
    assert harness.outbox.fails == {1}
    assert "it must return nothing or be async" in harness.errors[0][0]


# Ticks.


def test_ticks_keep_their_interval() -> None:
    """The first call starts the clock. After a late tick, missed ticks are not made up."""
    bolt = Basic()
    harness = Harness(bolt, topology_tick_tuple_freq_secs=5)
    ticks: list[int] = []
    for now in (100, 104.9, 105, 105.1, 109, 110, 130, 130.1, 134, 135):
        harness.run(harness.task.tick(now))
        ticks.append(len(bolt.got))
    assert ticks == [0, 0, 1, 1, 1, 2, 3, 3, 3, 4]
    assert all(tuple.is_tick and tuple["rate_secs"] == 5 for tuple in bolt.got)
    assert harness.outbox.acks == {}


def test_no_ticks_by_default(bolt: Plain, harness: Harness) -> None:
    for now in range(0, 1000, 10):
        harness.run(harness.task.tick(now))
    assert bolt.got == []


@pytest.mark.parametrize(
    "ends", [lambda harness, tick: None, lambda h, t: h.collector.ack(t), lambda h, t: h.nothing]
)
def test_ticks_are_never_unfinished(bolt: Plain, ends: Callable[[Harness, Tuple], Any]) -> None:
    """Ticks have no tree, need no ack, and are not counted as forgotten tuples."""
    harness = Harness(bolt, topology_tick_tuple_freq_secs=5)
    bolt.do = lambda tuple: ends(harness, tuple)
    for now in range(0, 30, 5):
        harness.run(harness.task.tick(now))
    assert len(bolt.got) == 5
    assert harness.task.unfinished == 0
    bolt.do = lambda tuple: None
    harness.give(("a", 1, 10))
    assert harness.task.unfinished == 1


def test_tick_is_not_an_anchor(bolt: Plain) -> None:
    """An emit on a tick is anchored only to the held tuples."""
    harness = Harness(bolt, topology_tick_tuple_freq_secs=5)
    harness.give(("a", 7, 10))
    (held,) = bolt.got

    def execute(tick: Tuple) -> None:
        harness.collector.emit(["window"], [tick, held], "errors")
        harness.collector.ack(held)

    bolt.do = execute
    harness.run(harness.task.tick(0))
    harness.run(harness.task.tick(5))
    ((*_, root, edge, more),) = harness.sent()
    assert (root, more) == (7, {})
    assert harness.outbox.acks == {7: 10 ^ edge}
