"""Spouts and bolts that misbehave in every way that users' code may, and tell the truth about it.

Tuples have the fields `message`, `attempt` (the number of the spout's emit) and `emit` (their own number).
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

from kstorm.testing.simulation.truth import Message, Truth
from kstorm.topology import (
    Anchors,
    BasicOutputCollector,
    Bolt,
    Config,
    FailedException,
    OutputCollector,
    OutputFieldsDeclarer,
    Spout,
    SpoutOutputCollector,
    StatefulBasicBolt,
    TopologyContext,
    Tuple,
    TupleBatch,
)

FIELDS: Final = ("message", "attempt", "emit")
SIDE: Final = "side"


class Source(Spout):
    """Emits its share of the messages; what fails, or was in flight when it died, it emits again."""

    def __init__(self, truth: Truth, batch: int = 0) -> None:
        self.truth, self.batch = truth, batch

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """One stream."""
        declarer.declare(*FIELDS)

    def open(self, config: Config, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        """Begins with whatever is unfinished."""
        super().open(config, context, collector)
        self.todo = self.truth.unfinished(context.task_index, context.total_tasks)
        self.in_flight: set[Message] = set()

    def next_tuple(self) -> None:
        """The next message, or as many as `batch` and the collector allow."""
        if self.batch and self.todo:
            ids = [self._begin() for _ in range(min(self.batch, len(self.todo), self.collector.capacity))]
            messages, attempts = [message for message, _ in ids], [attempt for _, attempt in ids]
            placed = self.collector.emit_batch((messages, attempts, attempts), ids)
            self.truth.sent_batch(attempts, placed)
        elif self.todo:
            message, attempt = self._begin()
            self.truth.sent(attempt, self.collector.emit([message, attempt, attempt], (message, attempt)))

    def _begin(self) -> tuple[Message, int]:
        message = self.todo.popleft()
        self.in_flight.add(message)
        attempt = self.truth.new_emit()
        self.truth.attempts[message].add(attempt)
        return message, attempt

    def ack(self, message_id: tuple[Message, int]) -> None:
        """The message must have been processed completely, in this very attempt."""
        message, attempt = message_id
        if not self.truth.done(attempt):
            self.truth.violations.append(f"message {message} was acked, and its tree is open")
        self._ended(message)
        self.truth.finished.add(message)
        self.truth.acked.add(message)

    def fail(self, message_id: tuple[Message, int]) -> None:
        """Again."""
        message, _ = message_id
        self._ended(message)
        self.todo.append(message)

    def _ended(self, message: Message) -> None:
        if message not in self.in_flight:
            self.truth.violations.append(f"a spout task was told of message {message}, which it has not in flight")
        self.in_flight.discard(message)


@dataclass(frozen=True)
class Faults:
    """How a bolt misbehaves, once for every so many messages; 0 is never."""

    fail_every: int = 0
    raise_every: int = 0
    forget_every: int = 0

    def strike(self, truth: Truth, component: str, tuple: Tuple) -> str:
        """What is to happen to a tuple: "fail", "raise", "forget" or nothing."""
        message = tuple["message"]
        for what, every in (("fail", self.fail_every), ("raise", self.raise_every), ("forget", self.forget_every)):
            if every and message % every == every - 1 and truth.first_time(component, what, message):
                return what
        return ""


NO_FAULTS: Final = Faults()


class _Telling(Bolt):
    """A bolt that tells the truth of its emits and acks."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Two streams."""
        declarer.declare(*FIELDS)
        declarer.declare_stream(SIDE, *FIELDS)

    def tell_emit(self, of: Tuple, anchors: Anchors, stream: str = "default") -> int:
        """Emits; returns the number of the emit."""
        emit = self.truth.new_emit()
        self.truth.sent(emit, self.collector.emit([of["message"], of["attempt"], emit], anchors, stream))
        return emit

    def tell_ack(self, tuple: Tuple, anchored: list[int]) -> None:
        """Acks."""
        self.truth.executed(tuple["emit"], self.context.task_id, anchored)
        self.collector.ack(tuple)


class Relay(_Telling):
    """Emits so many tuples per input on each stream, and one that is not anchored; may misbehave."""

    def __init__(
        self, truth: Truth, children: int = 1, side: int = 0, loose: bool = False, faults: Faults = NO_FAULTS
    ) -> None:
        super().__init__(truth)
        self.children, self.side, self.loose, self.faults = children, side, loose, faults

    def execute(self, tuple: Tuple) -> None:
        """Emits, then acks, or does not."""
        fault = self.faults.strike(self.truth, self.context.component, tuple)
        if fault == "fail":
            self.collector.fail(tuple)
            return
        anchored = [self.tell_emit(tuple, tuple) for _ in range(self.children)]
        if fault == "raise":
            raise ValueError("as told")
        anchored += [self.tell_emit(tuple, tuple, SIDE) for _ in range(self.side)]
        if self.loose:
            self.tell_emit(tuple, None)
        if fault != "forget":
            self.tell_ack(tuple, anchored)


class BatchRelay(Relay):
    """The same for whole frames: what strikes a tuple makes the batch raise; `late`, it acks a batch on a tick only."""

    late = False

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        """Holds nothing yet."""
        super().prepare(config, context, collector)
        self.held: list[tuple[TupleBatch, list[tuple[int, list[int]]]]] = []

    def execute(self, tuple: Tuple) -> None:
        """One that came alone, or after its batch had raised."""
        if not tuple.is_tick:
            super().execute(tuple)
            return
        for batch, runs in self.held:
            self._ack(batch, runs)
        self.held.clear()

    def execute_batch(self, batch: TupleBatch) -> None:
        """Emits a batch on each stream and one that is not anchored, then acks."""
        anchored: list[list[int]] = [[] for _ in range(len(batch))]
        for stream, children in (("default", self.children), (SIDE, self.side)):
            positions = [position for position in range(len(batch)) for _ in range(children)]
            emits = self._emit(batch, positions, batch, stream)
            for position, emit in zip(positions, emits, strict=True):
                anchored[position].append(emit)
        if self.loose:
            self._emit(batch, list(range(len(batch))), None)
        for tuple in batch.tuples():
            if self.faults.strike(self.truth, self.context.component, tuple):
                raise ValueError("as told")
        runs = list(zip(batch["emit"], anchored, strict=True))
        if self.late:
            self.held.append((batch, runs))
        else:
            self._ack(batch, runs)

    def _emit(
        self, batch: TupleBatch, positions: list[int], anchors: TupleBatch | None, stream: str = "default"
    ) -> list[int]:
        emits = [self.truth.new_emit() for _ in positions]
        columns = [[batch[field][position] for position in positions] for field in FIELDS[:2]]
        at = None if anchors is None else positions
        self.truth.sent_batch(emits, self.collector.emit_batch((*columns, emits), anchors, at, stream))
        return emits

    def _ack(self, batch: TupleBatch, runs: list[tuple[int, list[int]]]) -> None:
        for emit, anchored in runs:
            self.truth.executed(emit, self.context.task_id, anchored)
        self.collector.ack_batch(batch)


class LateRelay(BatchRelay):
    """Give it tick tuples."""

    late = True


class Join(_Telling):
    """Holds a tuple until its other half of the same attempt comes; emits one tuple anchored to both."""

    def __init__(self, truth: Truth, faults: Faults = NO_FAULTS) -> None:
        super().__init__(truth)
        self.faults = faults
        self.held: dict[int, Tuple] = {}

    def execute(self, tuple: Tuple) -> None:
        """Joins, or holds."""
        fault = self.faults.strike(self.truth, self.context.component, tuple)
        if fault in ("fail", "raise"):
            raise FailedException("as told")
        other = self.held.get(tuple["attempt"])
        if other is None or other.source_component == tuple.source_component:
            self.held[tuple["attempt"]] = tuple
            return
        del self.held[tuple["attempt"]]
        joined = self.tell_emit(tuple, [other, tuple])
        self.tell_ack(other, [joined])
        if fault != "forget":
            self.tell_ack(tuple, [joined])


class Collect(_Telling):
    """Holds tuples of any messages; emits one anchored to all of them when it has enough, or on a tick."""

    def __init__(self, truth: Truth, enough: int) -> None:
        super().__init__(truth)
        self.enough = enough
        self.held: list[Tuple] = []

    def execute(self, tuple: Tuple) -> None:
        """Holds; now and then gives all at once."""
        if not tuple.is_tick:
            self.held.append(tuple)
        if self.held and (tuple.is_tick or len(self.held) >= self.enough):
            together = self.tell_emit(self.held[-1], [*self.held, self.held[0]])
            for held in self.held:
                self.tell_ack(held, [together])
            self.held = []


class Tally(StatefulBasicBolt):
    """Counts messages in its state; whatever was acked must be in it."""

    def __init__(self, truth: Truth, faults: Faults = NO_FAULTS) -> None:
        self.truth, self.faults = truth, faults

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """One stream."""
        declarer.declare(*FIELDS)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> Awaitable[None] | None:
        """Counts, passes on; the ack comes by itself."""
        if self.faults.strike(self.truth, self.context.component, tuple):
            raise FailedException("as told")
        key = str(tuple["message"] % 2)  # shared by messages, so that a stale write would take others along
        self.state.put(key, [*self.state.get(key, []), tuple["message"]])
        emit = self.truth.new_emit()
        self.truth.sent(emit, collector.emit([tuple["message"], tuple["attempt"], emit]))
        self.truth.executed(tuple["emit"], self.context.task_id, [emit])
        if tuple.root:  # what hangs on no tree may get lost, if a zombie is the only one that it succeeds with
            self.truth.counted.add((self.context.component, tuple["message"]))
        return None

    def counted(self) -> set[Message]:
        """What is in the state."""
        return {message for _, messages in self.state.items() for message in messages}


class AsyncTally(Tally):
    """The same, as a coroutine."""

    async def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """As `Tally` does."""
        super().execute(tuple, collector)
