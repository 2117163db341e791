"""Tests of the orders without Kafka: single bolts, and topic to topic while processes die."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from examples.orders.topology import Check, Join, build, orders_config, topology
from kstorm.testing import BoltTester, LocalCluster, simulate
from kstorm.testing.kafka import FakeKafka, KafkaCluster
from kstorm.topology import AT_LEAST_ONCE, EXACTLY_ONCE, Config, Fields, Source, Tuple

TEA = {"name": "tea", "price": "3.20", "count": 2}
ORDER = ("id", "customer", "items", "coupon", "partition", "offset")


def order(
    number: int, *items: dict[str, Any], off: str | None = None, country: str | None = "DE"
) -> str:
    """An order of Ann or Ben, in turn."""
    return json.dumps(
        {
            "id": f"o-{number}",
            "customer": {"name": ("Ann", "Ben")[number % 2], "country": country},
            "items": items or [TEA],
            "coupon": None if off is None else {"code": "TEN", "off": off},
        }
    )


def test_an_order_is_priced(bolt_tester: Callable[..., BoltTester[Any]]) -> None:
    """A coupon lowers the price, but not below zero."""
    check = bolt_tester(Check(), *ORDER)
    buyer = {"name": "Ann", "country": None}
    check.give(
        ["o-1", buyer, [TEA, {"name": "cup", "price": "0.10", "count": 3}], {"off": "1.50"}, 0, 7]
    )
    check.give(["o-2", buyer, [TEA], {"off": "9.99"}, 0, 8])
    assert check.emitted("priced") == [["o-1", "5.20", 0, 7], ["o-2", "0.00", 0, 8]]
    assert check.emitted("buyers") == [["o-1", "Ann", None, 0, 7], ["o-2", "Ann", None, 0, 8]]


@pytest.mark.parametrize(
    ("items", "country", "why"),
    [
        ([], "DE", "has no items"),
        ([{**TEA, "price": "3,20"}], "DE", "'3,20' is no decimal"),
        ([{**TEA, "price": 3.2}], "DE", "3.2 is no decimal"),
        ([{**TEA, "price": "NaN"}], "DE", "'NaN' is no decimal"),
        ([TEA], "XX", "from 'XX', whose rate is not known"),
    ],
)
def test_what_cannot_be_processed_is_refused(
    bolt_tester: Callable[..., BoltTester[Any]], items: list[Any], country: str, why: str
) -> None:
    """The error explains the problem."""
    check = bolt_tester(Check(), *ORDER)
    check.give(["o-1", {"name": "Ann", "country": country}, items, None, 0, 7])
    assert check.emitted("priced") == check.emitted("buyers") == []
    assert why in str(check.errors[0])


class Collector:
    """Records emitted and acked tuples."""

    def __init__(self) -> None:
        self.emitted: list[tuple[Any, Any]] = []
        self.acked: list[Tuple] = []

    def emit(self, values: Any, anchors: Any) -> None:
        self.emitted.append((values, anchors))

    def ack(self, tuple: Tuple) -> None:
        self.acked.append(tuple)


def joined(*halves: Tuple) -> Collector:
    """Run a join on these tuples."""
    bolt, collector = Join(), Collector()
    bolt.prepare(Config(), Any, collector)  # type: ignore[arg-type]
    for half in halves:
        bolt.execute(half)
    return collector


def halves(root: int = 77, edge: int = 1) -> tuple[Tuple, Tuple]:
    """Price and buyer of one order."""
    price = Source("check", "priced", 1, Fields("id", "net", "partition", "offset"))
    buyer = Source("tax", "default", 2, Fields("id", "customer", "rate", "partition", "offset"))
    return (
        Tuple(("o-1", "5.20", 0, 7), price, root=root, edge=edge),
        Tuple(("o-1", "Ann", "0.19", 0, 7), buyer, root=root, edge=edge + 1),
    )


def test_two_halves_are_one_order_anchored_to_both() -> None:
    """The order of the halves does not matter, and a repeated half does not join itself."""
    (price, buyer), (again, _) = halves(), halves(edge=5)
    for some in ([price, buyer], [buyer, price]):
        found = joined(*some)
        assert found.emitted == [(("o-1", "Ann", "6.19", 0, 7), [price, buyer])]
        assert sorted(half.edge for half in found.acked) == [1, 2]
    found = joined(price, again, buyer)
    assert found.emitted == [(("o-1", "Ann", "6.19", 0, 7), [again, buyer])]
    assert found.acked[0] is price


def test_halves_of_two_attempts_are_not_joined() -> None:
    """Halves of the same order are not joined if their attempts differ."""
    assert joined(halves()[0], halves(root=78)[1]).emitted == []


POISON = 4
ORDERS = [
    order(number) if number != POISON else order(number, {**TEA, "price": "?"})
    for number in range(12)
]


def in_topic(kafka: FakeKafka) -> list[dict[str, Any]]:
    """Records of the sink topic."""
    return [json.loads(record.value() or b"") for record in kafka.records("order-totals")]


def expect_each_once(records: list[dict[str, Any]]) -> None:
    """Every order except the poison message is present, and each customer's totals have no gaps."""
    assert sorted(record["id"] for record in records) == sorted(
        f"o-{number}" for number in range(12) if number != POISON
    )
    for customer, many in (("Ann", 5), ("Ben", 6)):
        totals = sorted(
            (record["orders"], Decimal(record["total"]))
            for record in records
            if record["customer"] == customer
        )
        assert totals == [(number, number * Decimal("7.62")) for number in range(1, many + 1)]


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
def test_from_topic_to_topic(local_cluster: Callable[..., LocalCluster], guarantee: str) -> None:
    """Each order is in its customer's total. The poison message is a dead letter, complete."""
    kafka = FakeKafka({"orders": 2, "order-totals": 2})
    for text in ORDERS:
        kafka.produce("orders", text)
    cluster = local_cluster(build(config=orders_config(guarantee)), kafka=kafka)
    cluster.run_until_idle()
    while not cluster.dead_letters:  # after ten more attempts
        cluster.advance_time(2)
        cluster.run_until_idle()
    expect_each_once(in_topic(kafka))
    (letter,) = cluster.dead_letters
    assert letter.topic
    assert f"o-{POISON}".encode() in (letter.value or b"")


@pytest.mark.parametrize("victim", ["orders", "check", "tax", "join", "total", "sink", "acker"])
def test_each_order_counts_once_whoever_dies(
    local_cluster: Callable[..., LocalCluster], victim: str
) -> None:
    """The component crashes twice while it works."""
    kafka = FakeKafka({"orders": 2, "order-totals": 2})
    for text in ORDERS:
        kafka.produce("orders", text)
    cluster = local_cluster(topology(), kafka=kafka)
    for _ in range(2):
        for _ in range(70):
            cluster.step()
        cluster.crash(victim)
    cluster.run_until_idle()
    for _ in range(10):
        cluster.advance_time(2)
        cluster.run_until_idle()
    expect_each_once(in_topic(kafka))
    assert len(cluster.dead_letters) == 1


def test_each_order_counts_once_among_faults() -> None:
    """Faults of all kinds are injected at any step."""

    def each_once(cluster: KafkaCluster) -> None:
        records = in_topic(cluster.kafka)
        assert sorted(record["id"] for record in records) == sorted(
            f"o-{number}" for number in range(12)
        )

    inputs = []
    for number in range(12):
        one = json.loads(order(number))
        inputs.append([one["id"], one["customer"], one["items"], one["coupon"], 0, number])
    simulate(
        topology(),
        {"orders": inputs},
        each_once,
        range(10),
        kafka=lambda: FakeKafka({"order-totals": 2}),
    )
