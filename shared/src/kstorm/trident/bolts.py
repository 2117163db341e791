"""The bolts that a stream becomes."""

from collections.abc import Sequence
from typing import Any

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
from kstorm.trident.steps import Batch, Row, Step, run_all
from kstorm.trident.updates import Query, Update

Input = tuple[str, str]
"""A component and one of its streams."""


class StepsBolt(BasicBolt):
    """Operations of a stream between two hops."""

    def __init__(self, steps: Sequence[Step], fields: Fields) -> None:
        self._steps, self._fields = list(steps), fields

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """What the last step gives."""
        declarer.declare(self._fields)

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Prepares the operations."""
        super().prepare(config, context)
        for step in self._steps:
            step.prepare(config, context)

    def cleanup(self) -> None:
        """Ends them."""
        for step in self._steps:
            step.cleanup()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """A batch of one."""
        rows, _ = run_all(self._steps, [(*tuple.values,)], [0])
        for row in rows:
            collector.emit(row)

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        """The batch."""
        _emit(collector, run_all(self._steps, list(batch.rows()), list(range(len(batch)))))


class StateBolt(StatefulBasicBolt):
    """A state: takes updates from some streams, and answers queries that come by others."""

    def __init__(self, update: Update) -> None:
        self._update = update
        self._queries: dict[Input, tuple[str, Query]] = {}

    def add_query(self, query: Query, inputs: Sequence[Input]) -> str:
        """The stream that the answers leave by."""
        stream = f"query-{len({stream for stream, _ in self._queries.values()}) + 1}"
        self._queries |= dict.fromkeys(inputs, (stream, query))
        return stream

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """New values, and answers."""
        declarer.declare(self._update.output)
        for stream, query in dict(self._queries.values()).items():
            declarer.declare_stream(stream, query.output)

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Prepares the operations."""
        super().prepare(config, context)
        for operation in (self._update.operation, *(query.operation for _, query in self._queries.values())):
            operation.prepare(config, context)

    def init_state(self, state: KeyValueState) -> None:
        """See `Stateful.init_state`."""
        super().init_state(state)
        self._update.begin(state)
        for _, query in self._queries.values():
            query.begin(state, self._update)

    def cleanup(self) -> None:
        """Ends the operations."""
        for operation in (self._update.operation, *(query.operation for _, query in self._queries.values())):
            operation.cleanup()

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """A batch of one."""
        stream, (rows, _) = self._run((tuple.source_component, tuple.source_stream), [(*tuple.values,)], [0])
        for row in rows:
            collector.emit(row, stream)

    def execute_batch(self, batch: TupleBatch, collector: BasicOutputCollector) -> None:
        """The batch."""
        source = batch.source.component, batch.source.stream
        stream, found = self._run(source, list(batch.rows()), list(range(len(batch))))
        _emit(collector, found, stream)

    def _run(self, source: Input, rows: list[Row], positions: list[int]) -> tuple[str, Batch]:
        if source in self._queries:
            stream, query = self._queries[source]
            return stream, query.run(rows, positions)
        return DEFAULT_STREAM, self._update.run(rows, positions)


def _emit(collector: BasicOutputCollector, found: Batch, stream: str = DEFAULT_STREAM) -> None:
    rows, positions = found
    if rows:
        columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
        collector.emit_batch(columns, positions, stream)
