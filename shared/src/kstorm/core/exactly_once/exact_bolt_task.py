"""A bolt task with exactly-once processing: failed executions are undone and retried here."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, cast

from msgspec.structs import replace

from kstorm.core.bolt_task import BoltTask, Sources, tuples_of
from kstorm.core.dead_letters import (
    FAILED,
    UNDECODABLE,
    DeadLetter,
    LetterError,
    LetterToStore,
    error_of,
    kind_of,
    roots_of,
)
from kstorm.core.exactly_once.exact_collector import ExactCollector
from kstorm.core.exactly_once.located_tuples import LocatedBatch, LocatedTuple
from kstorm.core.exactly_once.recent_input import Inputs, RecentInput
from kstorm.core.exactly_once.undoable_state import UndoableState
from kstorm.core.exactly_once.unfinished import UnfinishedTuple, UnfinishedTuples
from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import Headers, Part, SinkRecords
from kstorm.core.record_size import all_short, too_large
from kstorm.core.sendable import shown_values
from kstorm.core.task_collectors import BoltCollector
from kstorm.core.user_code import Steps
from kstorm.core.wire import SalvagedFrame, TupleFrame
from kstorm.errors import BrokerError, PermanentError, UnsendableError
from kstorm.topology import Tuple, TupleBatch


class ExactBoltTask(BoltTask):
    """Like `BoltTask`. The driver also provides its state and requests due retries."""

    make_collector: ClassVar[type[BoltCollector]] = ExactCollector
    collector: ExactCollector

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._begin, self._end = self.collector.begin, self.collector.end
        self.collector.retry_failing = self._try_failing_again
        self.rows = UnfinishedTuples()
        """The unfinished tuples."""
        self.recent = RecentInput(lambda frame, at: _located(self._sources(frame), frame, at))
        """The input since the last cut."""
        self.now = 0.0
        """Seconds of the driver's clock, set by the driver."""
        self.retried = 0
        """Executions that were retries."""
        self._topic = self.topology.bolt_topic(self.component)

    @property
    def state(self) -> UndoableState | None:
        """The state of a stateful bolt once it is loaded. The collector undoes its changes."""
        return self.collector.state

    @state.setter
    def state(self, state: UndoableState | None) -> None:
        self.collector.state = state

    def _tuples(self, sources: Sources, frame: TupleFrame, offset: int) -> Iterable[Tuple]:
        located = _located(sources, frame, offset)
        return located if self._acks_itself else self._watched(located)

    def _batch(
        self, sources: Sources, columns: list[list[Any]], ids: tuple[Any, Any], offset: int
    ) -> TupleBatch:
        return LocatedBatch(sources.source, columns, ids, offset, sources.runs)

    # The end of an execution.

    def _watched(self, tuples: Iterable[Tuple]) -> Iterable[Tuple]:
        located = cast("list[LocatedTuple]", list(tuples))
        self.rows.watch(located)
        return located

    @property
    def _hold(self) -> None:
        """Return None, because tuples are tracked from the start of their execution."""
        return None

    def _hold_batch(self, batch: TupleBatch) -> None:
        self.rows.watch_batch(cast("LocatedBatch", batch))

    def _undo_batch(self) -> Steps:
        """Drop the actions of a batch, and undo its changes of the state."""
        yield from self._remind(_apart(self.collector.take_back()))

    def _failed(self, tuple: Tuple, error: Exception | None) -> Sequence[LocatedTuple]:
        """Undo an execution and schedule its tuple for a retry.

        Returns tuples that must be executed again. The bolt held them, and acked or failed them in
        this execution, so it may have dropped them.
        """
        if self._basic.position >= 0:
            self.collector.drop_emits_at(self._basic.position)
        others = self._take_back(tuple, error)
        if isinstance(tuple, LocatedTuple):
            self._try_again(tuple, error)
        return others

    def _take_back(self, tuple: Tuple, error: Exception | None) -> list[LocatedTuple]:
        others = [other for other in self.collector.take_back() if other is not tuple]
        self._report(tuple, error)
        self.collector.failed += 1
        return _apart(others)

    def _try_failing_again(self) -> None:
        """Schedule retries of held tuples that the bolt has failed outside their own execution."""
        failing, self.collector.failing = self.collector.failing, []
        for tuple in failing:
            if not tuple.finished:
                self.collector.failed += 1
                self._try_again(tuple, None)

    def _try_again(self, tuple: LocatedTuple, error: Exception | None) -> None:
        following = self._next_attempt(tuple, error)
        if following is not None:
            self.rows.wait(following, self.now + self._pause_before(following.attempts))

    def _next_attempt(self, tuple: LocatedTuple, error: Exception | None) -> LocatedTuple | None:
        """Return the tuple for its next attempt, or None if it is now a dead letter."""
        following = tuple.again(tuple.attempts + 1)
        tuple.finished = True
        permanent = isinstance(error, PermanentError)
        if following.attempts <= self.config.topology_bolt_retry_limit and not permanent:
            return following
        self._give_up(following, error)
        return None

    def _pause_before(self, attempt: int) -> float:
        config = self.config
        try:
            growth = float(config.topology_bolt_retry_delay_multiplier) ** (attempt - 1)
        except OverflowError:  # after about a thousand attempts, for example
            growth = sys.float_info.max
        grown = config.topology_bolt_retry_initial_delay_ms * growth
        return min(grown, config.topology_bolt_retry_delay_max_ms) / 1000

    def _give_up(self, tuple: LocatedTuple, error: Exception | None) -> None:
        """Write the tuple to the dead letters and ack it, so that its tree does not wait for it."""
        permanent = isinstance(error, PermanentError)
        self._write_letter(
            tuple.offset,
            f"failed, and would fail again: {_why(error)}"
            if permanent
            else f"failed {tuple.attempts} times: {_why(error)}",
            tuple.source_component,
            value=_shown(tuple),
            attempts=tuple.attempts,
            kind=kind_of(error) if isinstance(error, UnsendableError) else FAILED,
            error=LetterError() if error is None else error_of(error),
            row=tuple.row,
            roots=roots_of(tuple.roots()),
        )
        self.collector.ack(tuple)
        self.collector.acked -= 1

    def inputs_of(self, roots: Set[int]) -> Inputs:
        """Return the tuples of these trees that were executed since the last cut, or are held."""
        return self.recent.find(roots, self.rows.tracked())

    def with_input(self, letter: DeadLetter, roots: Set[int], inputs: Inputs) -> DeadLetter:
        """Add the coordinates of the input to the letter of a tuple of these trees."""
        found = [tuple for root in roots for tuple in inputs.get(root, ())]
        if not found:
            return letter
        first = min(found, key=attrgetter("offset", "row"))
        count, attempts = len({(tuple.offset, tuple.row) for tuple in found}), first.attempts + 1
        letter = replace(
            letter,
            topic=self._topic,
            partition=self.task_index,
            offset=first.offset,
            row=first.row,
            attempts=attempts,
        )
        if count == 1:
            return replace(letter, value=_shown(first))
        others = f"it was emitted for this tuple or for one of {count - 1} others of its trees"
        return replace(letter, reason=f"{letter.reason}; {others}")

    def _write_letter(self, offset: int, reason: str, source: str, **more: Any) -> None:
        self.outbox.letters.append(
            LetterToStore(
                DeadLetter(
                    topology=self.topology.name,
                    component=self.component,
                    task=self.task_id,
                    reason=f"a tuple of {source!r} {reason}",
                    topic=self._topic,
                    partition=self.task_index,
                    offset=offset,
                    **more,
                )
            )
        )

    def _lose(self, frame: SalvagedFrame, offset: int) -> None:
        super()._lose(frame, offset)
        reason = f"cannot be decoded ({frame.lost} tuples of its frame cannot): {frame.reason}"
        self._write_letter(
            offset, reason, frame.component, kind=UNDECODABLE, roots=roots_of(frame.lost_pairs)
        )

    def write(
        self,
        topic: str,
        keys: Sequence[str | bytes | None],
        values: Sequence[str | bytes | None],
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        """Write records of a sink. They are sent with the task's other results if the current
        execution succeeds.

        The producer chooses the partitions by the keys. Raises `BrokerError` if a record is too
        large for any transaction. None of the records is written then.
        """
        records = SinkRecords(topic, keys, values, headers, self.task_id)
        if headers is not None or not all_short(keys, values):
            for record in records:
                if problem := too_large(record):
                    raise BrokerError(f"a record for topic {topic!r} cannot be written: {problem}")
        self.collector.keep(
            partial(_add, self.outbox, records.at(0) if len(records) == 1 else records)
        )

    def first_unfinished(self) -> int | None:
        return self.rows.first_offset(exact=self._acks_itself)

    # Unfinished tuples.

    def retry_is_due(self, now: float) -> bool:
        """Return True if `retry` has something to do."""
        return self.rows.is_due(now) or bool(self.collector.failing)

    def retry(self, now: float) -> Steps:
        """Execute the tuples whose retry is due."""
        self.now = now
        self._try_failing_again()  # tuples that the bolt failed outside any execution
        due = self.rows.take_due(now)
        self.recent.add_retried(due)
        self.retried += len(due)
        tuples: Iterable[Tuple] = due
        if not self._acks_itself:
            tuples = self._watched(tuples)
        yield from self._execute_tuples(tuples, self._acks_itself)

    def resume(
        self,
        left: Sequence[tuple[int, TupleFrame, Sequence[UnfinishedTuple]]],
        written: Mapping[bytes, bytes],
    ) -> Steps:
        """Continue the unfinished work of the task's previous owner.

        `left` has the offset, the frame and the unfinished tuples of each frame. `written` are the
        pairs that store this. Raises `FrameError` if a frame is not for this bolt.
        """
        self.rows = UnfinishedTuples(written.items())
        found = [
            one
            for offset, frame, rows in left
            for one in _at_rows(self._sources(frame), frame, offset, rows)
        ]
        held = [tuple for tuple, row in found if not row.waits]
        # The previous owner counted their first execution, and this task will count their acks.
        self.executed += len(held)
        yield from self._remind(held)
        for tuple, row in found:
            if row.waits:
                self.rows.wait(tuple, self.now)

    def _remind(self, tuples: Sequence[LocatedTuple]) -> Steps:
        """Execute the tuples that the bolt held again, to restore its memory.

        Their effects were committed at the first execution. So an execution takes effect only if it
        finishes a tuple, because that is new. Before the bolt has received all of these tuples,
        nothing else is executed. So if the bolt raises an error on one, that tuple is retried
        immediately.
        """
        waiting = deque(tuples)
        while waiting:
            tuple, error = waiting.popleft(), None
            self.rows.watch([tuple])
            self.collector.begin()
            try:
                pending = self._execute(tuple)
                if pending is not None:
                    yield pending
            except Exception as raised:  # noqa: BLE001 - as in every execution
                error = raised
            if error is not None or tuple in self.collector.failing:
                others = self._take_back(tuple, error)
                following = self._next_attempt(tuple, error)
                self.executed += following is not None
                waiting.extendleft(reversed([*others, *([] if following is None else [following])]))
            elif self.collector.acks_any:
                self.collector.end()
            else:
                failing = self.collector.failing
                self.collector.take_back()
                # The bolt has failed tuples that it held. This is not undone with the other
                # actions.
                self.collector.failing = failing
                self._try_failing_again()


def _located(sources: Sources, frame: TupleFrame, offset: int) -> Iterator[LocatedTuple]:
    for row, tuple in enumerate(tuples_of(sources, frame)):
        yield LocatedTuple(
            tuple.values, tuple.source, tuple.root, tuple.edge, tuple.more, offset=offset, row=row
        )


def _at_rows(
    sources: Sources, frame: TupleFrame, offset: int, rows: Sequence[UnfinishedTuple]
) -> Iterator[tuple[LocatedTuple, UnfinishedTuple]]:
    tuples = list(_located(sources, frame, offset))
    for row in rows:
        tuple = tuples[row.row]
        tuple.attempts, tuple.ack_val = row.attempts, row.ack_val
        yield tuple, row


def _apart(tuples: Sequence[LocatedTuple]) -> list[LocatedTuple]:
    """Return copies of the tuples. Later calls of the bolt with the originals have no effect."""
    others = [tuple.again(tuple.attempts) for tuple in tuples]
    for tuple in tuples:
        tuple.finished = True
    return others


def _shown(tuple: LocatedTuple) -> bytes:
    return shown_values(
        {"stream": tuple.source_stream, "row": tuple.row, "values": tuple.as_dict()}
    )


def _why(error: Exception | None) -> str:
    return "the bolt failed it" if error is None else f"{type(error).__name__}: {error}"


def _add(outbox: Outbox, records: Part) -> None:
    outbox.records.append(records)
