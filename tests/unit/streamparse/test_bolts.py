"""Bolts of streamparse keep its rules for anchors, acks, failures, batches and restarts."""

from collections.abc import Sequence
from threading import Thread
from typing import Any, ClassVar

import pytest

from kstorm.errors import EmitError, TopologyError
from kstorm.streamparse import (
    BatchingBolt,
    Bolt,
    Stream,
    StreamparseBolt,
    TicklessBatchingBolt,
    Tuple,
)
from kstorm.testing import BoltTester


def bolt_of(kind: type[Bolt], *fields: str, **settings: Any) -> BoltTester[StreamparseBolt]:
    return BoltTester(StreamparseBolt(kind), *(fields or ("word",)), **settings)


class Echo(Bolt):
    outputs = ["word"]

    def process(self, tup: Tuple) -> None:
        if tup.values[0] == "bad":
            raise ValueError("bad word")
        self.emit([tup.values[0]])


def test_emits_are_anchored_and_tuples_acked() -> None:
    echo = bolt_of(Echo)
    message = echo.give(["a"])
    assert (echo.emitted(), echo.anchors(), echo.acked) == ([["a"]], [[message]], [message])


def test_an_exception_fails_the_tuple_and_is_reported() -> None:
    echo = bolt_of(Echo)
    message = echo.give(["bad"])
    assert echo.failed == [message]
    assert "bad word" in str(echo.errors[0].error)


def test_without_auto_fail_the_tuple_times_out_unless_the_object_is_discarded() -> None:
    class Patient(Echo):
        auto_fail = False
        exit_on_exception = False

    patient = bolt_of(Patient)
    message = patient.give(["bad"])
    assert (patient.failed, patient.held) == ([], [message])
    assert len(patient.errors) == 1


def test_without_auto_ack_and_auto_anchor_the_bolt_does_both() -> None:
    class Manual(Bolt):
        outputs = ["word"]
        auto_ack = auto_anchor = False

        def process(self, tup: Tuple) -> None:
            self.emit(["loose"])
            self.emit(["by tuple"], anchors=[tup])
            self.emit(["by id"], anchors=[tup.id])
            if tup.values[0] == "ack":
                self.ack(tup)
            if tup.values[0] == "fail":
                self.fail(tup.id)

    manual = bolt_of(Manual)
    given = [manual.give([each]) for each in ("ack", "fail", "keep")]
    assert manual.anchors()[:3] == [[], [given[0]], [given[0]]]
    assert (manual.acked, manual.failed, manual.held) == ([given[0]], [given[1]], [given[2]])


def test_an_emit_after_its_ack_is_an_error() -> None:
    class Late(Bolt):
        outputs = ["word"]

        def process(self, tup: Tuple) -> None:
            self.ack(tup)
            self.emit(["late"], anchors=[tup])

    late = bolt_of(Late)
    late.give(["a"])
    assert isinstance(late.errors[0].error, EmitError)
    assert "emit first, then ack" in str(late.errors[0].error)


def test_the_object_is_created_again_after_an_exception() -> None:
    class Counting(Bolt):
        outputs = ["count"]
        starts = 0

        def initialize(self, storm_conf: Any, context: Any) -> None:
            type(self).starts += 1
            self.count = 0

        def process(self, tup: Tuple) -> None:
            self.count += 1
            if tup.values[0] == "bad":
                raise ValueError
            self.emit([self.count])

    class Staying(Counting):
        exit_on_exception = False

    for kind, counts in ((Counting, [[1], [2], [1]]), (Staying, [[1], [2], [4]])):
        kind.starts = 0
        bolt = bolt_of(kind)
        for word in ("a", "a", "bad", "a"):
            bolt.give([word])
        assert bolt.emitted() == counts


def test_fields_have_names_and_a_tuple_its_origin() -> None:
    seen: list[Tuple] = []

    class Keep(Bolt):
        def process(self, tup: Tuple) -> None:
            seen.append(tup)

    keep = bolt_of(Keep, "user id", "class", "word")
    keep.give([1, 2, "a"])
    (tup,) = seen
    assert (tup.values.word, tup.values[0]) == ("a", 1)
    assert (tup.component, tup.stream, tup.task > 0) == ("source", "default", True)
    assert tup == Tuple(tup.id, tup.component, tup.stream, tup.task, tup.values)
    assert (Bolt.is_tick(tup), Bolt.is_heartbeat(tup)) == (False, False)


def test_task_ids_and_direct_streams() -> None:
    class Direct(Bolt):
        outputs = ["word", Stream(["word"], name="direct", direct=True)]

        def process(self, tup: Tuple) -> None:
            tasks = self.emit(["a"], need_task_ids=True)
            assert tasks is not None
            assert self.emit(["a"]) is None
            chosen = self.emit(["b"], stream="direct", direct_task=tasks[0], need_task_ids=True)
            assert chosen == tasks

    direct = bolt_of(Direct)
    direct.give(["x"])
    assert direct.errors == []
    assert direct.emitted("direct") == [["b"]]


def test_another_thread_may_emit() -> None:
    class Threaded(Echo):
        auto_ack = False

        def process(self, tup: Tuple) -> None:
            thread = Thread(target=self.later, args=(tup,))
            thread.start()
            thread.join()

        def later(self, tup: Tuple) -> None:
            assert self.emit([tup.values[0]], anchors=[tup], need_task_ids=True) == []
            self.ack(tup)

    threaded = bolt_of(Threaded)
    message = threaded.give(["a"])
    threaded.settle()
    assert (threaded.emitted(), threaded.acked) == ([["a"]], [message])


class Sizes(BatchingBolt):
    outputs = ["word", "size"]
    config: ClassVar[dict[str, Any]] = {"topology.tick.tuple.freq.secs": 1}

    def group_key(self, tup: Tuple) -> Any:
        return tup.values.word

    def process_batch(self, key: Any, tups: Sequence[Tuple]) -> None:
        if key == "bad":
            raise ValueError("bad batch")
        self.emit([key, len(tups)])


def test_a_batch_waits_for_its_ticks_and_is_the_anchor() -> None:
    sizes = bolt_of(Sizes)
    given = [sizes.give([word]) for word in ("a", "b", "a")]
    sizes.tick()
    assert sizes.emitted() == []
    sizes.tick()
    assert sizes.emitted() == [["a", 2], ["b", 1]]
    assert sizes.anchors() == [[given[0], given[2]], [given[1]]]
    assert sizes.acked == given


def test_a_failing_batch_fails_with_all_others_or_alone() -> None:
    class Alone(Sizes):
        exit_on_exception = False

    for kind, lost in ((Sizes, 4), (Alone, 2)):
        sizes = bolt_of(kind)
        given = [sizes.give([word]) for word in ("bad", "c", "bad", "c")]
        for _ in range(2):
            sizes.tick()
        assert len(sizes.failed) == lost
        assert set(sizes.failed) >= {given[0], given[2]}


def test_batches_without_ticks_are_refused() -> None:
    class Never(Sizes):
        config = {}

    with pytest.raises(TopologyError, match=r"topology\.tick\.tuple\.freq\.secs"):
        bolt_of(Never)


def test_tickless_batches_come_by_time() -> None:
    class Timed(TicklessBatchingBolt):
        outputs = ["size"]
        secs_between_batches = 5

        def process_batch(self, key: Any, tups: Sequence[Tuple]) -> None:
            self.emit([len(tups)])

    timed = bolt_of(Timed)
    given = [timed.give([word]) for word in ("a", "b")]
    timed.tick()
    assert (timed.emitted(), timed.acked) == ([[2]], given)


def test_ticks_reach_process_tick() -> None:
    class Ticking(Bolt):
        outputs = ["tick"]
        config = {"topology.tick.tuple.freq.secs": 2}

        def process(self, tup: Tuple) -> None: ...

        def process_tick(self, tup: Tuple) -> None:
            assert self.is_tick(tup)
            self.emit([tup.values[0]])

    ticking = bolt_of(Ticking)
    ticking.tick()
    assert (ticking.emitted(), ticking.anchors(), ticking.errors) == ([[2]], [[]], [])


def test_settings_and_context_have_storms_names() -> None:
    seen: list[Any] = []

    class Look(Bolt):
        outputs = ["word"]
        config = {"my.limit": 5, "topology.message.timeout.secs": 7}

        def initialize(self, storm_conf: Any, context: Any) -> None:
            seen[:] = [storm_conf, context, self.topology_name, self.component_name, self.task_id]

        def process(self, tup: Tuple) -> None: ...

    bolt_of(Look)
    conf, context, topology, component, task = seen
    assert (conf["my.limit"], conf["topology.message.timeout.secs"]) == (5, 7)
    assert (conf["topology.name"], topology, component) == ("tested", "tested", "bolt")
    assert context["taskid"] == task
    assert context["task->component"][str(task)] == "bolt"
    assert context["source->stream->fields"] == {"source": {"default": ["word"]}}
    assert context["stream->target->grouping"]["default"] == {"consumer": {"type": "SHUFFLE"}}


def test_metrics_are_numbers() -> None:
    class Measure(Bolt):
        def process(self, tup: Tuple) -> None:
            self.report_metric("cache.hits", 3)
            self.report_metric("times", {"p50": 1.5})
            self.report_metric("nonsense", "x")

    measure = bolt_of(Measure)
    measure.give(["a"])
    assert measure.bolt.metrics() == {"cache_hits": 3.0, "times_p50": 1.5}


def test_run_names_the_remedy() -> None:
    with pytest.raises(TopologyError, match="ShellBolt"):
        Echo().run()
