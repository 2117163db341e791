"""Sessions of a stream's groups. With a combiner, they store a value instead of tuples."""

import json
from collections import Counter
from typing import Any

import pytest

from kstorm.testing import BoltTester, FeederSpout, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import Fields, Topology
from kstorm.trident import Count as CountOf
from kstorm.trident import First, Sessions, Sum, TridentTopology
from kstorm.trident.step_factories import aggregate_step
from kstorm.trident.windows import window_bolt
from kstorm.windows import Duration
from tests.unit.windows.test_sessions import CLOSING, GAP, INPUT, by_definition, judged


def test_sums_of_sessions_survive_what_dies() -> None:
    """In a stream, two sums may be merged into one."""

    def build() -> Topology:
        topology = TridentTopology("sums")
        window = Sessions(Duration(GAP)).with_timestamp_field("at").with_lag(Duration(1000))
        stream = topology.new_stream("in", FeederSpout("user", "n", "at")).group_by("user")
        stream.window(window, "n", Sum(), "sum").parallelism_hint(2).to_kafka("sums")
        return topology.build()

    numbers = {(user, at): number for user, number, at in INPUT}
    expected = Counter(
        (user, sum(numbers[user, at] for at in times))
        for user, sessions in by_definition(list(numbers), GAP).items()
        for times in sessions
    )

    def judge(cluster: KafkaCluster) -> None:
        cluster.advance_time(10)
        cluster.checkpoint()
        records = [json.loads(record.value() or b"") for record in cluster.kafka.records("sums")]
        judged(Counter((record["user"], record["sum"]) for record in records), expected)

    simulate(
        build(), {"in": [*INPUT, *CLOSING]}, judge, range(8), kafka=lambda: FakeKafka({"sums": 1})
    )


@pytest.mark.parametrize(("aggregator", "expected"), [(CountOf(), [3, 1]), (First(), [1, 40])])
def test_a_stream_keeps_a_value_of_a_session_and_no_tuple(
    aggregator: Any, expected: list[int]
) -> None:
    """The number of tuples does not matter."""
    window = Sessions(Duration(10)).with_timestamp_field("at")
    _, step = aggregate_step(
        aggregator, Fields("user"), Fields("n"), Fields("x"), Fields("user", "n", "at")
    )
    tester = BoltTester(window_bolt(window, step, Fields("user", "x")), "user", "n", "at")
    for time in (1, 8, 15, 40):
        tester.give(["ann", time, time])
    tester.checkpoint()
    assert [key for key in tester._stored if key.startswith(b"w/t")] == []
    tester.give(["bob", 0, 1000])
    tester.tick()
    assert tester.emitted() == [["ann", value] for value in expected]


def test_other_aggregators_have_the_tuples_of_each_session_of_each_group() -> None:
    """The test uses a reducer."""
    from kstorm.trident import ReducerAggregator

    class Last(ReducerAggregator):
        def init(self) -> Any:
            """Starts without a value."""

        def reduce(self, current: Any, tuple: Any) -> Any:
            return tuple[0]

    window = Sessions(Duration(10)).with_timestamp_field("at")
    _, step = aggregate_step(
        Last(), Fields("user"), Fields("n"), Fields("x"), Fields("user", "n", "at")
    )
    tester = BoltTester(window_bolt(window, step, Fields("user", "x")), "user", "n", "at")
    for user, time in [("ann", 1), ("bob", 3), ("ann", 9), ("ann", 100), ("bob", 500)]:
        tester.give([user, time, time])
    tester.tick()
    assert sorted(tester.emitted()) == [["ann", 9], ["ann", 100], ["bob", 3]]


def test_plan_shows_the_sessions() -> None:
    topology = TridentTopology("t")
    stream = topology.new_stream("in", FeederSpout("user", "at")).group_by("user")
    stream.window(Sessions(Duration.minutes(5)).with_timestamp_field("at"), CountOf(), "n")
    assert "window(sessions 300 s apart, Count → n)" in topology.describe()
