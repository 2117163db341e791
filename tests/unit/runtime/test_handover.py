"""A task that has to go amid a poll: what was executed is committed, what was not is left to the next owner."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import structlog
from confluent_kafka import Message

from kstorm.core.outbox import Outgoing
from kstorm.core.wire import VERSION, TupleFrame, encode
from kstorm.runtime.bolt_executor import BoltExecutor
from kstorm.runtime.consumer import TaskConsumer
from kstorm.runtime.delivery import Delivery, WorkUnit
from kstorm.runtime.settings import Settings
from kstorm.testing import FeederSpout
from kstorm.topology import BasicBolt, BasicOutputCollector, OutputFieldsDeclarer, TopologyBuilder, Tuple


class Gate(BasicBolt):
    """Waits at "b"."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.at_b, self.go_on = asyncio.Event(), asyncio.Event()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Gate":
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """None."""

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Notes the word."""
        self.executed.append(tuple["word"])
        if tuple["word"] == "b":
            self.at_b.set()
            await self.go_on.wait()


class Frame:
    """A record with one word."""

    def __init__(self, word: str, offset: int) -> None:
        self._offset = offset
        self._value = encode(TupleFrame(VERSION, "words", 1, "default", 1, b"", b"", {}, [[word]]))

    def __len__(self) -> int:
        return len(self._value)

    def value(self) -> bytes:
        """The frame."""
        return self._value

    def offset(self) -> int:
        """Where it is."""
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """Long ago."""
        return 1, 0


class Group:
    """A consumer that notes what is committed."""

    def __init__(self) -> None:
        self.committed: dict[int, int] = {}

    def finished(self, records: int, size: int) -> None:
        """Nobody counts."""

    async def commit_and_wait(self, offsets: dict[int, int]) -> None:
        """Done at once."""
        self.committed |= offsets


class Broker:
    """A delivery that has everything at once."""

    def send(self, unit: WorkUnit, sends: Iterable[Outgoing]) -> None:
        """It is there."""

    def poll(self) -> None:
        """Nothing to report."""


def test_what_was_executed_when_a_task_goes_is_not_executed_again() -> None:
    """Neither of the task that is cut short nor of another of the same poll that was through already."""

    async def run() -> None:
        bolt, group = Gate(), Group()
        builder = TopologyBuilder("handover")
        builder.set_spout("words", FeederSpout("word"))
        builder.set_bolt("gate", bolt, 2).shuffle_grouping("words")
        executor = BoltExecutor(Settings(topology="a:b"), builder.build(), "gate", structlog.get_logger())
        executor.consumer, executor.delivery = cast(TaskConsumer, group), cast(Delivery, Broker())
        await executor.before_join()
        await executor.assigned([0, 1])
        polled = {0: [Frame("a", 7), Frame("b", 8), Frame("c", 9)], 1: [Frame("d", 3)]}
        item = [(executor.slots[task], cast(list[Message], records)) for task, records in polled.items()]
        handling = asyncio.ensure_future(executor.handle(item))
        await bolt.at_b.wait()
        going = asyncio.ensure_future(executor.revoked([0, 1]))
        while executor.slots[0].active:
            await asyncio.sleep(0)
        bolt.go_on.set()
        await asyncio.gather(handling, going)
        assert sorted(bolt.executed) == ["a", "b", "d"]
        assert group.committed == {0: 9, 1: 4}

    asyncio.run(run())
