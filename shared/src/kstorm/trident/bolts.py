"""The bolts that streams are compiled to."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from kstorm.core.watched_buffers import buffer_watch
from kstorm.errors import KstormError, StorageError
from kstorm.topology import (
    DEFAULT_STREAM,
    BasicBolt,
    BasicOutputCollector,
    Config,
    Fields,
    KeyValueState,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    TopologyContext,
    Tuple,
    TupleBatch,
)
from kstorm.trident.batches import Batch, Row
from kstorm.trident.custom_state import CustomState
from kstorm.trident.steps import Step, run_all
from kstorm.trident.updates import StateQuery, StateUpdate

AGAIN_SECS: Final = 1.0
"""Seconds between two attempts to reach a database that does not respond."""
Input = tuple[str, str]
"""A component and one of its streams."""


class StepsBolt(BasicBolt):
    """Runs the operations of a stream between two hops."""

    def __init__(self, steps: Sequence[Step], fields: Fields) -> None:
        self._steps, self._fields = list(steps), fields

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._fields)

    def prepare(self, config: Config, context: TopologyContext) -> None:
        super().prepare(config, context)
        for step in self._steps:
            step.prepare(config, context)

    def cleanup(self) -> None:
        for step in self._steps:
            step.cleanup()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        for row in _rows(run_all(self._steps, Batch.of_tuple(tuple.values))):
            collector.emit(row)

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        _emit(collector, run_all(self._steps, _taken_in(batch)))


class StateBolt(StatefulBasicBolt):
    """Keeps a state: applies the updates of some streams and answers the queries of others."""

    def __init__(self, update: StateUpdate) -> None:
        self._update = update
        self._queries: dict[Input, tuple[str, StateQuery]] = {}

    def add_query(self, query: StateQuery, inputs: Sequence[Input]) -> str:
        """Add a query of the state. Return the stream on which its answers are emitted."""
        stream = f"query-{len({stream for stream, _ in self._queries.values()}) + 1}"
        self._queries |= dict.fromkeys(inputs, (stream, query))
        return stream

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._update.output)
        for stream, query in dict(self._queries.values()).items():
            declarer.declare_stream(stream, query.output)

    def prepare(self, config: Config, context: TopologyContext) -> None:
        super().prepare(config, context)
        parts: list[StateUpdate | StateQuery] = [self._update]
        parts += [query for _, query in self._queries.values()]
        for part in parts:
            part.watch = buffer_watch(context.resources)
            part.operation.prepare(config, context)

    def init_state(self, state: KeyValueState) -> None:
        super().init_state(state)
        self._update.begin(
            state,
            f"{self.context.topology.name}.{self.context.component}/{self.context.task_index}",
        )
        for _, query in self._queries.values():
            query.begin(self._update)

    def cleanup(self) -> None:
        for operation in (
            self._update.operation,
            *(query.operation for _, query in self._queries.values()),
        ):
            operation.cleanup()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        stream, found = self._run(
            (tuple.source_component, tuple.source_stream), Batch.of_tuple(tuple.values)
        )
        for row in _rows(found):
            collector.emit(row, stream)

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        stream, found = self._run((batch.source.component, batch.source.stream), _taken_in(batch))
        _emit(collector, found, stream)

    def _part(self, source: Input) -> StateUpdate | StateQuery:
        return self._queries[source][1] if source in self._queries else self._update

    def _run(self, source: Input, batch: Batch) -> tuple[str, Batch]:
        stream = self._queries[source][0] if source in self._queries else DEFAULT_STREAM
        return stream, self._part(source).run(batch)


class ExternalStateBolt(StateBolt):
    """Keeps a state in a database, which is called outside the event loop's thread."""

    _trouble: Exception | None = None

    @property
    def _map(self) -> Any:
        return self._update.map

    def prepare(self, config: Config, context: TopologyContext) -> None:
        # A state of the user's own class also needs the configuration.
        super().prepare(config, context)
        if isinstance(self._update.map, CustomState):
            self._update.map.prepare(config, context)

    async def init_state(self, state: KeyValueState) -> None:  # type: ignore[override] # any method may be async
        super().init_state(state)
        await asyncio.to_thread(self._map.open)

    async def cleanup(self) -> None:  # type: ignore[override]
        super().cleanup()
        await asyncio.to_thread(self._map.close)

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:  # type: ignore[override]
        stream, found = await self._work(
            (tuple.source_component, tuple.source_stream), Batch.of_tuple(tuple.values)
        )
        for row in _rows(found):
            collector.emit(row, stream)
        self._map.keep()

    async def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:  # type: ignore[override]
        stream, found = await self._work(
            (batch.source.component, batch.source.stream), _taken_in(batch)
        )
        _emit(collector, found, stream)
        self._map.keep()

    def problem(self) -> Exception | None:
        return self._trouble

    async def _work(self, source: Input, batch: Batch) -> tuple[str, Batch]:
        await self._load(self._part(source).keys(batch))
        return self._run(source, batch)

    async def _load(self, keys: Sequence[Row]) -> None:
        """Load the values of keys, retrying until the database responds. So an outage fails no
        tuples."""
        while True:
            try:
                await asyncio.to_thread(self._map.load, keys)
            except KstormError:
                raise
            except Exception as error:  # noqa: BLE001 - each database has errors of its own
                self._trouble = StorageError(
                    f"the state's database does not respond: {type(error).__name__}: {error}"
                )
                await asyncio.sleep(AGAIN_SECS)
                with suppress(Exception):
                    await asyncio.to_thread(self._map.connect_again)
            else:
                self._trouble = None
                return

    async def pre_prepare(self, checkpoint_id: int) -> None:
        # End of the epoch: write the changes that must be in the database before the epoch is
        # committed.
        if self._map.has_changed:
            await asyncio.to_thread(self._map.write, self._map.before_commit())
            self._map.end_epoch()

    async def pre_commit(self, checkpoint_id: int) -> None:
        # The epoch is committed: write the changes that must follow the commit.
        await asyncio.to_thread(self._map.write, self._map.after_commit())


def _emit(collector: BasicOutputCollector, found: Batch, stream: str = DEFAULT_STREAM) -> None:
    if found.size:
        collector.emit_batch(found.columns(), cast("Sequence[int] | None", found.positions), stream)


def _taken_in(batch: TupleBatch) -> Batch:
    return Batch(batch.columns, None, len(batch))


def _rows(found: Batch) -> Iterable[Row]:
    return zip(*found.columns(), strict=True)
