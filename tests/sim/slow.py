"""Async components, which give way amid all that they do: before it, between its parts, behind it."""

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
from tests.sim.source import Source
from tests.sim.truth import Message


async def give_way(times: int = 1) -> None:
    """Lets others go on; what is asked of the process meanwhile waits until the whole is done."""
    for _ in range(times):
        await asyncio.sleep(0)


class SlowSource(Source):
    """As its base."""

    async def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Slowly."""
        await give_way()
        super().open(config, context, collector)
        await give_way()

    async def next_tuple(self) -> None:
        """Slowly."""
        await give_way()
        super().next_tuple()
        await give_way(2)

    async def ack(self, message_id: tuple[Message, int]) -> None:
        """Slowly."""
        await give_way()
        super().ack(message_id)
        await give_way()

    async def fail(self, message_id: tuple[Message, int]) -> None:
        """Slowly."""
        await give_way()
        super().fail(message_id)
        await give_way()


class SlowRelay(Relay):
    """As its base, tuple by tuple."""

    async def prepare(
        self, config: Config, context: TopologyContext, collector: OutputCollector
    ) -> None:
        """Slowly."""
        await give_way()
        super().prepare(config, context, collector)
        await give_way()

    async def cleanup(self) -> None:
        """Slowly."""
        await give_way()
        super().cleanup()

    async def execute(self, tuple: Tuple) -> None:
        """Gives way between its emits."""
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
    """As its base, frame by frame; what raises is then executed tuple by tuple, of several tasks side by side."""

    async def execute(self, tuple: Tuple) -> None:
        """Slowly."""
        await give_way()
        super().execute(tuple)
        await give_way()

    async def execute_batch(self, batch: TupleBatch) -> None:
        """Slowly."""
        await give_way()
        super().execute_batch(batch)
        await give_way()


class AsyncTally(Tally):
    """As its base, as a coroutine that never gives way."""

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """As `Tally` does."""
        super().execute(tuple, collector)


class SlowTally(Tally):
    """As its base; a checkpoint may come between what it counts and what it emits."""

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Slowly."""
        await give_way()
        self.count(tuple)
        await give_way(2)
        self.pass_on(tuple, collector)
        await give_way()

    async def prepare(self, config: Config, context: TopologyContext) -> None:
        """Slowly."""
        await give_way()
        super().prepare(config, context)

    async def cleanup(self) -> None:
        """Slowly."""
        await give_way()
        super().cleanup()
