"""Approximate counts of distinct values, with the real library."""

import random
import sys

import pytest

from kstorm.errors import ConfigError
from kstorm.testing import FeederSpout, complete_topology, simulate
from kstorm.testing.kafka import KafkaCluster
from kstorm.topology import Topology
from kstorm.trident import ApproximateDistinct, TridentTopology, kstorm_state
from tests.unit.trident.streams import Rows, last_by_key, of_partition


@pytest.mark.parametrize(("precision", "error"), [(12, 0.05), (9, 0.14)])
def test_the_estimate_is_near(precision: int, error: float) -> None:
    """It is within three standard errors.

    Each value occurs ten times, in one batch or in combined parts.
    """
    count = ApproximateDistinct(precision)
    rows = [(number,) for number in range(20_000)] * 10
    random.Random(7).shuffle(rows)
    parts = [
        count.fold_columns(
            [()] * 5_000, list(zip(*rows[start : start + 5_000], strict=True)), list
        )[()]
        for start in range(0, 200_000, 5_000)
    ]
    whole = count.fold([()] * len(parts), parts)[()]
    for found in (whole, count.combine(whole, parts[0]), count.combine(count.zero(), whole)):
        assert abs(count.result(found) / 20_000 - 1) < error
        assert len(found) < 2 ** (precision - 1) + 200


def test_few_are_counted_as_they_are() -> None:
    """This holds for one or more fields and for any kind of value. Without values, the count is 0."""
    rows: Rows = [["a", 1], ["a", "1"], ["a", 1], ["b", None], ["b", 1.5]]
    for by in (["x", "y"], ["y"]):
        found = of_partition(
            lambda s, by=by: s.partition_aggregate(by, ApproximateDistinct(), "n"),  # type: ignore[misc]
            ["x", "y"],
            rows,
        )
        assert found == [[4]]
    count = ApproximateDistinct()
    assert count.result(count.zero()) == 0


def visitors() -> Topology:
    """Builds a topology that counts the visitors of each page."""
    topology = TridentTopology("visitors")
    visits = (
        topology.new_stream("visits", FeederSpout("page", "visitor"))
        .map(lambda *row: row)
        .name("visited")
    )
    visitors = visits.group_by("page").persistent_aggregate(
        kstorm_state(), "visitor", ApproximateDistinct(), "visitors"
    )
    visitors.name("count").parallelism_hint(2)
    return topology.build()


def test_a_state_keeps_sketches_and_shows_numbers() -> None:
    """Partial sketches are combined upstream and with the stored one.

    A crash does not change a count.
    """
    rows = [[page, f"visitor {number % 7}"] for page in "ab" for number in range(14)]

    def exact(cluster: KafkaCluster) -> None:
        found = last_by_key(sorted(cluster.emitted("count")))
        assert found == {"a": 7, "b": 7}

    assert last_by_key(
        sorted(complete_topology(visitors(), {"visits": rows}).emitted("count"))
    ) == {"a": 7, "b": 7}
    simulate(visitors, {"visits": rows}, exact, range(10))


def test_a_precision_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="give a number from 4 to 21"):
        ApproximateDistinct(3)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes when streams are wired, not when a task runs. Nothing else needs the package."""
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(ConfigError, match=r"pip install 'kstorm\[sketches\]'"):
        ApproximateDistinct()
