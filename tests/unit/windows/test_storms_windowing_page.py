"""Storm's page on windows and its starter's window topologies, in order.

docs/guides/windows.md lists the differences.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import BoltTester, FeederSpout, LocalCluster, complete_topology
from kstorm.topology import BasicBolt, Fields, OutputFieldsDeclarer, TopologyBuilder
from kstorm.windows import LATE_TUPLE, Count, Duration, TupleWindow, WindowedBolt
from tests.unit.windows.shown import Run, Shown

S = 1000
"""A second."""


def clock(hours: int, minutes: int, seconds: int) -> int:
    """Returns a time of day in milliseconds."""
    return ((hours * 60 + minutes) * 60 + seconds) * S


def in_time(bolt: WindowedBolt) -> Any:
    """Sets the event time to the field `ts`."""
    return bolt.with_timestamp_field("ts")


def numbered(run: Run, **times: int) -> None:
    """Gives the tuples e1, e2, … as 1, 2, … at these times, and then the watermark."""
    for name, time in times.items():
        run.give(int(name[1:]), at=time)
    run.tick()


# Sliding and tumbling windows.

NINE = {"e1": 1, "e2": 4, "e3": 6, "e4": 7, "e5": 8, "e6": 10, "e7": 11, "e8": 12, "e9": 15}
"""The seconds in the page's drawings.

Two tuples come before the fifth second, four before the tenth, and three before the fifteenth.
"""


def drawn(bolt: WindowedBolt) -> list[list[int]]:
    run = Run(in_time(bolt))
    numbered(run, **{name: second * S for name, second in NINE.items()})
    return [all for all, _, _ in run.shown]


def test_the_sliding_window_of_ten_seconds_every_five() -> None:
    """The first window ends after five seconds, with the tuples until then."""
    windows = drawn(Shown().with_window(Duration.seconds(10), Duration.seconds(5)))
    assert windows == [[1, 2], [1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8, 9]]


def test_the_tumbling_window_of_five_seconds() -> None:
    """The windows do not overlap."""
    windows = drawn(Shown().with_tumbling_window(Duration.seconds(5)))
    assert windows == [[1, 2], [3, 4, 5, 6], [7, 8, 9]]


def test_window_lists_current_new_and_expired_tuples() -> None:
    run = Run(in_time(Shown().with_window(Duration.seconds(10), Duration.seconds(5))))
    numbered(run, **{name: second * S for name, second in NINE.items()})
    assert run.shown[2] == [[3, 4, 5, 6, 7, 8, 9], [7, 8, 9], [1, 2]]


def test_a_bolt_is_prepared_once_and_cleaned_up_once() -> None:
    """These are the three methods of `IWindowedBolt`."""
    calls: list[str] = []

    class Noting(Shown):
        def prepare(self, config: Any, context: Any, collector: Any) -> None:
            """Records the call."""
            calls.append("prepare")
            super().prepare(config, context, collector)

        def execute(self, window: TupleWindow) -> None:
            """Records the call."""
            calls.append("execute")

        def cleanup(self) -> None:
            """Records the call."""
            calls.append("cleanup")

    builder = TopologyBuilder("t")
    builder.set_spout("in", FeederSpout("n"))
    builder.set_bolt("windows", Noting().with_tumbling_window(Count(1))).shuffle_grouping("in")
    complete_topology(builder.build(), {"in": [[1], [2]]})
    assert calls == ["prepare", "execute", "execute", "cleanup"]


CONFIGURATIONS: list[tuple[Callable[[WindowedBolt], WindowedBolt], list[list[int]]]] = [
    (lambda bolt: bolt.with_window(Count(4), Count(2)), [[1, 2], [1, 2, 3, 4], [3, 4, 5, 6]]),
    (lambda bolt: bolt.with_window(Count(2)), [[1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]),
    (lambda bolt: bolt.with_window(Count(2), Duration.seconds(2)), [[1, 2], [3, 4], [5, 6]]),
    (
        lambda bolt: bolt.with_window(Duration.seconds(4), Duration.seconds(2)),
        [[1, 2], [1, 2, 3, 4], [3, 4, 5, 6]],
    ),
    (
        lambda bolt: bolt.with_window(Duration.seconds(2)),
        [[1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]],
    ),
    (lambda bolt: bolt.with_window(Duration.seconds(3), Count(2)), [[1, 2], [2, 3, 4], [4, 5, 6]]),
    (lambda bolt: bolt.with_tumbling_window(Count(2)), [[1, 2], [3, 4], [5, 6]]),
    (lambda bolt: bolt.with_tumbling_window(Duration.seconds(2)), [[1, 2], [3, 4], [5, 6]]),
]
"""The page's eight configurations, and their windows for one tuple per second."""


@pytest.mark.parametrize("way", ["clock", "event time"])
@pytest.mark.parametrize(("configure", "windows"), CONFIGURATIONS)
def test_the_configurations(
    configure: Callable[[WindowedBolt], WindowedBolt], windows: list[list[int]], way: str
) -> None:
    """A tuple comes before the clock's tick of its second. The other way is event time."""
    bolt = configure(Shown())
    run = Run(bolt if way == "clock" else in_time(bolt))
    for second in range(1, 7):
        run.now = float(second)
        run.give(second, at=second * S)
        run.tick()
    assert [all for all, _, _ in run.shown] == windows


# Timestamps, and tuples out of order.


def test_default_time_is_the_arrival() -> None:
    run = Run(Shown().with_tumbling_window(Duration.seconds(10)))
    run.now = 3.0
    run.give(1, at=clock(6, 0, 0))
    run.tick(10.0)
    assert run.spans == [[0, 10 * S]]


def test_an_input_without_the_timestamp_field_is_refused() -> None:
    """Storm rejects each tuple instead."""
    with pytest.raises(TopologyError) as raised:
        Run(Shown().with_tumbling_window(Duration.seconds(10)).with_timestamp_field("when"))
    assert str(raised.value) == (
        "bolt 'bolt': its tuples have their time in the field 'when', but the stream 'default' of "
        "'in' has n, ts: add the field there, name another one, or use with_timestamp_extractor"
    )


def test_an_extractor_for_a_time_within_a_field() -> None:
    def at(tuple: Any) -> int:
        found: int = tuple["ts"]["header"]["at"]
        return found

    run = Run(Shown().with_tumbling_window(Duration.seconds(10)).with_timestamp_extractor(at))
    for number in (1, 2, 11):
        run.tester.give([number, {"header": {"at": number * S}}])
    run.tick()
    assert [all for all, _, _ in run.shown] == [[1, 2]]


def test_the_lag_of_five_seconds() -> None:
    """Tuples are in time until the windows advance.

    Then a tuple older than the latest minus the lag is late.
    """
    bolt = in_time(Shown().with_tumbling_window(Duration.seconds(1))).with_lag(Duration.seconds(5))
    run = Run(bolt.with_late_tuple_stream("late"))
    run.give(1, at=clock(6, 0, 5))
    run.give(2, at=clock(5, 59, 59))
    run.tick()
    run.give(3, at=clock(5, 59, 59))
    run.give(4, at=clock(6, 0, 0) + 1)
    run.give(5, at=clock(6, 0, 6))
    run.tick()
    assert [all for all, _, _ in run.shown] == [[2], [4]]
    assert [late["values"]["n"] for (late,) in run.tester.emitted("late")] == [3]


def test_late_tuples_go_to_a_bolt_elsewhere() -> None:
    """The field LATE_TUPLE has the whole tuple: source, stream, fields and values."""

    class Seen(BasicBolt):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            """Declares the tuple."""
            declarer.declare("seen")

        def execute(self, tuple: Any, collector: Any) -> None:
            """Emits the late tuple."""
            collector.emit([tuple[LATE_TUPLE]])

    builder = TopologyBuilder("t")
    builder.set_spout("in", FeederSpout("n", "ts"))
    bolt = in_time(Shown().with_tumbling_window(Duration(10))).with_late_tuple_stream("late")
    builder.set_bolt("windows", bolt).shuffle_grouping("in")
    builder.set_bolt("late", Seen(), 2).shuffle_grouping("windows", "late")
    with LocalCluster(builder.build()) as cluster:
        spout: Any = cluster.topology.component("in").component
        spout.feed([1, 20])
        cluster.run_until_idle()
        cluster.advance_time(2)
        spout.feed([2, 5])
        cluster.run_until_idle()
        assert cluster.emitted("late") == [
            [{"component": "in", "stream": "default", "values": {"n": 2, "ts": 5}}]
        ]


@pytest.mark.parametrize(
    "configure",
    [
        lambda bolt: bolt.with_late_tuple_stream("late"),
        lambda bolt: bolt.with_lag(Duration(5)),
        lambda bolt: bolt.with_idle_timeout(Duration(5)),
    ],
)
def test_event_time_settings_need_a_timestamp(configure: Any) -> None:
    with pytest.raises(
        TopologyError, match="call with_timestamp_field or with_timestamp_extractor"
    ):
        BoltTester(configure(Shown().with_tumbling_window(Duration(10))), "n", "ts")


# Watermarks.


def test_watermark_interval_defaults_to_a_second() -> None:
    bolt = in_time(Shown().with_tumbling_window(Duration(10)))
    assert bolt.window_settings.tick_secs == 1.0
    assert bolt.with_watermark_interval(Duration(250)).window_settings.tick_secs == 0.25


def test_the_example_of_watermarks() -> None:
    """Windows are 20 s, every 10 s, with a lag of 5 s. The second watermark jumps two hours."""
    bolt = in_time(Shown().with_window(Duration.seconds(20), Duration.seconds(10))).with_lag(
        Duration.seconds(5)
    )
    run = Run(bolt)
    numbered(
        run,
        e1=clock(6, 0, 3),
        e2=clock(6, 0, 5),
        e3=clock(6, 0, 7),
        e4=clock(6, 0, 18),
        e5=clock(6, 0, 26),
        e6=clock(6, 0, 36),
    )
    assert [all for all, _, _ in run.shown] == [[1, 2, 3], [1, 2, 3, 4], [4, 5]]
    assert run.spans == [
        [clock(5, 59, 50), clock(6, 0, 10)],
        [clock(6, 0, 0), clock(6, 0, 20)],
        [clock(6, 0, 10), clock(6, 0, 30)],
    ]
    numbered(run, e7=clock(8, 0, 25), e8=clock(8, 0, 26), e9=clock(8, 0, 27), e10=clock(8, 0, 39))
    assert [all for all, _, _ in run.shown[3:]] == [[5, 6], [6], [7, 8, 9]]
    assert run.spans[3:] == [
        [clock(6, 0, 20), clock(6, 0, 40)],
        [clock(6, 0, 30), clock(6, 0, 50)],
        [clock(8, 0, 10), clock(8, 0, 30)],
    ]


# Guarantees.


def test_tuples_are_done_when_they_are_kept_and_a_window_may_be_longer_than_a_timeout() -> None:
    """Storm holds tuples until they leave the window, and rejects a window longer than the timeout."""
    bolt = Shown().with_tumbling_window(Duration.hours(24))
    run = Run(bolt, topology_message_timeout_secs=1)
    run.give(1, 2)
    assert len(run.tester.acked) == 2
    assert run.tester.held == []


def test_iterating_a_window_reads_lazily() -> None:
    """A window larger than memory can be iterated.

    Only a few pairs are read before the first tuple.
    """
    read = 0

    class Counting(dict[bytes, bytes]):
        def items(self) -> Any:
            """Counts the pairs read."""
            nonlocal read
            for pair in sorted(super().items()):
                read += 1
                yield pair

    class Looking(WindowedBolt):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            """Declares the count of pairs."""
            declarer.declare("read")

        def execute(self, window: TupleWindow) -> None:
            """Reads one tuple."""
            nonlocal read
            read = 0
            next(iter(window))
            self.collector.emit([read])

    run = Run(in_time(Looking().with_tumbling_window(Duration(1000))))
    run.give(*range(1, 1001))
    run.tester.checkpoint()
    tester: Any = run.tester
    tester._state._load_all = lambda start: (
        pair for pair in Counting(tester._stored).items() if pair[0] >= start
    )
    tester._state._make_room()
    run.give(1001)
    run.tick()
    ((seen,),) = run.tester.emitted()
    assert seen < 10


def test_executed_window_cannot_be_read() -> None:
    """A bolt may have stored a window."""
    windows: list[TupleWindow] = []

    class Keeping(Shown):
        def execute(self, window: TupleWindow) -> None:
            """Stores the window and its new tuples."""
            windows.append(window)
            assert len(window.new) == 2

    run = Run(Keeping().with_window(Count(4), Count(2)))
    run.give(1, 2, 3, 4)
    assert [tuple["n"] for tuple in windows[1].new] == [3, 4]
    with pytest.raises(RuntimeError, match="the window has already been executed"):
        _ = windows[1].tuples


def test_a_tuple_is_given_as_a_list_of_values_and_not_by_name_alone() -> None:
    """The methods are `getValue(0)`, `getIntegerByField("value")` and `getFields`."""
    seen: list[Sequence[Any]] = []

    class Looking(Shown):
        def execute(self, window: TupleWindow) -> None:
            """Reads at a position."""
            (tuple,) = window
            seen.append([tuple[0], tuple["n"], list(tuple.fields), tuple.source_component])

    Run(Looking().with_tumbling_window(Count(1))).give(7)
    assert seen == [[7, 7, list(Fields("n", "ts")), "in"]]
