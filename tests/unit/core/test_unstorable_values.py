"""A tuple with an unstorable value fails alone. Its task continues, and stores the other values."""

from collections.abc import Callable
from typing import Any

import pytest

from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import StatefulBasicBolt
from tests.unit.testing.wordcount import one_bolt


class Keep(StatefulBasicBolt):
    """Stores the number of tuples, and the value of each one."""

    def execute(self, tuple: Any, collector: Any) -> None:
        self.state.put("values", self.state.get("values", 0) + 1)
        self.state.put("last", MAKE[tuple[0]]())


MAKE: dict[str, Callable[[], Any]] = {
    "good": lambda: 1,
    "beyond 64 bits": lambda: 2**64,
    "object": object,
    "16 MB": lambda: bytes(16 << 20),
}


@pytest.mark.parametrize("poison", ["beyond 64 bits", "object", "16 MB"])
def test_a_tuple_whose_value_cannot_be_stored_fails_alone(poison: str) -> None:
    """After a crash, the state has the good tuples, and only the storable puts of the bad one."""
    feeder = FeederSpout("what")
    with LocalCluster(one_bolt(feeder, Keep())) as cluster:
        for number, what in enumerate(["good", poison, "good"]):
            feeder.feed([what], number)
        cluster.run_until_idle()
        assert (cluster.acked("feeder"), cluster.failed("feeder")) == ([0, 2], [1])
        (error,) = cluster.errors
        assert "'last'" in str(error)
        cluster.crash("bolt")
        cluster.run_until_idle()
        bolt: Any = cluster.instance("bolt")
        assert (bolt.state.get("values"), bolt.state.get("last")) == (3, 1)
