"""`LocalCluster(simulated_time=False)`: ticks and timeouts follow the real clock, here a fake one."""

from time import monotonic

import pytest

from kstorm.errors import KstormError
from kstorm.testing import FeederSpout, LocalCluster, cluster
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    Topology,
    TopologyBuilder,
    Tuple,
)
from tests.unit.testing.wordcount import Hold, one_bolt


class Clock:
    """A fake clock that moves only during sleeps."""

    now = 1000.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cluster, "monotonic", lambda: clock.now)
    monkeypatch.setattr(cluster, "sleep", clock.sleep)
    return clock


def hasty(feeder: FeederSpout, bolt: Bolt | BasicBolt) -> Topology:
    builder = TopologyBuilder("t", Config(topology_message_timeout_secs=10))
    builder.set_spout("feeder", feeder)
    builder.set_bolt("bolt", bolt).shuffle_grouping("feeder")
    return builder.build()


@pytest.mark.parametrize("simulated", [True, False])
@pytest.mark.usefixtures("clock")
def test_ticks_come_as_time_passes(simulated: bool) -> None:
    """This holds for both clocks."""
    feeder = FeederSpout("x")
    topology = one_bolt(feeder, Hold(), topology_tick_tuple_freq_secs=5)
    with LocalCluster(topology, simulated_time=simulated) as running:
        feeder.feed(["a"], 1)
        running.run_for(4.9)
        assert running.acked("feeder") == []
        running.run_for(0.2)
        assert running.acked("feeder") == [1]
        assert running.now == pytest.approx(5.1, abs=0.03)


def test_timeouts_fire_without_advance_time(clock: Clock) -> None:
    """It is enough to drive the cluster when they are due."""
    feeder = FeederSpout("x")
    with LocalCluster(hasty(feeder, Hold()), simulated_time=False) as running:
        feeder.feed(["a"], 1)
        running.run_until_idle()
        clock.sleep(8)
        running.run_until_idle()
        assert (running.failed("feeder"), running.pending) == ([], 1)
        for _ in range(2):
            clock.sleep(5)
            running.run_until_idle()
        assert (running.failed("feeder"), running.pending) == ([1], 0)


def test_time_spent_in_a_bolt_counts(clock: Clock) -> None:
    """With the real clock, a bolt slower than the timeout fails its message.

    Simulated time does not pass during user code.
    """
    naps: list[float] = []

    class Slow(BasicBolt):
        def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
            naps.append(16)
            clock.sleep(16)

    for simulated, outcome in ((True, ([1], [])), (False, ([], [1]))):
        feeder = FeederSpout("x")
        with LocalCluster(hasty(feeder, Slow()), simulated_time=simulated) as running:
            feeder.feed(["a"], 1)
            running.run_until_idle()
            assert (running.acked("feeder"), running.failed("feeder")) == outcome
    assert naps == [16, 16]


def test_run_for_really_waits() -> None:
    """Work during the wait is checkpointed."""
    feeder = FeederSpout("x")
    with LocalCluster(
        one_bolt(feeder, Hold(), topology_tick_tuple_freq_secs=0.1), simulated_time=False
    ) as running:
        feeder.feed(["a"], 1)
        began = monotonic()
        running.run_for(0.3)
        assert monotonic() - began >= 0.3
        assert running.acked("feeder") == [1]
        running.crash("bolt")
        running.run_until_idle()
        assert running.emitted("feeder") == [["a"]]
        bolt = running.instance("bolt")
        assert isinstance(bolt, Hold)
        assert bolt.held == []


def test_the_real_clock_cannot_be_advanced() -> None:
    """The error names the method to call."""
    with (
        LocalCluster(one_bolt(FeederSpout("x"), Hold()), simulated_time=False) as running,
        pytest.raises(
            KstormError, match=r"the clock of 't' is real and cannot be advanced: .* run_for\(31\)"
        ),
    ):
        running.advance_time(31)
