"""Bolts that misbehave in every way that users' code may, and report the truth about it.

Tuples have the fields `message`, `attempt` (the number of the spout's emit) and `emit` (their own
number).
"""

from dataclasses import dataclass
from typing import Final

from kstorm.errors import EmitError
from kstorm.topology import (
    Anchors,
    BasicOutputCollector,
    Bolt,
    Config,
    FailedException,
    KeyValueState,
    OutputCollector,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    TopologyContext,
    Tuple,
    TupleBatch,
)
from kstorm.topology.component import Maybe
from tests.sim.truth import Message, Truth

FIELDS: Final = ("message", "attempt", "emit")
SIDE: Final = "side"


@dataclass(frozen=True)
class BoltFaults:
    """A bolt's misbehaviour, each once per this many messages. 0 is never."""

    fail_every: int = 0
    raise_every: int = 0
    forget_every: int = 0
    ever: bool = False
    """True if a message meets the fault each time, not only once. Its spout then has to give up."""
    moody: bool = False
    """True if some lifecycle methods raise.

    These are `prepare` in each second run of a task, each second tick after its work, and `cleanup`
    always.
    """

    def refuse_to_begin(self, truth: Truth, context: TopologyContext) -> None:
        """Raise if the bolt is moody. Its process then exits and is restarted."""
        if self.moody and truth.happens("prepare", context.component, context.task_index) % 2 == 0:
            truth.ends += 1
            raise ValueError("as told")

    def refuse_to_end(self) -> None:
        """Raise if the bolt is moody. That is logged, and the task still ends."""
        if self.moody:
            raise ValueError("as told")

    def refuse_to_tick(self, truth: Truth, component: str) -> None:
        """Raise at each second tick if the bolt is moody. That is logged, with no other effect."""
        if self.moody and truth.happens("tick", component) % 2 == 0:
            raise ValueError("as told")

    def strike(self, truth: Truth, component: str, tuple: Tuple) -> str:
        """Return the fault for a tuple: "fail", "raise", "forget" or ""."""
        message = tuple["message"]
        for what, every in (
            ("fail", self.fail_every),
            ("raise", self.raise_every),
            ("forget", self.forget_every),
        ):
            if (
                every
                and message % every == every - 1
                and (truth.happens(component, what, message) == 1 or self.ever)
            ):
                return what
        return ""


NO_FAULTS: Final = BoltFaults()


class _ReportingBolt(Bolt):
    """A bolt that reports its emits and acks to the truth."""

    faults: BoltFaults = NO_FAULTS

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def prepare(
        self, config: Config, context: TopologyContext, collector: OutputCollector
    ) -> Maybe:
        self.faults.refuse_to_begin(self.truth, context)
        return super().prepare(config, context, collector)

    def cleanup(self) -> Maybe:
        self.faults.refuse_to_end()
        return None

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*FIELDS)
        declarer.declare_stream(SIDE, *FIELDS)

    def tell_emit(self, of: Tuple, anchors: Anchors, stream: str = "default") -> int:
        """Emit, and return the number of the emit."""
        emit = self.truth.new_emit()
        self.truth.sent(
            emit, self.collector.emit([of["message"], of["attempt"], emit], anchors, stream)
        )
        return emit

    def tell_ack(self, tuple: Tuple, anchored: list[int]) -> None:
        self.truth.executed(tuple["emit"], self.context.task_id, anchored)
        self.collector.ack(tuple)


class Relay(_ReportingBolt):
    """Emits tuples per input on each stream, and an unanchored one if `loose`. May misbehave."""

    def __init__(
        self,
        truth: Truth,
        children: int = 1,
        side: int = 0,
        loose: bool = False,
        faults: BoltFaults = NO_FAULTS,
    ) -> None:
        super().__init__(truth)
        self.children, self.side, self.loose, self.faults = children, side, loose, faults

    def execute(self, tuple: Tuple) -> Maybe:
        fault = self.faults.strike(self.truth, self.context.component, tuple)
        if fault == "fail":
            self.collector.fail(tuple)
            return None
        anchored = [self.tell_emit(tuple, tuple) for _ in range(self.children)]
        if fault == "raise":
            raise ValueError("as told")
        anchored += [self.tell_emit(tuple, tuple, SIDE) for _ in range(self.side)]
        if self.loose:
            self.tell_emit(tuple, None)
        if fault != "forget":
            self.tell_ack(tuple, anchored)
        return None


class BatchRelay(Relay):
    """A `Relay` for whole frames. A fault of a tuple makes the batch raise.

    If `late`, it acks batches only on ticks.
    """

    late = False

    def prepare(
        self, config: Config, context: TopologyContext, collector: OutputCollector
    ) -> Maybe:
        self.held: list[tuple[TupleBatch, list[tuple[int, list[int]]]]] = []
        return super().prepare(config, context, collector)

    def execute(self, tuple: Tuple) -> Maybe:
        """Execute a single tuple, or one whose batch has raised."""
        if not tuple.is_tick:
            return super().execute(tuple)
        for batch, runs in self.held:
            self._ack(batch, runs)
        self.held.clear()
        self.faults.refuse_to_tick(self.truth, self.context.component)
        return None

    def execute_batch(self, batch: TupleBatch) -> Maybe:
        """Emit a batch on each stream and unanchored tuples if `loose`, then ack."""
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
        return None

    def _emit(
        self,
        batch: TupleBatch,
        positions: list[int],
        anchors: TupleBatch | None,
        stream: str = "default",
    ) -> list[int]:
        emits = [self.truth.new_emit() for _ in positions]
        columns = [[batch[field][position] for position in positions] for field in FIELDS[:2]]
        at = None if anchors is None else positions
        self.truth.sent_batch(
            emits, self.collector.emit_batch((*columns, emits), anchors, at, stream)
        )
        return emits

    def _ack(self, batch: TupleBatch, runs: list[tuple[int, list[int]]]) -> None:
        for emit, anchored in runs:
            self.truth.executed(emit, self.context.task_id, anchored)
        self.collector.ack_batch(batch)


class LateRelay(BatchRelay):
    """Needs tick tuples."""

    late = True


class Join(_ReportingBolt):
    """Joins the two halves of an attempt, and emits a tuple anchored to both."""

    def __init__(self, truth: Truth, faults: BoltFaults = NO_FAULTS) -> None:
        super().__init__(truth)
        self.faults = faults
        self.held: dict[int, Tuple] = {}

    def execute(self, tuple: Tuple) -> None:
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


class Collect(_ReportingBolt):
    """Holds tuples of any messages. When it has enough, or on a tick, emits one anchored to all."""

    def __init__(self, truth: Truth, enough: int, faults: BoltFaults = NO_FAULTS) -> None:
        super().__init__(truth)
        self.enough, self.faults = enough, faults
        self.held: list[Tuple] = []

    def execute(self, tuple: Tuple) -> None:
        if not tuple.is_tick:
            self.held.append(tuple)
        if self.held and (tuple.is_tick or len(self.held) >= self.enough):
            together = self._emit_together(tuple)
            for held in self.held:
                self.tell_ack(held, [together])
            self.held = []
        if tuple.is_tick:
            self.faults.refuse_to_tick(self.truth, self.context.component)

    def _emit_together(self, tuple: Tuple) -> int:
        try:
            return self.tell_emit(self.held[-1], [*self.held, self.held[0]])
        # The tuple fails, and every later emit that is anchored to it would be refused.
        except EmitError:
            if not tuple.is_tick:
                self.held.pop()
            raise


class Tally(StatefulBasicBolt):
    """Counts messages in its state. Every acked message must be in it."""

    def __init__(self, truth: Truth, faults: BoltFaults = NO_FAULTS) -> None:
        self.truth, self.faults = truth, faults

    def prepare(self, config: Config, context: TopologyContext) -> Maybe:
        self.faults.refuse_to_begin(self.truth, context)
        return super().prepare(config, context)

    def cleanup(self) -> Maybe:
        self.faults.refuse_to_end()
        return None

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*FIELDS)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> Maybe:
        self.count(tuple)
        self.pass_on(tuple, collector)
        return None

    def count(self, tuple: Tuple) -> None:
        """Count the tuple, or fail it."""
        if self.faults.strike(self.truth, self.context.component, tuple):
            raise FailedException("as told")
        # Messages share keys, so a stale write would affect other messages too.
        key = str(tuple["message"] % 2)
        self.state.put(key, [*self.state.get(key, []), tuple["message"]])
        self._move_newest(f"newest {tuple['emit']}")

    def pass_on(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        emit = self.truth.new_emit()
        self.truth.sent(emit, collector.emit([tuple["message"], tuple["attempt"], emit]))
        self.truth.executed(tuple["emit"], self.context.task_id, [emit])
        # An untracked tuple may be lost if only a zombie executes it successfully.
        if tuple.root:
            self.truth.counted.add((self.context.component, tuple["message"]))

    def init_state(self, state: KeyValueState) -> None:
        """Check that the recovered state is one that existed."""
        super().init_state(state)
        if len(self.newest()) > 1:
            self.truth.violations.append("keys that had been deleted came back")

    def _move_newest(self, key: str) -> None:
        """Replace the only `newest` key by another, at each tuple."""
        for before in self.newest():
            self.state.delete(before)
        self.state.put(key, [])

    def newest(self) -> list[str]:
        return [key for key, _ in self.state.items() if key.startswith("newest")]

    def counted(self) -> set[Message]:
        return {message for _, messages in self.state.items() for message in messages}
