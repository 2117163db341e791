"""Sessions: the tuples of a key between two gaps, as in Flink and Kafka Streams."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.errors import TopologyError
from kstorm.kafka import KafkaBolt
from kstorm.testing import BoltTester, FeederSpout, LocalCluster, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Config, Fields, OutputFieldsDeclarer, Topology, TopologyBuilder
from kstorm.topology.context import CLOCK
from kstorm.trident import Sessions, Sum, Window
from kstorm.trident.step_factories import aggregate_step
from kstorm.trident.windows import CombiningBolt, window_bolt
from kstorm.windows import Duration, TupleWindow, WindowedBolt, executor, panes

Given = tuple[str, int]
"""A user and a time."""


class Visits(WindowedBolt):
    """Emits the user, the start, the end and the numbers of each session."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares the session's fields."""
        declarer.declare("user", "start", "end", "numbers")

    def execute(self, window: TupleWindow) -> None:
        assert window.new == window.tuples
        assert list(window.expired) == []
        (user,) = window.key
        assert all(tuple["user"] == user for tuple in window)
        numbers = [tuple["n"] for tuple in window]
        self.collector.emit([user, window.start_timestamp, window.end_timestamp, numbers])


def visits(gap: int = 10) -> WindowedBolt:
    """Builds sessions by the field `at`."""
    return Visits().with_session_window(Duration(gap), "user").with_timestamp_field("at")


class Run:
    """Runs a bolt of sessions with a fake clock."""

    def __init__(self, bolt: WindowedBolt) -> None:
        self.now = 1.0
        self.tester = BoltTester(bolt, "user", "n", "at", resources={CLOCK: lambda: self.now})

    def give(self, *times: int, user: str = "ann") -> None:
        """Gives tuples whose number is their time."""
        for time in times:
            self.tester.give([user, time, time])

    def watermark(self, at: int) -> None:
        """Moves the watermark to `at` by a tuple of another user."""
        self.give(at, user="~")
        self.tester.tick()

    def shown(self, user: str = "ann") -> list[list[Any]]:
        """Returns a user's sessions, in order of their output."""
        return [rest for who, *rest in self.tester.emitted() if who == user]


def test_a_gap_ends_a_session() -> None:
    """Its times are those of its first and last tuple."""
    run = Run(visits())
    run.give(1, 8, 15, 40)
    run.watermark(100)
    assert run.shown() == [[1, 15, [1, 8, 15]], [40, 40, [40]]]


def test_tuples_just_the_gap_apart_are_of_one_session() -> None:
    """Flink merges windows that touch, and Kafka Streams includes the gap."""
    run = Run(visits())
    run.give(10, 20, 31)
    run.watermark(100)
    assert run.shown() == [[10, 20, [10, 20]], [31, 31, [31]]]


def test_session_is_shown_once_it_is_complete() -> None:
    """At the previous watermark, a tuple exactly one gap later was still possible."""
    run = Run(visits())
    run.give(10)
    run.watermark(19)
    assert run.shown() == []
    run.give(20)
    run.watermark(29)
    assert run.shown() == []
    run.watermark(30)
    assert run.shown() == [[10, 20, [10, 20]]]


def test_out_of_order_tuple_merges_two_sessions() -> None:
    """The tuples are in the order of their times. A tuple may be as late as the lag."""
    run = Run(visits().with_lag(Duration(50)))
    run.give(30, 33, 10, 12)
    run.watermark(60)
    assert run.shown() == []
    run.give(21)
    run.watermark(200)
    assert run.shown() == [[10, 33, [10, 12, 21, 30, 33]]]


def test_out_of_order_tuple_extends_a_session_backwards() -> None:
    run = Run(visits().with_lag(Duration(50)))
    run.give(30, 25)
    run.watermark(200)
    assert run.shown() == [[25, 30, [25, 30]]]


def test_a_late_tuple_is_late_though_a_session_is_open() -> None:
    """In Flink it would join the session. Here a late tuple is late for all windows.

    So the sessions do not depend on which of them are open.
    """
    run = Run(visits().with_late_tuple_stream("late"))
    run.give(15)
    run.watermark(14)
    run.give(14, 16)
    run.watermark(100)
    assert run.shown() == [[15, 16, [15, 16]]]
    assert [late["values"]["at"] for (late,) in run.tester.emitted("late")] == [14]


def test_sessions_of_a_key_are_ordered_by_time() -> None:
    run = Run(visits())
    run.give(40, 1)
    run.give(4, user="bob")
    run.watermark(100)
    assert run.shown() == [[1, 1, [1]], [40, 40, [40]]]
    assert run.shown("bob") == [[4, 4, [4]]]
    assert len(run.tester.acked) == 4


def test_session_lasts_while_tuples_arrive() -> None:
    """A bot's session lasts a thousand gaps. Each watermark reads it again, and nothing else."""
    run = Run(visits())
    for time in range(0, 10_000, 10):
        run.give(time)
        run.tester.tick()
    assert run.shown() == []
    run.watermark(20_000)
    assert [(first, last, len(numbers)) for first, last, numbers in run.shown()] == [
        (0, 9990, 1000)
    ]


def test_by_the_clock() -> None:
    """Ticks come at least once per gap. A clock that goes back adds nothing to a shown session."""
    run = Run(Visits().with_session_window(Duration.seconds(5), "user"))
    run.give(1)
    run.now = 6.0
    run.give(2)
    run.tester.tick()
    run.now = 11.0
    run.tester.tick()
    assert run.shown() == [[1000, 6000, [1, 2]]]
    run.now = 7.0
    run.give(3)
    run.tester.tick()
    run.now = 30.0
    run.tester.tick()
    assert run.shown()[1:] == [[11_001, 11_001, [3]]]
    assert Visits().with_session_window(Duration(100), "user").window_settings.tick_secs == 0.1


def test_keys_of_several_fields_or_without_fields() -> None:
    """Their texts may be anything."""

    class Keys(Visits):
        def execute(self, window: TupleWindow) -> None:
            self.collector.emit([list(window.key), 0, 0, len(window)])

    several = Run(
        Keys().with_session_window(Duration(10), ["user", "n"]).with_timestamp_field("at")
    )
    for user, number in [("a", 1), ("a\x00", 1), ("a", "1"), ("", None), ("a", 1)]:
        several.tester.give([user, number, 5])
    several.watermark(100)
    assert Counter((str(key), count) for key, _, _, count in several.tester.emitted()) == {
        ("['a', 1]", 2): 1,
        ("['a\\x00', 1]", 1): 1,
        ("['a', '1']", 1): 1,
        ("['', None]", 1): 1,
    }
    one = Run(Keys().with_session_window(Duration(10), ()).with_timestamp_field("at"))
    one.give(1)
    one.give(5, user="bob")
    one.watermark(100)
    assert one.tester.emitted()[0] == [[], 0, 0, 2]


def test_an_input_without_the_key_is_refused() -> None:
    """The error comes when the topology is built, and not with every tuple."""
    with pytest.raises(TopologyError) as raised:
        Run(Visits().with_session_window(Duration(10), "who").with_timestamp_field("at"))
    assert str(raised.value) == (
        "bolt 'bolt': the key of its sessions has the field 'who', but the stream 'default' of "
        "'source' has user, n, at: add the field there, or name another one in with_session_window"
    )


def test_shown_sessions_are_removed_from_the_state() -> None:
    """Only the bolt's position stays."""
    run = Run(visits())
    run.give(1, 30, 8, 5)
    run.watermark(100)
    run.watermark(300)
    run.tester.checkpoint()
    left = [key.decode() for key in run.tester._stored if b"~" not in key]
    assert left == ["w/meta"]


class Once(Visits):
    """Raises on the first look at the second session."""

    looks = 0

    def execute(self, window: TupleWindow) -> None:
        """Emits first."""
        super().execute(window)
        self.looks += 1
        if self.looks == 2:
            raise ValueError("once")


def test_a_session_on_which_the_bolt_raises_is_shown_again() -> None:
    run = Run(Once().with_session_window(Duration(10), "user").with_timestamp_field("at"))
    run.give(1, 30)
    run.watermark(100)
    run.watermark(101)
    assert run.shown()[-1] == [30, 30, [30]]
    assert [first for first, *_ in run.shown()].count(1) == 1, "the one before was done"
    assert len(run.tester.errors) == 1


def by_definition(tuples: Sequence[Given], gap: int) -> dict[str, list[list[int]]]:
    """Returns the times of each user's sessions."""
    found: dict[str, list[list[int]]] = {}
    for user, time in sorted(tuples):
        sessions = found.setdefault(user, [])
        if sessions and time - sessions[-1][-1] <= gap:
            sessions[-1].append(time)
        else:
            sessions.append([time])
    return found


ROUNDS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-20, 90)), max_size=8), max_size=7
)


@given(ROUNDS, st.integers(1, 20), st.integers(0, 40), st.booleans())
def test_sessions_match_their_definition(
    rounds: list[list[Given]], gap: int, lag: int, checkpoints: bool
) -> None:
    """Each complete session of tuples that are not late is shown once and whole, in any order of input.

    Sums of sessions are the sums of the same tuples.
    """
    bolt = visits(gap)
    run = Run(bolt.with_lag(Duration(lag)) if lag else bolt)
    window = Sessions(Duration(gap)).with_timestamp_field("at")
    _, step = aggregate_step(
        Sum(), Fields("user"), Fields("n"), Fields("sum"), Fields("user", "n", "at")
    )
    sums = window_bolt(
        window.with_lag(Duration(lag)) if lag else window, step, Fields("user", "sum")
    )
    assert type(sums) is CombiningBolt
    summed = BoltTester(sums, "user", "n", "at")
    kept: list[Given] = []
    watermark = latest = -1000
    for tuples in rounds:
        for user, time in tuples:
            run.give(time, user=user)
            summed.give([user, time, time])
            if time > watermark:
                kept.append((user, time))
                latest = max(latest, time)
        run.tester.tick()
        summed.tick()
        if checkpoints:
            run.tester.checkpoint()
            summed.checkpoint()
        watermark = max(watermark, latest - lag)
    for user, sessions in by_definition(kept, gap).items():
        complete = [each for each in sessions if each[-1] + gap <= watermark]
        assert run.shown(user) == [[each[0], each[-1], each] for each in complete]
        assert [total for who, total in summed.emitted() if who == user] == [
            sum(each) for each in complete
        ]


INPUT: list[list[Any]] = [["abc"[number % 3], number, (number * 37) % 400] for number in range(60)]
CLOSING = [[key, -1, 5000] for key in "abc"]
GAP = 12


def judged(found: Counter[Any], expected: Counter[Any]) -> None:
    """Checks that each session is there once and whole."""
    assert found == expected


def test_sessions_survive_crashes() -> None:
    """Exactly-once processing emits each session once and whole, despite kills, moves and refusals."""

    class Written(Visits):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            declarer.declare("key", "message")

        def execute(self, window: TupleWindow) -> None:
            """Emits its tuples."""
            self.collector.emit(
                [window.key[0], json.dumps([window.key[0], [tuple["at"] for tuple in window]])]
            )

    def build() -> Topology:
        builder = TopologyBuilder("sessions", Config(topology_processing_guarantee="exactly_once"))
        builder.set_spout("in", FeederSpout("user", "n", "at"))
        bolt = (
            Written()
            .with_session_window(Duration(GAP), "user")
            .with_timestamp_field("at")
            .with_lag(Duration(1000))
        )
        builder.set_bolt("visits", bolt, 2).set_num_tasks(2).fields_grouping("in", Fields("user"))
        builder.set_bolt("sink", KafkaBolt().with_topic_selector("visits")).shuffle_grouping(
            "visits"
        )
        return builder.build()

    expected = Counter(
        json.dumps([user, times])
        for user, sessions in by_definition([(user, at) for user, _, at in INPUT], GAP).items()
        for times in sessions
    )

    def judge(cluster: KafkaCluster) -> None:
        cluster.advance_time(10)
        cluster.checkpoint()
        records = cluster.kafka.records("visits")
        judged(Counter((record.value() or b"").decode() for record in records), expected)

    report = simulate(
        build(),
        {"in": [*INPUT, *CLOSING]},
        judge,
        range(10),
        kafka=lambda: FakeKafka({"visits": 1}),
    )
    assert sum(report.in_flight.values()) > 50


def test_last_call_selects_the_windows() -> None:
    """The call selects sessions or other windows."""
    bolt = Visits().with_session_window(Duration(5), "user").with_tumbling_window(Duration(10))
    assert bolt.window_settings.gap is None
    settings = bolt.with_session_window(Duration(5), "user").window_settings
    assert (settings.length, settings.slide, settings.key) == (None, None, Fields("user"))


@pytest.mark.parametrize("at_once", [1, 3, 50])
def test_very_many_sessions_are_shown_a_part_at_a_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick and tuple shows a part, which limits the changes in memory.

    Every session is shown once.
    """
    monkeypatch.setattr(executor, "AT_ONCE", at_once)
    run = Run(visits())
    for number in range(20):
        run.give(number % 5, user=f"u{number}")
    run.watermark(100)
    assert len(run.tester.emitted()) == min(20, at_once)
    run.give(101)
    assert len(run.tester.emitted()) == min(20, 2 * at_once)
    for _ in range(20):
        run.tester.tick()
    assert Counter(user for user, *_ in run.tester.emitted()) == Counter(
        f"u{number}" for number in range(20)
    )


@pytest.mark.parametrize(("piece", "at_once"), [(1, 1), (3, 7), (5000, 50_000)])
def test_a_window_of_very_many_sums_is_shown_a_part_at_a_time(
    piece: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tuples that arrive meanwhile, with a clock that went back, belong to the next window."""
    monkeypatch.setattr(executor, "AT_ONCE", at_once)
    monkeypatch.setattr(panes, "PIECE", piece)
    _, step = aggregate_step(
        Sum(), Fields("user"), Fields("n"), Fields("sum"), Fields("user", "n", "at")
    )
    now = 1.0
    bolt = window_bolt(Window(Duration.seconds(10)), step, Fields("user", "sum"))
    tester = BoltTester(bolt, "user", "n", "at", resources={CLOCK: lambda: now})
    tester.tick()
    for number in range(20):
        tester.give([f"u{number:02d}", 1, 0])
    now = 10.0
    tester.tick()
    assert 0 < len(tester.emitted()) <= max(piece, at_once) + piece
    now = 9.0
    tester.give(["u00", 5, 0])
    now = 10.0
    for _ in range(30):
        tester.tick()
    assert tester.emitted() == [[f"u{number:02d}", 1] for number in range(20)]
    now = 20.0
    tester.tick()
    assert tester.emitted()[20:] == [["u00", 5]]


def test_rest_is_shown_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watermark does not advance any more."""
    monkeypatch.setattr(executor, "AT_ONCE", 2)
    builder = TopologyBuilder("sessions", Config(topology_processing_guarantee="exactly_once"))
    builder.set_spout("in", FeederSpout("user", "n", "at"))
    builder.set_bolt("visits", visits()).fields_grouping("in", Fields("user"))
    with LocalCluster(builder.build()) as cluster:
        spout: Any = cluster.topology.component("in").component
        for user in "abcdefg":
            spout.feed([user, 1, 1])
        spout.feed(["~", 1, 100])
        cluster.run_until_idle()
        cluster.advance_time(1)
        cluster.checkpoint()
        assert 2 <= len(cluster.emitted("visits")) < 7
        cluster.crash("visits")
        cluster.advance_time(10)
        cluster.checkpoint()
        assert sorted(user for user, *_ in cluster.emitted("visits")) == list("abcdefg")
