"""Tests that payments delivered more than once count once, even if processes die."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from examples.payments import Payment, bridge, topology
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka

PAYMENTS = [
    Payment(f"p{number}", "ann" if number % 3 else "bob", 10 + number) for number in range(12)
]


@pytest.mark.parametrize("kstorm_seed", range(3))
@pytest.mark.parametrize("victim", ["payments", "read", "distinct", "total", "sink"])
def test_totals_are_exact_whatever_comes_twice_and_whoever_dies(
    local_cluster: Callable[..., LocalCluster], victim: str, kstorm_seed: int
) -> None:
    """Crashes a component at a step that depends on the seed."""
    kafka = FakeKafka({"payments": 2, "totals": 1})
    for payment in [*PAYMENTS, *PAYMENTS[:7], *PAYMENTS[5:]]:
        kafka.produce("payments", msgspec.json.encode(payment))
    cluster = local_cluster(topology(), kafka=kafka)
    for _ in range(60 + 50 * kstorm_seed):
        cluster.step()
    cluster.crash(victim)
    cluster.run_until_idle()
    cluster.advance_time(60)
    last: dict[Any, int] = {}
    for record in kafka.records("totals"):
        last[record.key()] = max(int(record.value() or b"0"), last.get(record.key(), 0))
    assert len(kafka.records("totals")) == len(PAYMENTS)
    assert last == {
        name.encode(): sum(payment.cents for payment in PAYMENTS if payment.customer == name)
        for name in ("ann", "bob")
    }


def test_the_bridge_is_built() -> None:
    """The bridge is at least once, because a queue has no position."""
    assert not bridge().config.exactly_once
