"""The busy time of a process, and the causes of its waits."""

from typing import Any

import pytest

from kstorm.runtime.service import workload as module
from kstorm.runtime.service.workload import BusyTime, WorkloadMeter
from kstorm.testing import FeederSpout
from kstorm.topology import Bolt, Topology, TopologyBuilder


class Clock:
    """A fake of the used part of `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_700_000_000.0 + self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def topology() -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("lines", FeederSpout("line"))
    builder.set_bolt("split", Bolt()).shuffle_grouping("lines")
    return builder.build()


def test_work_side_by_side_counts_once(clock: Clock) -> None:
    """Work in progress counts too."""
    busy = BusyTime()
    with busy:
        clock.now += 2
        with busy:
            clock.now += 3
        assert busy.seconds == 5
        clock.now += 1
    clock.now += 50
    assert busy.seconds == 6
    with pytest.raises(ZeroDivisionError), busy:
        clock.now += 1 / 0
    with busy:
        clock.now += 1
    assert busy.seconds == 7


def test_wait_counts_since_the_last_look(clock: Clock) -> None:
    """Each cause is measured separately, and some are counted elsewhere."""
    load = WorkloadMeter(topology(), dict)
    held = {"a": True, "b": False}
    for cause in held:
        load.watch(cause, lambda cause=cause: held[cause])  # type: ignore[misc]
    load.count("c", lambda: 4.5)
    clock.now += 1
    load.look()
    held.update(b=True)
    clock.now += 2
    load.look()
    held.update(a=False)
    clock.now += 4
    load.look()
    assert load.waits == {"a": 3, "b": 6, "c": 4.5}
    assert load.status()["waits_since"] == {"b": 1_700_000_103.0}, "a does not hold any more"


def test_sent_tuples_are_counted_per_edge() -> None:
    """The counts are by stream and component, as in pages and metrics."""
    load = WorkloadMeter(topology(), lambda: {("default", "t.split"): 7})
    assert load.status()["edges"] == [{"stream": "default", "target": "split", "tuples": 7}]
    shown: dict[str, Any] = {name: (value, labels) for name, _, value, labels in load.samples()}
    assert shown["edge_tuples_total"] == (7, {"stream": "default", "target": "split"})
