"""Joins within a window, after the examples of Storm's page on joins."""

from typing import Any

import pytest

from kstorm.errors import TopologyError
from kstorm.testing import BoltTester
from kstorm.windows import Count, JoinBolt

INPUTS: dict[Any, list[str]] = {
    "orders": ["id", "who"],
    "payments": ["order", "cents"],
    "people": ["name", "home"],
}


def joined(
    join: JoinBolt, *tuples: tuple[str, list[Any]], stream: str = "default"
) -> list[list[Any]]:
    """Returns the join of one window that has the tuples of the joined streams."""
    inputs = {source: fields for source, fields in INPUTS.items() if source in join._fields}
    given = [each for each in tuples if each[0] in inputs]
    tester = BoltTester(join.with_tumbling_window(Count(len(given))), inputs=inputs)
    for source, values in given:
        tester.give(values, source)
    assert tester.errors == []
    return sorted(tester.emitted(stream), key=repr)


ALL = (
    ("payments", [1, 500]),
    ("orders", [1, "ann"]),
    ("payments", [1, 700]),
    ("orders", [2, "bob"]),
    ("people", ["ann", {"city": "Ulm"}]),
    ("payments", [9, 1]),
)


def test_every_combination_of_equal_fields() -> None:
    join = (
        JoinBolt("orders", "id")
        .join("payments", "order", "orders")
        .select("id, who, payments:cents")
    )
    assert joined(join, *ALL) == [[1, "ann", 500], [1, "ann", 700]]


def test_left_join_keeps_tuples_without_a_partner() -> None:
    join = JoinBolt("orders", "id").left_join("payments", "order", "orders").select("id", "cents")
    assert joined(join, *ALL) == [[1, 500], [1, 700], [2, None]]


def test_three_sources_and_a_field_within_a_map() -> None:
    """The third source is joined by another field of the first."""
    join = JoinBolt("orders", "id").join("payments", "order", "orders")
    join.left_join("people", "name", "orders", prior_field="who").select(
        "cents", "people:home.city", "home.street"
    )
    assert joined(join, *ALL) == [[500, "Ulm", None], [700, "Ulm", None]]


def test_missing_partner_of_a_partner() -> None:
    join = JoinBolt("orders", "id").left_join("payments", "order", "orders")
    join.left_join("people", "name", "payments", prior_field="cents").select("id", "people:name")
    assert joined(join, ("orders", [1, "ann"]), ("people", ["ann", {}])) == [[1, None]]


def test_one_is_not_true_and_maps_can_be_keys() -> None:
    join = JoinBolt("orders", "id").join("payments", "order", "orders").select("who", "cents")
    found = joined(
        join,
        ("orders", [1, "a"]),
        ("payments", [True, 5]),
        ("orders", [{"x": 1}, "b"]),
        ("payments", [{"x": 1}, 6]),
    )
    assert found == [["b", 6]]


@pytest.mark.parametrize("left", [False, True])
def test_none_is_equal_to_nothing(left: bool) -> None:
    """None matches nothing, as in SQL and in Storm. NaN matches itself."""
    join = JoinBolt("orders", "id")
    (join.left_join if left else join.join)("payments", "order", "orders").select("who", "cents")
    found = joined(
        join,
        ("orders", [None, "a"]),
        ("payments", [None, 5]),
        ("orders", [float("nan"), "b"]),
        ("payments", [float("nan"), 6]),
    )
    assert found == ([["a", None]] if left else []) + [["b", 6]]


def test_equal_numbers_are_joined() -> None:
    """Numbers are compared as in Python and SQL. Values that only look the same do not match."""
    join = JoinBolt("orders", "id").join("payments", "order", "orders").select("who", "cents")
    found = joined(
        join,
        ("orders", [1, "a"]),
        ("payments", [1.0, 5]),
        ("orders", ["YWJj", "b"]),
        ("payments", [b"abc", 6]),
        ("orders", [0.0, "c"]),
        ("payments", [-0.0, 7]),
        ("orders", [{"x": [1, 2.0], "y": 2}, "d"]),
        ("payments", [{"y": 2, "x": (1.0, 2)}, 8]),
    )
    assert found == [["a", 5], ["c", 7], ["d", 8]]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: JoinBolt("orders", "id").select("id"),
            "receives the component 'payments', which it does not join",
        ),
        (
            lambda: (
                JoinBolt("orders", "id")
                .join("payments", "order", "orders")
                .join("people", "name", "orders")
                .select("id")
            ),
            "joins the component 'people', which it does not receive",
        ),
        (
            lambda: JoinBolt("orders", "id").join("payments", "id", "orders").select("id"),
            "joins by the field 'id' of the component 'payments', whose stream 'default' has order",
        ),
        (
            lambda: (
                JoinBolt("orders", "id").join("payments", "order", "orders", "x.y").select("id")
            ),
            "joins by the field 'x.y' of the component 'orders'",
        ),
    ],
)
def test_inputs_are_the_joined_sources(make: Any, said: str) -> None:
    """Otherwise tuples of another source would be dropped. Storm raises when they arrive."""
    inputs: dict[Any, list[str]] = {"orders": ["id", "who"], "payments": ["order", "cents"]}
    with pytest.raises(TopologyError, match=said):
        BoltTester(make().with_tumbling_window(Count(1)), inputs=inputs)


def test_a_stream_to_emit_on() -> None:
    join = (
        JoinBolt("orders", "id")
        .join("payments", "order", "orders")
        .select("id")
        .with_output_stream("both")
    )
    assert joined(join, *ALL, stream="both") == [[1], [1]]


def test_by_streams() -> None:
    inputs: dict[Any, list[str]] = {("in", "left"): ["k"], ("in", "right"): ["k"]}
    join = JoinBolt("left", "k", by_stream=True).join("right", "k", "left").select("left:k")
    tester = BoltTester(join.with_tumbling_window(Count(2)), inputs=inputs)
    tester.give([1], ("in", "left"))
    tester.give([1], ("in", "right"))
    assert tester.emitted() == [[1]]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: JoinBolt("a", "x").join("b", "y", "c"), "has not joined 'c': so far it has a"),
        (lambda: JoinBolt("a", "x").join("b", "y", "a").join("b", "y", "a"), "joins 'b' twice"),
        (lambda: JoinBolt("orders", "id"), "has no fields: call select"),
        (lambda: JoinBolt("orders", "id").select("people:name"), "has not joined 'people'"),
    ],
)
def test_invalid_join_is_refused(make: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        joined(make(), ("orders", [1, "ann"]))
