"""Windows of streams, and the extremes of batches."""

from typing import Any

import pytest

from kstorm.testing import FeederSpout, LocalCluster, complete_topology
from kstorm.topology import Topology
from kstorm.trident import Count, Stream, Sum, TridentTopology, Window
from kstorm.windows import Count as Tuples
from kstorm.windows import Duration
from tests.unit.trident.streams import came_out, wired


def by_minute() -> Topology:
    """Builds the sum of cents per shop and minute of event time."""
    topology = TridentTopology("t")
    window = Window(Duration.minutes(1)).with_timestamp_field("at").with_lag(Duration.seconds(10))
    (
        topology.new_stream("in", FeederSpout("shop", "cents", "at"))
        .filter("cents", lambda cents: cents > 0)
        .group_by("shop")
        .window(window, "cents", Sum(), "sum")
        .name("sums")
        .parallelism_hint(2)
    )
    return topology.build()


def test_event_time_by_group() -> None:
    with LocalCluster(by_minute()) as cluster:
        spout: Any = cluster.topology.component("in").component
        for shop, cents, second in [
            ("a", 1, 1),
            ("b", 5, 2),
            ("a", 2, 59),
            ("a", 4, 61),
            ("b", 7, 200),
            ("a", 0, 5),
            ("a", 9, 200),
        ]:
            spout.feed([shop, cents, second * 1000])
        cluster.run_until_idle()
        cluster.advance_time(3)
        assert sorted(cluster.emitted("sums")) == [["a", 3], ["a", 4], ["b", 5]]


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (lambda s: s.min_by("n"), ["b", 1]),
        (lambda s: s.max_by("n"), ["c", 9]),
        (lambda s: s.max_by("n", key=lambda n: -n), ["b", 1]),
    ],
)
def test_the_extremes_of_a_batch(do: Any, expected: list[Any]) -> None:
    """The output has whole tuples. Across batches, the overall extreme is among them."""
    rows: list[list[Any]] = [["a", 5], ["b", 1], ["c", 9], ["d", None]]
    assert expected in came_out(do, ["name", "n"], rows)
    assert list(wired("n", do=lambda s: s.min_by("n")).components) == ["in", "min-by"]


def test_window_is_a_stream() -> None:
    """A window returns a stream."""

    def do(stream: Stream) -> Stream:
        return stream.tumbling_window(Tuples(1), Count(), "n").map(lambda n: n + 1, "m")

    result = complete_topology(wired("x", do=lambda s: do(s).name("out")), {"in": [["a"], ["b"]]})
    assert result.emitted("out") == [[2], [2]]
