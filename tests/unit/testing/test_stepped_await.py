"""Async user code in a simulated world: other code runs between any two of its awaits."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from kstorm.errors import KstormError
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.testing.stepped_await import SteppedAwaitable
from kstorm.topology import (
    Bolt,
    Config,
    OutputFieldsDeclarer,
    Spout,
    SpoutOutputCollector,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Provide an event loop that ends its tasks."""
    with asyncio.Runner() as runner:
        yield runner.get_loop()


def test_each_step_runs_to_the_next_await(loop: asyncio.AbstractEventLoop) -> None:
    """It does not go further until the next step, although other coroutines run."""
    done: list[str] = []

    async def work(name: str) -> None:
        done.append(f"{name} 0")
        await asyncio.sleep(0)
        done.append(f"{name} 1")

    one, other = SteppedAwaitable(loop, work("one")), SteppedAwaitable(loop, work("other"))
    assert [one.go_on(), other.go_on(), other.go_on()] == [False, False, True]
    assert done == ["one 0", "other 0", "other 1"]
    assert one.go_on()
    assert done[-1] == "one 1"


def test_external_awaitables_are_awaited(loop: asyncio.AbstractEventLoop) -> None:
    """A thread or a timer is a single await of any duration."""
    done: list[str] = []

    async def work() -> None:
        await asyncio.to_thread(done.append, "thread")
        await asyncio.sleep(0.001)
        done.append("timer")

    awaiting = SteppedAwaitable(loop, work())
    assert [awaiting.go_on(), done[:]] == [False, ["thread"]]
    assert [awaiting.go_on(), awaiting.go_on(), done] == [False, True, ["thread", "timer"]]


def test_timeouts_and_groups_of_tasks_work(loop: asyncio.AbstractEventLoop) -> None:
    """They belong to one task from beginning to end."""
    done: list[int] = []

    async def add(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(add(1))
            await asyncio.sleep(0)
            group.create_task(add(2))
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        _go_to_the_end(SteppedAwaitable(loop, work()))
    assert sorted(done) == [1, 2]


def test_non_awaitable_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(KstormError, match="it must return nothing"):
        SteppedAwaitable(loop, 3).go_on()


def test_abandoned_coroutine_does_nothing_more(loop: asyncio.AbstractEventLoop) -> None:
    """This holds while other coroutines run. The loop can be closed."""
    done: list[int] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
            done.append(1)
        finally:
            await asyncio.sleep(0)
            done.append(2)

    abandoned, other = SteppedAwaitable(loop, work()), SteppedAwaitable(loop, asyncio.sleep(0))
    abandoned.go_on()
    abandoned.abandon()
    _go_to_the_end(other)
    assert done == []


def _go_to_the_end(awaiting: SteppedAwaitable) -> None:
    while not awaiting.go_on():
        pass


class _Slow(Bolt):
    def __init__(self, told: list[str]) -> None:
        self.told = told

    def __deepcopy__(self, memo: dict[int, object]) -> "_Slow":
        return _Slow(self.told)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares no fields."""

    async def execute(self, tuple: Tuple) -> None:
        """Records its start, and its end two awaits later."""
        self.told.append(f"{tuple['name']} begins")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.told.append(f"{tuple['name']} ends")
        self.collector.ack(tuple)


def _run(seed: int) -> list[str]:
    told: list[str] = []
    feeder = FeederSpout("name")
    for number in range(8):
        feeder.feed([str(number)], number)
    builder = TopologyBuilder("slow")
    builder.set_spout("feeder", feeder)
    builder.set_bolt("bolt", _Slow(told), 1).set_num_tasks(2).shuffle_grouping("feeder")
    with LocalCluster(builder.build(), seed) as cluster:
        cluster.run_until_idle()
        assert sorted(cluster.acked("feeder")) == list(range(8))
    return told


def test_tasks_of_an_async_bolt_are_interleaved() -> None:
    """The seed determines their order."""

    def both(told: list[str]) -> bool:
        """True if two executions overlapped."""
        return any("begins" in one and "begins" in other for one, other in pairwise(told))

    runs = [_run(seed) for seed in range(20)]
    assert any(both(told) for told in runs)
    assert runs == [_run(seed) for seed in range(20)]


def test_cluster_may_end_during_an_await() -> None:
    """Closing the cluster does not wait for the coroutine."""
    told: list[str] = []
    feeder = FeederSpout("name")
    feeder.feed(["one"], 1)
    builder = TopologyBuilder("slow")
    builder.set_spout("feeder", feeder)
    builder.set_bolt("bolt", _Slow(told)).shuffle_grouping("feeder")
    with LocalCluster(builder.build()) as cluster:
        while not told:
            assert cluster.step()
    assert told == ["one begins"]


class _Pondering(Spout):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares one field."""
        declarer.declare("number")

    async def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Prepares three tuples."""
        super().open(config, context, collector)
        self.left = 3

    async def next_tuple(self) -> None:
        """Emits slowly."""
        await asyncio.sleep(0)
        if self.left:
            self.left -= 1
            self.collector.emit([self.left], self.left)
        await asyncio.sleep(0)


def test_cluster_idles_if_a_slow_spout_emits_nothing() -> None:
    """Its turns emit nothing, however many awaits they have."""
    builder = TopologyBuilder("pondering")
    builder.set_spout("spout", _Pondering())
    with LocalCluster(builder.build()) as cluster:
        cluster.run_until_idle(1000)
        assert sorted(cluster.acked("spout")) == [0, 1, 2]
        assert not cluster.step()
