"""Base of the queue spouts: a message stays open in its queue until its tuple tree is complete.

This works as Storm's documentation, *Guaranteeing message processing*, describes for
`KestrelSpout`. A message is only *opened*. `ack` removes it from the queue, and `fail` returns it.
If this process dies, the queue makes all of its open messages available again. So the spout only
stores IDs, and a replay comes from the queue, which delivers the message to this task or to
another.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from kstorm.core.dead_letters import UNDECODABLE, kind_of
from kstorm.core.failure_notes import note_of
from kstorm.errors import KstormError
from kstorm.fitting import Text, checked
from kstorm.kafka.emitting import emit_message, explain_unemittable
from kstorm.kafka.scheme import MultiScheme, Values
from kstorm.queues.ports import QueueMessage, QueueMessageId, QueuePorts, QueueReader
from kstorm.topology import (
    DEFAULT_STREAM,
    Config,
    OutputFieldsDeclarer,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
)

_BATCH: Final = 500


class QueueSpout(Spout):
    """A spout that reads a queue. Each tuple's message id is a `QueueMessageId`.

    Subclasses define the reader to open.
    """

    handles_unsendable = True

    @checked()
    def __init__(self, queue: Text, scheme: MultiScheme) -> None:
        self._queue, self._scheme = queue, scheme

    def open_reader(
        self, ports: QueuePorts, config: Config, context: TopologyContext
    ) -> QueueReader:
        """Open this task's reader. Raises `ConfigError` on invalid settings."""
        raise NotImplementedError(f"{type(self).__name__} does not define open_reader")

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._scheme.output_fields)

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Open the reader, which connects once the spout is active."""
        super().open(config, context, collector)
        # Number of incomplete trees of each emitted message.
        self._trees: dict[QueueMessageId, int] = {}
        self._problem: str | None = None
        self._reader = self.open_reader(QueuePorts.of(context), config, context)

    def activate(self) -> None:
        """Start opening messages."""
        self._reader.start()

    def deactivate(self) -> None:
        """Return unemitted messages to the queue, so that other tasks can get them."""
        self._reader.pause()

    async def close(self) -> None:
        """Disconnect. The queue gets back every message whose tree is not complete."""
        await self._reader.close()

    def next_tuple(self) -> None:
        """Emit opened messages, up to a batch and the collector's capacity."""
        self._report_problem()
        for _ in range(_BATCH):
            message = self._reader.take() if self.collector.capacity > 0 else None
            if message is None:
                return
            self._emit(message)

    def ack(self, message_id: QueueMessageId) -> None:
        """Complete a tree of the message. The last tree removes the message from the queue."""
        left = self._trees.get(message_id)
        # Another tree of this message failed.
        if left is None:
            return
        if left > 1:
            self._trees[message_id] = left - 1
            return
        del self._trees[message_id]
        self._reader.ack(message_id)

    def fail(self, message_id: QueueMessageId) -> None:
        """Put the whole message back. The queue delivers it again."""
        if self._trees.pop(message_id, None) is not None:
            self._reader.put_back(message_id)

    def problem(self) -> KstormError | None:
        """Return why the queue cannot be read, for the readiness check, or None if it can."""
        return self._reader.problem()

    def metrics(self) -> dict[str, float]:
        """Return `pending` (messages emitted but unfinished) and `connections` (to servers)."""
        return {"pending": len(self._trees), "connections": self._reader.connections}

    def _emit(self, message: QueueMessage) -> None:
        try:
            tuples: Sequence[Values] = list(self._scheme.deserialize(message.value) or ())
        except Exception as error:  # noqa: BLE001 - a user's scheme may raise anything
            reason = f"cannot be deserialized: {type(error).__name__}: {error}"
            self._give_up(message, reason, UNDECODABLE, error)
            return
        if not tuples:
            self._reader.ack(message.id)
            return
        self._trees[message.id] = len(tuples)
        try:
            emit_message(self.collector, tuples, message.id, DEFAULT_STREAM)
        except Exception as error:  # noqa: BLE001 - user groupings may raise anything
            if self._trees.pop(message.id, None) is not None:
                self._give_up(message, explain_unemittable(tuples, error), kind_of(error), error)

    def _give_up(self, message: QueueMessage, reason: str, kind: str, error: Exception) -> None:
        """Remove the message from the queue only after the broker has its dead letter."""
        self.collector.dead_letter(
            f"a message of the queue {self._queue!r} {reason}",
            value=message.value,
            kind=kind,
            error=note_of(0, error),
            on_stored=partial(self._reader.ack, message.id),
        )

    def _report_problem(self) -> None:
        """Report once when reading stops working."""
        problem = self._reader.problem()
        text = None if problem is None else str(problem)
        if problem is not None and text != self._problem:
            self.collector.report_error(problem)
        self._problem = text
