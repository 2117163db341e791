"""Storm's page on joins and its starter's `JoinBoltExample`, in order.

docs/guides/windows.md lists the differences.
"""

from typing import Any

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import BoltTester, FeederSpout, LocalCluster
from kstorm.topology import TopologyBuilder
from kstorm.windows import Count, Duration, JoinBolt
from tests.unit.windows.test_join import joined

INPUTS: dict[Any, list[str]] = {
    "spout1": ["key1", "key2"],
    "spout2": ["userId"],
    "spout3": ["key3"],
    "spout4": ["key4"],
}


def test_the_join_of_four() -> None:
    """Each source is joined by one field with the previous one, the last by a left join.

    The output fields are selected by name, one of them by its source.
    """
    join = (
        JoinBolt("spout1", "key1")
        .join("spout2", "userId", "spout1")
        .join("spout3", "key3", "spout2")
        .left_join("spout4", "key4", "spout3")
        .select("userId, key4, key2, spout3:key3")
        .with_tumbling_window(Duration.minutes(10))
    )
    builder = TopologyBuilder("t")
    for source, fields in INPUTS.items():
        builder.set_spout(source, FeederSpout(*fields))
    bolt = builder.set_bolt("joiner", join, 1)
    for source, fields in INPUTS.items():
        bolt.fields_grouping(source, fields[0])
    rows: dict[str, list[list[Any]]] = {
        "spout1": [[1, "a"], [2, "b"], [3, "c"]],
        "spout2": [[1], [2], [9]],
        "spout3": [[1], [2], [3]],
        "spout4": [[2], [3]],
    }
    with LocalCluster(builder.build()) as cluster:
        for source, values in rows.items():
            spout: Any = cluster.topology.component(source).component
            for row in values:
                spout.feed(row)
        cluster.run_until_idle()
        assert cluster.emitted("joiner") == []
        cluster.advance_time(601)
        assert sorted(cluster.emitted("joiner")) == [[1, None, "a", 1], [2, 2, "b", 2]]


def test_equal_field_names_are_selected_by_source() -> None:
    """Fields within maps are selected with dots."""
    tester = BoltTester(
        JoinBolt("a", "id")
        .join("b", "id", "a")
        .select("a:x, b:x, b:outer.inner.innermost")
        .with_tumbling_window(Count(2)),
        inputs={"a": ["id", "x"], "b": ["id", "x", "outer"]},
    )
    tester.give([1, "of a"], "a")
    tester.give([1, "of b", {"inner": {"innermost": 5}}], "b")
    assert tester.emitted() == [["of a", "of b", 5]]


def test_a_join_field_within_a_map() -> None:
    """A nested field may be a join field without its source."""
    tester = BoltTester(
        JoinBolt("a", "user.id")
        .join("b", "who.id", "a")
        .select("x, y")
        .with_tumbling_window(Count(3)),
        inputs={"a": ["user", "x"], "b": ["who", "y"]},
    )
    tester.give([{"id": 1}, "x1"], "a")
    tester.give([{"id": 2}, "y2"], "b")
    tester.give([{"id": 1}, "y1"], "b")
    assert tester.emitted() == [["x1", "y1"]]


def test_a_join_with_a_source_that_comes_later_is_refused() -> None:
    with pytest.raises(TopologyError, match="has not joined 'spout3'"):
        JoinBolt("spout1", "key1").join("spout2", "userId", "spout3").join(
            "spout3", "key3", "spout1"
        )


def test_joins_are_made_in_the_given_order() -> None:
    """A left join does not restore rows that an inner join has dropped."""
    tuples: list[tuple[str, list[Any]]] = [("orders", [1, "ann"]), ("people", ["zoe", {}])]
    join = (
        JoinBolt("orders", "id")
        .join("payments", "order", "orders")
        .left_join("people", "name", "orders", "who")
    )
    found = joined(join.select("id"), *tuples)
    assert found == []


def test_a_join_by_named_streams_of_several_bolts() -> None:
    """One stream of three bolts is one side. Other streams of the bolts are ignored."""
    inputs: dict[Any, list[str]] = {
        ("bolt1", "stream1"): ["key1", "x"],
        ("bolt2", "stream1"): ["key1", "x"],
        ("bolt3", "stream2"): ["userId", "y"],
        ("bolt4", "stream1"): ["key1", "x"],
    }
    join = (
        JoinBolt("stream1", "key1", by_stream=True)
        .join("stream2", "userId", "stream1")
        .select("userId, key1, x, y")
    )
    tester = BoltTester(join.with_tumbling_window(Count(4)), inputs=inputs)
    for bolt in ("bolt1", "bolt2", "bolt4"):
        tester.give([7, bolt], (bolt, "stream1"))
    tester.give([7, "y"], ("bolt3", "stream2"))
    assert sorted(tester.emitted()) == [[7, 7, bolt, "y"] for bolt in ("bolt1", "bolt2", "bolt4")]


def test_a_sliding_window_joins_what_stays_in_it_again() -> None:
    """This is the second of the tips."""
    join = (
        JoinBolt("a", "id")
        .join("b", "id", "a")
        .select("a:id")
        .with_window(Duration(20), Duration(10))
    )
    tester = BoltTester(
        join.with_timestamp_field("at"), inputs={"a": ["id", "at"], "b": ["id", "at"]}
    )
    tester.give([1, 5], "a")
    tester.give([1, 6], "b")
    tester.give([2, 100], "a")
    tester.give([3, 100], "b")
    tester.tick()
    assert tester.emitted() == [[1], [1]]


def test_a_join_of_m_and_n_gives_m_times_n() -> None:
    """The page's fourth note. The output is unanchored, so there is nothing to ack."""
    join = JoinBolt("a", "id").join("b", "id", "a").select("a:id").with_tumbling_window(Count(7))
    tester = BoltTester(join, inputs={"a": ["id"], "b": ["id"]})
    for _ in range(3):
        tester.give([1], "a")
    for _ in range(4):
        tester.give([1], "b")
    assert tester.emitted() == [[1]] * 12
    assert len(tester.acked) == 7


def test_join_bolt_example() -> None:
    """The ages and genders of ten users arrive in opposite orders.

    The output has the id of each side.
    """
    joiner = (
        JoinBolt("genderSpout", "id")
        .join("ageSpout", "id", "genderSpout")
        .select("genderSpout:id,ageSpout:id,gender,age")
        .with_tumbling_window(Duration.seconds(10))
    )
    builder = TopologyBuilder("join-example")
    builder.set_spout("genderSpout", FeederSpout("id", "gender"))
    builder.set_spout("ageSpout", FeederSpout("id", "age"))
    builder.set_bolt("joiner", joiner, 3).fields_grouping("genderSpout", "id").fields_grouping(
        "ageSpout", "id"
    )
    with LocalCluster(builder.build()) as cluster:
        genders: Any = cluster.topology.component("genderSpout").component
        ages: Any = cluster.topology.component("ageSpout").component
        for id in range(10):
            genders.feed([id, "female" if id % 2 else "male"])
        for id in reversed(range(10)):
            ages.feed([id, id + 20])
        cluster.run_until_idle()
        cluster.advance_time(11)
        found = sorted(cluster.emitted("joiner"))
    assert found == [[id, id, "female" if id % 2 else "male", id + 20] for id in range(10)]
