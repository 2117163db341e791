"""A ShellBolt on an event loop, as in a service: nothing blocks, and heartbeats find a program that hangs."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from kstorm.errors import ConfigError
from kstorm.multilang import ShellBolt
from kstorm.testing import FeederSpout
from kstorm.topology import Fields, Source, TopologyBuilder, TopologyContext, Tuple

PROGRAM = str(Path(__file__).with_name("program.py"))
SOURCE = Source("s", "default", 1, Fields("word"))


class Collector:
    """Keeps what a bolt does."""

    def __init__(self) -> None:
        self.emitted: list[Any] = []
        self.acked: list[Any] = []
        self.failed: list[Any] = []
        self.errors: list[str] = []
        self.flushed = 0

    def emit(
        self, values: Sequence[Any], anchors: Any = None, stream: str = "default", task: Any = None
    ) -> Sequence[int]:
        self.emitted.append(values)
        return [7]

    def ack(self, tuple: Tuple) -> None:
        self.acked.append(tuple.values[0])

    def fail(self, tuple: Tuple) -> None:
        self.failed.append(tuple.values[0])

    def report_error(self, error: BaseException) -> None:
        self.errors.append(str(error))

    def flush_soon(self) -> None:
        self.flushed += 1


class Prepared:
    """A prepared bolt and its collector."""

    def __init__(self, mode: str, **arguments: Any) -> None:
        self.bolt = ShellBolt([sys.executable, PROGRAM, mode], ["word"], **arguments)
        builder = TopologyBuilder("t")
        builder.set_spout("s", FeederSpout("word"))
        builder.set_bolt("b", self.bolt).shuffle_grouping("s")
        topology = builder.build()
        self.collector = cast("Any", Collector())
        context = TopologyContext(topology, "b", 0)
        self.bolt.prepare(topology.component("b").config, context, self.collector)

    async def give(self, word: str) -> None:
        await asyncio.wait_for(self.bolt.execute(Tuple([word], SOURCE)), 30)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not done():
                await asyncio.sleep(0.01)

    async def __aenter__(self) -> "Prepared":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.bolt.cleanup()


async def test_tuples_are_in_the_program_while_others_arrive() -> None:
    async with Prepared("split") as shell:
        words = [f"w{number}" for number in range(500)]
        for word in words:
            await shell.give(word)
        await shell.until(lambda: len(shell.collector.acked) == 500)
        assert shell.collector.acked == words
        assert shell.collector.emitted == [[word] for word in words]
        assert shell.collector.flushed > 0
        assert shell.bolt.problem() is None


async def test_a_slow_program_slows_down_the_bolt() -> None:
    async with Prepared("slow", max_pending=10) as shell:
        most = 0
        for number in range(60):
            await shell.give(f"{number} " + "x" * 20_000)
            most = max(most, shell.bolt._shell.unwritten)
        assert most <= 12  # the heartbeats are messages too
        await shell.until(lambda: len(shell.collector.acked) == 60)


async def test_heartbeats_find_a_program_that_hangs_and_the_next_tuple_gets_a_new_one() -> None:
    async with Prepared("hang", timeout_secs=2) as shell:
        await shell.give("bad")
        await shell.until(lambda: bool(shell.collector.failed))
        assert shell.collector.failed == ["bad"]
        assert "did not answer a heartbeat" in shell.collector.errors[0]
        assert shell.bolt.problem() is not None
        await shell.give("good")
        await shell.until(lambda: shell.collector.acked == ["good"])
        assert shell.bolt.problem() is None


async def test_a_program_that_does_not_read_is_killed() -> None:
    async with Prepared("deaf", timeout_secs=0.5, max_pending=2) as shell:
        for number in range(6):
            if not shell.collector.failed:
                await shell.give(f"{number} " + "x" * 50_000)
        assert shell.collector.failed
        assert "did not read its standard input" in shell.collector.errors[0]


async def test_a_program_that_dies_fails_its_tuples_at_once() -> None:
    async with Prepared("die") as shell:
        for word in ("good", "bad", "late"):
            await shell.give(word)
        await shell.until(lambda: len(shell.collector.failed) >= 1)
        assert shell.collector.failed[0] == "bad"
        assert "ended with exit code 3; its last lines: so long" in shell.collector.errors[0]


async def test_a_task_that_leaves_lets_its_program_finish() -> None:
    shell = Prepared("slow")
    for number in range(20):
        await shell.give(str(number))
    await shell.bolt.cleanup()
    assert len(shell.collector.acked) == 20
    assert shell.collector.errors == []


async def test_starts_are_delayed_more_and_more() -> None:
    async with Prepared("die") as shell:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for times in range(1, 4):
            await shell.give("bad")
            await shell.until(lambda times=times: len(shell.collector.errors) == times)  # type: ignore[misc]
        assert loop.time() - began > 0.1 + 0.2


async def test_an_absent_command_is_an_error_of_prepare() -> None:
    bolt = ShellBolt(["no-such-program"])
    builder = TopologyBuilder("t")
    builder.set_spout("s", FeederSpout("word"))
    builder.set_bolt("b", bolt).shuffle_grouping("s")
    topology = builder.build()
    collector: Any = Collector()
    with pytest.raises(ConfigError, match="no-such-program"):
        bolt.prepare(topology.config, TopologyContext(topology, "b", 0), collector)
