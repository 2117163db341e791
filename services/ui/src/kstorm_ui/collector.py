"""Polls the source on behalf of all viewers, every two seconds, regardless of their number."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from kstorm.errors import KstormError, NoBrokerError
from kstorm.runtime.kafka.lag import Lags
from kstorm_ui.history import SAMPLE_SECS
from kstorm_ui.sources.report import ReportSource, TopologyReport
from kstorm_ui.topology_memory import TopologyMemory

log = logging.getLogger(__name__)

_FORGET_SECS: Final = 3600.0

LagOf = Callable[[TopologyReport], Lags]
"""Returns Kafka's lag figures of a topology. May block. Called after the topologies are polled.

Raises `NoBrokerError` if no broker responds.
"""


class _Poll(NamedTuple):
    report: TopologyReport
    lags: Lags
    no_broker: str = ""
    """The error if no broker responds."""


class Collector:
    """Polls until it is stopped. `problem` is the reason why the last poll failed, or ""."""

    def __init__(
        self, source: ReportSource, lag_of: LagOf = lambda report: {}, every: float = SAMPLE_SECS
    ) -> None:
        self.source = source
        self.problem = ""
        self.memories: dict[str, TopologyMemory] = {}
        """Memory by topology. A topology that is not found any more is kept for an hour, marked as
        such."""
        self._lag_of, self._every = lag_of, every
        self._seen: dict[str, float] = {}
        self._number = 0
        self._changed = asyncio.Condition()
        self._ended = False

    async def run(self) -> None:
        """Poll repeatedly. The duration of a poll counts towards the two seconds."""
        while not self._ended:
            begun = time.monotonic()
            await self.look()
            await asyncio.sleep(max(0.1, self._every - (time.monotonic() - begun)))

    async def look(self) -> None:
        """Poll once."""
        try:
            self._learn(await asyncio.to_thread(self._ask))
        except KstormError as error:
            self.problem = str(error)
        except Exception as error:
            problem = (
                f"the web UI could not poll {self.source}: {type(error).__name__}, see its log"
            )
            if problem != self.problem:
                log.exception("polling %s failed", self.source)
            self.problem = problem
        else:
            self.problem = ""
        await self._tell()

    async def stop(self) -> None:
        """End `run` and all followers."""
        self._ended = True
        await self._tell()

    async def follow(self, patience: float) -> AsyncIterator[bool]:
        """Yield True for each poll from now on, and False after `patience` seconds without one."""
        seen = self._number
        while not self._ended:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news(seen), patience)
            if not self._ended:
                yield self._number != seen
            seen = self._number

    async def _news(self, seen: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._number != seen or self._ended)

    def _ask(self) -> Mapping[str, "_Poll"]:
        return {report.name: self._with_lags(report) for report in self.source.look()}

    def _with_lags(self, report: TopologyReport) -> "_Poll":
        try:
            return _Poll(report, self._lag_of(report))
        except NoBrokerError as error:
            return _Poll(report, {}, str(error))

    def _learn(self, found: Mapping[str, "_Poll"]) -> None:
        now, clock = time.monotonic(), time.time()
        for name, (report, lags, no_broker) in found.items():
            memory = self.memories.setdefault(name, TopologyMemory(now))
            memory.learn(report, lags, now, clock, no_broker)
            self._seen[name] = now
        for name, seen in list(self._seen.items()):
            if name not in found:
                self.memories[name].lost()
                if now - seen > _FORGET_SECS:
                    del self._seen[name], self.memories[name]

    async def _tell(self) -> None:
        async with self._changed:
            self._number += 1
            self._changed.notify_all()
