"""What the queue spouts have in common: a message stays open in its queue until its tuple tree is complete.

As Storm's documentation, *Guaranteeing message processing*, says of `KestrelSpout`: a message taken is only *opened*;
`ack` removes it, `fail` puts it back, and if this process dies, the queue itself puts back all that it had opened. So
only ids are kept here, and a replay is the queue's: the message comes again, to this task or to another.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from kstorm.core.dead_letters import REFUSED, UNDECODABLE
from kstorm.core.notes import note_of
from kstorm.errors import KstormError
from kstorm.kafka.emitting import emit_message, why
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
"""Most messages emitted in one `next_tuple`."""


class QueueSpout(Spout):
    """A spout on a queue; each tuple's message id is a `QueueMessageId`. Subclasses say which reader to open."""

    def __init__(self, queue: str, scheme: MultiScheme) -> None:
        self._queue, self._scheme = queue, scheme

    def open_reader(
        self, ports: QueuePorts, config: Config, context: TopologyContext
    ) -> QueueReader:
        """Opens this task's reader; raises `ConfigError` on settings that cannot work."""
        raise NotImplementedError(f"{type(self).__name__} does not define open_reader")

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declares the scheme's fields."""
        declarer.declare(self._scheme.output_fields)

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Opens the reader, which connects once the spout is active."""
        super().open(config, context, collector)
        self._trees: dict[
            QueueMessageId, int
        ] = {}  # of messages that were emitted: how many trees are not complete
        self._problem: str | None = None
        self._reader = self.open_reader(QueuePorts.of(context), config, context)

    def activate(self) -> None:
        """Begins to open messages."""
        self._reader.start()

    def deactivate(self) -> None:
        """Gives back what was not emitted yet, so that other tasks need not wait for it."""
        self._reader.pause()

    async def close(self) -> None:
        """Disconnects; the queue has back every message whose tree is not complete."""
        await self._reader.close()

    def next_tuple(self) -> None:
        """Emits what has come, at most a batch and at most what the collector has room for."""
        self._report_problem()
        for _ in range(_BATCH):
            message = self._reader.take() if self.collector.capacity > 0 else None
            if message is None:
                return
            self._emit(message)

    def ack(self, message_id: QueueMessageId) -> None:
        """Counts a tree of the message as complete; with its last one the message leaves the queue."""
        left = self._trees.get(message_id)
        if left is None:  # another of its trees failed
            return
        if left > 1:
            self._trees[message_id] = left - 1
            return
        del self._trees[message_id]
        self._reader.ack(message_id)

    def fail(self, message_id: QueueMessageId) -> None:
        """Puts the message back; it comes again, whole."""
        if self._trees.pop(message_id, None) is not None:
            self._reader.put_back(message_id)

    def problem(self) -> KstormError | None:
        """Why the queue cannot be read at the moment, for a readiness check; None if it can."""
        return self._reader.problem()

    def metrics(self) -> dict[str, float]:
        """`pending` (messages emitted and not finished) and `connections` to the queue's servers."""
        return {"pending": len(self._trees), "connections": self._reader.connections}

    def _emit(self, message: QueueMessage) -> None:
        try:
            tuples: Sequence[Values] = list(self._scheme.deserialize(message.value) or ())
        except Exception as error:  # noqa: BLE001 - whatever a user's scheme raises, it says that it cannot read this
            reason = f"cannot be deserialized: {type(error).__name__}: {error}"
            self._give_up(message, reason, UNDECODABLE, error)
            return
        if not tuples:
            self._reader.ack(message.id)
            return
        self._trees[message.id] = len(tuples)
        try:
            emit_message(self.collector, tuples, message.id, DEFAULT_STREAM)
        except Exception as error:  # noqa: BLE001 - a user's grouping may raise anything
            if self._trees.pop(message.id, None) is not None:
                self._give_up(message, why(tuples, error), REFUSED, error)

    def _give_up(self, message: QueueMessage, reason: str, kind: str, error: Exception) -> None:
        """The message leaves the queue no earlier than the broker has the dead letter."""
        self.collector.dead_letter(
            f"a message of the queue {self._queue!r} {reason}",
            value=message.value,
            kind=kind,
            error=note_of(0, error),
            on_stored=partial(self._reader.ack, message.id),
        )

    def _report_problem(self) -> None:
        """Says once when reading stops to work."""
        problem = self._reader.problem()
        text = None if problem is None else str(problem)
        if problem is not None and text != self._problem:
            self.collector.report_error(problem)
        self._problem = text
