"""Async components that yield before, during and after everything they do."""

import asyncio

from kstorm.topology import (
    BasicOutputCollector,
    Config,
    OutputCollector,
    SpoutOutputCollector,
    TopologyContext,
    Tuple,
    TupleBatch,
)
from tests.sim.components import SIDE, BatchRelay, Relay, Tally
from tests.sim.replaying_source import ReplayingSource
from tests.sim.truth import Message


async def give_way(times: int = 1) -> None:
    """Yield to others. Requests to the process meanwhile wait until the method is done."""
    for _ in range(times):
        await asyncio.sleep(0)


class SlowSource(ReplayingSource):
    async def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        await give_way()
        super().open(config, context, collector)
        await give_way()

    async def next_tuple(self) -> None:
        await give_way()
        super().next_tuple()
        await give_way(2)

    async def ack(self, message_id: tuple[Message, int]) -> None:
        await give_way()
        super().ack(message_id)
        await give_way()

    async def fail(self, message_id: tuple[Message, int]) -> None:
        await give_way()
        super().fail(message_id)
        await give_way()


class SlowRelay(Relay):
    """Works tuple by tuple."""

    async def prepare(
        self, config: Config, context: TopologyContext, collector: OutputCollector
    ) -> None:
        await give_way()
        super().prepare(config, context, collector)
        await give_way()

    async def cleanup(self) -> None:
        await give_way()
        super().cleanup()

    async def execute(self, tuple: Tuple) -> None:
        fault = self.faults.strike(self.truth, self.context.component, tuple)
        anchored = []
        for stream in ["default"] * self.children + [SIDE] * self.side:
            await give_way()
            anchored.append(self.tell_emit(tuple, tuple, stream))
        await give_way()
        if fault in ("fail", "raise"):
            raise ValueError("as told")
        if self.loose:
            self.tell_emit(tuple, None)
        if fault != "forget":
            self.tell_ack(tuple, anchored)
        await give_way()


class SlowBatchRelay(BatchRelay):
    """Works frame by frame. If it raises, tuples are executed singly, some tasks concurrently."""

    async def execute(self, tuple: Tuple) -> None:
        await give_way()
        super().execute(tuple)
        await give_way()

    async def execute_batch(self, batch: TupleBatch) -> None:
        await give_way()
        super().execute_batch(batch)
        await give_way()


class AsyncTally(Tally):
    """A coroutine that never yields."""

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        super().execute(tuple, collector)


class SlowTally(Tally):
    """A checkpoint may occur between its count and its emit."""

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        await give_way()
        self.count(tuple)
        await give_way(2)
        self.pass_on(tuple, collector)
        await give_way()

    async def prepare(self, config: Config, context: TopologyContext) -> None:
        await give_way()
        super().prepare(config, context)

    async def cleanup(self) -> None:
        await give_way()
        super().cleanup()
