"""A user's own spout, which replays its messages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kstorm.errors import EmitError
from kstorm.topology import (
    Config,
    OutputFieldsDeclarer,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
)
from kstorm.topology.component import Maybe
from tests.sim.components import FIELDS
from tests.sim.spout_errors import NO_ERRORS, SpoutErrors
from tests.sim.truth import Message, Truth


class ReplayingSource(Spout):
    """Emits its share of the messages.

    It repeats messages that failed or were in flight at a crash.
    """

    def __init__(self, truth: Truth, batch: int = 0, moods: SpoutErrors = NO_ERRORS) -> None:
        self.truth, self.batch, self.moods = truth, batch, moods

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*FIELDS)

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> Maybe:
        super().open(config, context, collector)
        self.moods.sulk(self.truth, "open", context)
        self.todo = self.truth.unfinished(context.task_index, context.total_tasks)
        self.in_flight: set[Message] = set()
        return None

    def next_tuple(self) -> Maybe:
        """Emit the next message, or as many as `batch` and the collector allow."""
        if self.batch and self.todo:
            ids = [
                self._begin()
                for _ in range(min(self.batch, len(self.todo), self.collector.capacity))
            ]
            messages, attempts = [message for message, _ in ids], [attempt for _, attempt in ids]
            with self._taking_back(ids):
                placed = self.collector.emit_batch((messages, attempts, attempts), ids)
            self.truth.sent_batch(attempts, placed)
        elif self.todo:
            message, attempt = self._begin()
            with self._taking_back([(message, attempt)]):
                targets = self.collector.emit([message, attempt, attempt], (message, attempt))
            self.truth.sent(attempt, targets)
        self.moods.speak(self.truth, "next_tuple")
        return None

    def _begin(self) -> tuple[Message, int]:
        message = self.todo.popleft()
        self.in_flight.add(message)
        attempt = self.truth.new_emit()
        self.truth.attempts[message].add(attempt)
        return message, attempt

    @contextmanager
    def _taking_back(self, ids: Sequence[tuple[Message, int]]) -> Iterator[None]:
        """Requeue messages that a grouping refuses."""
        try:
            yield
        except EmitError:
            for message, attempt in ids:
                self.in_flight.discard(message)
                self.truth.attempts[message].discard(attempt)
                self.todo.append(message)
            raise

    def ack(self, message_id: tuple[Message, int]) -> Maybe:
        """Check that the message was processed completely, in this attempt."""
        message, attempt = message_id
        if self.truth.tracked and not self.truth.done(attempt):
            self.truth.violations.append(f"message {message} was acked, and its tree is open")
        self._ended(message)
        self.truth.finished.add(message)
        self.truth.acked.add(message)
        self.moods.speak(self.truth, "ack")
        return None

    def fail(self, message_id: tuple[Message, int]) -> Maybe:
        message, _ = message_id
        self._ended(message)
        self.todo.append(message)
        self.moods.speak(self.truth, "fail")
        return None

    def activate(self) -> None:
        self.moods.sulk(self.truth, "activate", self.context)

    def deactivate(self) -> None:
        self.moods.sulk(self.truth, "deactivate", self.context)

    def close(self) -> None:
        self.moods.speak(self.truth, "close")

    def _ended(self, message: Message) -> None:
        if message not in self.in_flight:
            self.truth.violations.append(
                f"a spout task was told of message {message}, which it has not in flight"
            )
        self.in_flight.discard(message)
