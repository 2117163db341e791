"""A spout task: tracking, and the delivery of acks and fails to its spout."""

import asyncio
from typing import Any

import pytest

from kstorm.core.user_code import drive
from kstorm.core.wire import (
    VERSION,
    AckFrame,
    CompletionFrame,
    TupleFrame,
    decode,
    pack_ids,
    unpack_ids,
    unpack_pairs,
)
from kstorm.errors import EmitError, FrameError
from tests.unit.core.spout_harness import Harness, T


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_tracked_tuple_is_announced_with_all_its_copies(harness: Harness) -> None:
    """Init has the XOR of all copies' edges, and this task.

    Each copy has the root and its own edge.
    """
    targets: list[Any] = []
    harness.next_tuple(lambda: targets.extend(harness.emit(["apple"], message_id="m1")))
    assert targets == [3, 5]
    frames = [decode(TupleFrame, send.value) for send in harness.outbox.drain_tuples()]
    assert [frame.columns for frame in frames] == [[["apple"]], [["apple"]]]
    (init,) = [decode(AckFrame, send.value) for send in harness.outbox.drain_acks()]
    ((root, val),) = unpack_pairs(init.init_roots, init.init_vals)
    edges = [edge for frame in frames for edge in unpack_ids(frame.edges)]
    assert {r for frame in frames for r in unpack_ids(frame.roots)} == {root}
    assert init.task == 1
    assert len(set(edges)) == 2
    assert val == edges[0] ^ edges[1]


def test_ack_and_fail_reach_the_spout_with_its_own_message_id(harness: Harness) -> None:
    """Every object except None is a valid message id, also a false one."""
    message = {"any": "object"}
    first, second, third = harness.send(message), harness.send(0), harness.send("")
    harness.told(acked=[second, first], failed=[third])
    assert harness.spout.acked == [0, message]
    assert harness.spout.acked[1] is message
    assert harness.spout.failed == [""]
    assert harness.task.in_flight == 0
    assert (harness.task.acked, harness.task.failed) == (2, 1)


def test_one_message_emitted_twice_is_two_trees(harness: Harness) -> None:
    """Each attempt has its own root."""
    assert harness.send("m") != harness.send("m")
    assert harness.task.in_flight == 2


def test_the_latency_of_a_tree(harness: Harness) -> None:
    """The latency is the time from emit to ack by the driver's clock. Failures have none."""
    root = harness.send("m")
    failing = harness.send("n")
    harness.now = 2.5
    harness.told(acked=[root], failed=[failing])
    assert harness.task.latencies == [2.5]


def test_news_of_unknown_trees_is_counted_and_ignored(harness: Harness) -> None:
    """Unknown roots, a second ack, and a fail after the ack change nothing."""
    root = harness.send("m")
    harness.told(acked=[root, root, 999], failed=[root, 998], reset=[997])
    assert harness.spout.acked == ["m"]
    assert harness.spout.failed == []
    assert harness.task.unknown == 4
    assert harness.task.in_flight == 0


def test_completion_frame_of_wrong_width_is_refused_as_a_whole(harness: Harness) -> None:
    root = harness.send("m")
    with pytest.raises(FrameError, match="a column has 5 bytes"):
        harness.task.completed(CompletionFrame(VERSION, 0, pack_ids([root]), bytes(5)), 0.0)
    assert harness.spout.acked == []


@pytest.mark.parametrize("emitted_at", [0.0, 0.1, 7.0, 14.9, 15.0, 15.1, 29.0])
def test_a_tree_times_out_between_one_and_one_and_a_half_timeouts(
    harness: Harness, emitted_at: float
) -> None:
    """This holds for any time of the emit. The timeout comes once."""
    harness.pass_time(emitted_at, every=0.05)
    harness.send("m")
    harness.pass_time(T - 0.06, every=0.05)
    assert harness.spout.failed == []
    harness.pass_time(T / 2 + 0.2, every=0.05)
    assert harness.spout.failed == ["m"]
    assert (harness.task.timed_out, harness.task.in_flight) == (1, 0)
    harness.pass_time(2 * T)
    assert harness.spout.failed == ["m"]


def test_component_timeout_overrides_the_topology() -> None:
    """The spout's own setting applies."""
    harness = Harness(topology_message_timeout_secs=2)
    harness.send("m")
    harness.pass_time(3.1, every=0.1)
    assert harness.spout.failed == ["m"]


def test_without_timeouts_nothing_is_too_late() -> None:
    """An ack or a failure still ends a tree at any time."""
    harness = Harness(topology_enable_message_timeouts=False, topology_message_timeout_secs=2)
    acked, failed = harness.send("a"), harness.send("f")
    harness.pass_time(1e6, every=1e5)
    assert (harness.spout.failed, harness.task.in_flight) == ([], 2)
    harness.told(acked=[acked], failed=[failed])
    assert (harness.spout.acked, harness.spout.failed, harness.task.timed_out) == (["a"], ["f"], 0)


def test_late_ack_is_ignored(harness: Harness) -> None:
    """The tree has failed and stays failed."""
    root = harness.send("m")
    harness.pass_time(1.5 * T)
    harness.told(acked=[root])
    assert (harness.spout.acked, harness.spout.failed, harness.task.unknown) == ([], ["m"], 1)


def test_reset_gives_the_whole_timeout_again(harness: Harness) -> None:
    """The timeout counts from the reset. The message id and the time of the emit stay."""
    root = harness.send("m")
    harness.pass_time(T - 1)
    harness.told(reset=[root])
    harness.pass_time(T - 1)
    assert harness.spout.failed == []
    harness.told(acked=[root])
    assert harness.spout.acked == ["m"]
    assert harness.task.latencies == [2 * T - 2]


def test_reset_does_not_last(harness: Harness) -> None:
    """The tree times out later, like any other."""
    root = harness.send("m")
    harness.pass_time(T - 1)
    harness.told(reset=[root])
    harness.pass_time(1.5 * T + 1)
    assert harness.spout.failed == ["m"]
    assert harness.task.in_flight == 0


def test_tuples_emitted_after_a_long_sleep_do_not_time_out_early(harness: Harness) -> None:
    """A process that was paused for minutes must not fail its first emits."""
    old = harness.send("old")
    harness.spout.on_fail = harness.spout.on_ack = harness.emitting(["again"], "again")
    acked = harness.send("acked")
    harness.now = 10 * T
    harness.told(acked=[acked])
    harness.next_tuple(harness.emitting(["new"], "new"))
    harness.run(harness.task.tick(harness.now))
    assert harness.spout.failed == ["old"]
    assert harness.task.in_flight == 3
    harness.spout.on_fail = lambda _: None
    harness.pass_time(T - 1)
    assert harness.spout.failed == ["old"]
    harness.pass_time(T / 2 + 1)
    assert sorted(harness.spout.failed) == ["again", "again", "new", "old"]
    assert harness.task.in_flight == 0
    harness.told(acked=[old])
    assert harness.task.unknown == 1


def test_news_that_waited_with_a_sleeping_task_still_counts(harness: Harness) -> None:
    """After the pause, a waiting ack is processed before the clock is checked."""
    root = harness.send("m")
    harness.now = 10 * T
    harness.told(acked=[root])
    harness.run(harness.task.tick(harness.now))
    assert (harness.spout.acked, harness.spout.failed) == (["m"], [])


def test_max_spout_pending_holds_the_spout_back() -> None:
    """At the limit, the task does not call `next_tuple` and is throttled. A completion resumes it."""
    harness = Harness(topology_max_spout_pending=2)
    roots = [harness.send(number) for number in range(2)]
    assert not harness.task.throttled
    assert harness.task.collector.capacity == 0
    asked: list[int] = []
    harness.next_tuple(lambda: asked.append(1))
    assert asked == []
    assert harness.task.throttled
    harness.told(acked=roots[:1])
    assert harness.task.collector.capacity == 1
    harness.next_tuple()
    assert asked == [1]
    assert not harness.task.throttled


def test_the_limit_is_checked_between_calls() -> None:
    """One call may exceed the limit. `capacity` is then 0, and never negative."""
    harness = Harness(topology_max_spout_pending=2)
    emits = [harness.emitting([str(number)], number) for number in range(5)]
    harness.next_tuple(lambda: [emit() for emit in emits].clear())
    assert harness.task.in_flight == 5
    assert harness.task.collector.capacity == 0


def test_deactivated_spout_emits_nothing_but_receives_completions(harness: Harness) -> None:
    """Pending messages are acked, failed or timed out as usual."""
    first, second = harness.send("m1"), harness.send("m2")
    harness.send("m3")
    harness.run(harness.task.deactivate())
    harness.next_tuple(harness.emitting(["apple"], "m4"))
    assert (harness.task.in_flight, harness.task.active, harness.task.throttled) == (
        3,
        False,
        False,
    )
    harness.told(acked=[first], failed=[second])
    harness.pass_time(1.5 * T)
    assert (harness.spout.acked, harness.spout.failed) == (["m1"], ["m2", "m3"])
    harness.run(harness.task.activate())
    harness.next_tuple()
    assert harness.task.in_flight == 1


def test_activation_changes_are_notified_once(harness: Harness) -> None:
    """Repeated requests for one state make one call. A new task is inactive."""
    told: list[str] = []
    harness.spout.activate = lambda: told.append("activate")  # type: ignore[method-assign]
    harness.spout.deactivate = lambda: told.append("deactivate")  # type: ignore[method-assign]
    for steps in (
        harness.task.activate,
        harness.task.deactivate,
        harness.task.deactivate,
        harness.task.activate,
    ):
        harness.run(steps())
    assert told == ["deactivate", "activate"]


def test_a_spout_that_cannot_be_activated_is_not_active(harness: Harness) -> None:
    """The driver gets the error, and the spout emits nothing."""

    def refuse() -> None:
        raise OSError("no queue")

    harness.run(harness.task.deactivate())
    harness.spout.activate = refuse  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no queue"):
        harness.run(harness.task.activate())
    assert not harness.task.active


def test_untracked_tuples_are_not_pending() -> None:
    """Without a message id, a tuple is not tracked or limited, and gets no completion."""
    harness = Harness(topology_max_spout_pending=1)
    for _ in range(3):
        assert harness.send() == 0
    assert harness.task.in_flight == 0
    assert not harness.task.throttled
    harness.pass_time(2 * T)
    assert (harness.spout.acked, harness.spout.failed) == ([], [])


def test_without_ackers_every_message_is_acked_at_once() -> None:
    """The ack comes after `next_tuple`, because the spout may store the message after the emit."""
    harness = Harness(topology_acker_executors=0)
    seen: list[list[Any]] = []

    def emit() -> None:
        harness.emit(["apple"], "m1")
        harness.emit(["pear"], "m2")
        seen.append(list(harness.spout.acked))

    harness.next_tuple(emit)
    assert seen == [[]]
    assert harness.spout.acked == ["m1", "m2"]
    assert harness.task.in_flight == 0
    (first, *_) = [decode(TupleFrame, send.value) for send in harness.outbox.drain_tuples()]
    assert first.roots == b""
    assert harness.outbox.drain_acks() == []


def test_tuple_without_subscribers_is_acked_immediately(harness: Harness) -> None:
    """The message must not wait for its timeout."""
    harness.next_tuple(harness.emitting([1, 2], "m", stream="unheard"))
    assert harness.spout.acked == ["m"]
    assert harness.task.in_flight == 0
    assert harness.outbox.drain_acks() == []


@pytest.mark.parametrize("call", ["ack", "fail"])
def test_immediate_acks_are_delivered_with_the_next_tick(call: str) -> None:
    """A spout at its limit gets the ack of an emit without consumers at the next tick."""
    harness = Harness(topology_max_spout_pending=1)
    root = harness.send("m")
    setattr(harness.spout, f"on_{call}", harness.emitting([1, 2], "n", stream="unheard"))
    harness.told(**{f"{call}ed": [root]})
    harness.spout.on_ack = lambda _: None
    harness.send("p")
    assert harness.task.in_flight == 1
    harness.next_tuple()
    assert harness.task.throttled
    harness.pass_time(1)
    assert "n" in harness.spout.acked


def test_direct_emits(harness: Harness) -> None:
    """The tuple goes to the named task, and is tracked as usual."""
    assert harness.send("m", stream="to-one", task=4) != 0
    harness.next_tuple(harness.emitting(["pear"], "n", stream="to-one", task=3))
    (send,) = harness.outbox.drain_tuples()
    assert (send.topic, send.partition) == ("t.bolt", 0)


@pytest.mark.parametrize(
    ("values", "how", "said"),
    [
        (
            ["a"],
            {"stream": "wrods"},
            "'words' emits on the stream 'wrods', which it did not declare",
        ),
        (["a", "b"], {}, "emits 2 values on the stream 'default', which declares 1 fields"),
        ([], {"stream": "unheard"}, "emits 0 values on the stream 'unheard', which declares 2"),
        (
            ["a"],
            {"task": 3},
            (
                "emits to a task on the stream 'default', which is not a direct stream: declare it "
                "with direct=True"
            ),
        ),
        (["a"], {"stream": "to-one"}, "direct stream 'to-one' without a task: pass task="),
        (
            ["a"],
            {"stream": "to-one", "task": 5},
            r"to task 5 on the stream 'to-one': its consumers' tasks are \[3, 4\]",
        ),
    ],
)
def test_wrong_emits_are_refused(harness: Harness, values: list[Any], how: Any, said: str) -> None:
    """Nothing is sent or tracked. The message lists the declared fields."""
    with pytest.raises(EmitError, match=said):
        harness.emit(values, "m", **how)
    assert harness.outbox.drain_tuples() == []
    assert (harness.task.in_flight, harness.task.collector.emitted) == (0, 0)


@pytest.mark.parametrize("returned", [[3], True, iter(())])
def test_a_method_that_returns_something(harness: Harness, returned: Any) -> None:
    """The task reports it as an error, because a returned generator, for example, has not run."""
    harness.spout.todo = [lambda: returned]
    asyncio.run(drive(harness.task.next_tuple(0.0)))
    ((error, doing),) = harness.errors
    assert f"a component's method returned {returned!r}: it must return nothing" in error
    assert doing == "in next_tuple"


def boom(*_: Any) -> Any:
    raise RuntimeError("boom")


def test_spout_continues_after_an_exception(harness: Harness) -> None:
    """The report names the method that failed. Emits before the error stay valid."""

    def emit_and_raise() -> None:
        harness.emit(["apple"], "m")
        boom()

    harness.next_tuple(emit_and_raise)
    assert harness.task.in_flight == 1
    harness.spout.on_ack = harness.spout.on_fail = boom
    acked, failed = harness.send("a"), harness.send("b")
    harness.told(acked=[acked], failed=[failed])
    assert harness.errors == [
        ("boom", "in next_tuple"),
        ("boom", "in ack of 'a'"),
        ("boom", "in fail of 'b'"),
    ]
    assert harness.task.in_flight == 1
    harness.pass_time(1.5 * T)
    assert harness.errors[3:] == [("boom", "in fail of 'm'")]
    assert harness.task.in_flight == 0


def test_fail_may_emit_again(harness: Harness) -> None:
    """A replay from `fail` is common, and has a new root."""
    root = harness.send("m")
    harness.spout.on_fail = harness.emitting(["apple"], "m")
    harness.told(failed=[root])
    assert harness.task.in_flight == 1
    (init,) = [decode(AckFrame, send.value) for send in harness.outbox.drain_acks()]
    assert unpack_ids(init.init_roots) != (root,)


def test_every_method_may_be_async(harness: Harness) -> None:
    """The driver awaits it, and reports its exceptions as usual."""

    async def emit() -> None:
        await asyncio.sleep(0)
        harness.emit(["apple"], "m")

    async def fail(_: Any) -> None:
        await asyncio.sleep(0)
        boom()

    harness.spout.todo = [emit]
    harness.spout.on_fail = fail
    asyncio.run(drive(harness.task.next_tuple(0.0)))
    (send,) = harness.outbox.drain_acks()
    roots = decode(AckFrame, send.value).init_roots
    asyncio.run(drive(harness.task.completed(CompletionFrame(VERSION, 0, failed=roots), 1.0)))
    assert harness.spout.failed == ["m"]
    assert harness.errors == [("boom", "in fail of 'm'")]


def test_dead_letters_of_a_spout(harness: Harness) -> None:
    """They wait in the outbox with the task's name and with the callback for their delivery."""
    stored: list[str] = []
    harness.task.collector.dead_letter(
        "does not decode",
        value=b"\xff",
        topic="in",
        partition=3,
        offset=9,
        on_stored=lambda: stored.append("yes"),
    )
    (waiting,) = harness.outbox.letters
    letter = waiting.letter
    assert (letter.topology, letter.component, letter.task, letter.reason) == (
        "t",
        "words",
        1,
        "does not decode",
    )
    assert (letter.topic, letter.partition, letter.offset, letter.value) == ("in", 3, 9, b"\xff")
    assert waiting.on_stored is not None
    waiting.on_stored()
    assert stored == ["yes"]


def test_reported_errors_fail_nothing(harness: Harness) -> None:
    harness.task.collector.report_error(ValueError("odd"))
    assert harness.errors == [("odd", "reported")]
    assert harness.task.failed == 0
