"""A bolt task with exactly-once processing: failed executions are undone and retried here."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

from kstorm.core.bolt_task import BoltTask, tuples_of
from kstorm.core.collectors import BoltCollector
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
from kstorm.core.exact.collector import ExactCollector
from kstorm.core.exact.state import UndoableState
from kstorm.core.exact.tuples import LocatedBatch, LocatedTuple
from kstorm.core.exact.unfinished import Left, Unfinished
from kstorm.core.outbox import Outbox
from kstorm.core.outgoing import Headers, Part, SinkRecords
from kstorm.core.sendable import shown_values
from kstorm.core.sizes import all_short, too_large
from kstorm.core.tasks import Steps
from kstorm.core.wire import Salvaged, TupleFrame
from kstorm.errors import (
    BrokerError,
    FailedException,
    PermanentError,
    ReportedFailedException,
    UnsendableError,
)
from kstorm.topology import Source, Tuple, TupleBatch


class ExactBoltTask(BoltTask):
    """Like `BoltTask`. The driver also provides its state and requests due retries."""

    make_collector: ClassVar[type[BoltCollector]] = ExactCollector
    collector: ExactCollector

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.state: UndoableState | None = None
        """Set for a stateful bolt once its state is loaded."""
        self.rows = Unfinished()
        """The unfinished tuples."""
        self.now = 0.0
        """Seconds of the driver's clock, set by the driver."""
        self.retried = 0
        """Executions that were retries."""
        self._topic = self.topology.bolt_topic(self.component)

    # Executions.

    def _tuples(self, source: Source, frame: TupleFrame, offset: int) -> Iterable[Tuple]:
        tuples = list(_located(source, frame, offset))
        if not self._acks_itself:
            self.rows.watch(tuples)
        return tuples

    def _batch(
        self, source: Source, columns: list[list[Any]], ids: tuple[Any, Any], offset: int
    ) -> TupleBatch:
        return LocatedBatch(source, columns, ids, offset)

    def _execute_columns(self, batch: TupleBatch) -> Steps:
        """Execute the frame as one batch.

        If that raises or the bolt fails the batch, the state changes are undone too. The tuples are
        then executed one by one.
        """
        batch, collector, pending = cast("LocatedBatch", batch), self.collector, None
        self._begin_state()
        collector.stage(batch)
        try:
            pending = self._execute_batch(batch)  # type: ignore[misc]
            if pending is not None and pending is not NotImplemented:
                yield pending
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            if not isinstance(error, FailedException):
                self._on_error(
                    error,
                    f"executing a batch of {len(batch)} tuples of {batch.source.component!r}, "
                    "which are now executed one by one",
                )
            pending = NotImplemented
        self._basic.batch = None
        if pending is NotImplemented or collector.batch_failed:
            others = _apart(collector.take_back())
            self._take_back_state()
            yield from self._remind(others)
            yield from self._execute_one_by_one(batch)
            return
        collector.end()
        self.executed += len(batch)
        if self._acks_itself:
            collector.ack_batch(batch)
        else:
            self.rows.watch_batch(batch)
            self._try_failing_again()

    def _execute_one_by_one(self, batch: TupleBatch) -> Steps:
        located = cast("LocatedBatch", batch)
        if self._acks_itself:
            failed: list[int] = []
            yield from self._execute_tuples(located.tuples(), failed=failed)
            self._basic.position = -1
            self.collector.finish_frame(batch, failed)
        else:
            self.rows.watch(located.tuples())
            yield from self._execute_tuples(located.tuples())

    def _execute_tuples(
        self, tuples: Iterable[Tuple], acks: bool = False, failed: list[int] | None = None
    ) -> Steps:
        basic, execute, collector, state = self._basic, self._execute, self.collector, self.state
        next_pause = self.pause_every
        for position, tuple in enumerate(tuples):
            if position >= next_pause:
                next_pause = position + self.pause_every
                yield None
            self.executed += 1
            emitted = collector.emitted
            if failed is not None:
                basic.position = position
            if state is not None:
                state.begin()
            collector.begin()
            error: Exception | None = None
            try:
                pending = execute(tuple)
                if pending is not None:
                    yield pending
            except Exception as raised:  # noqa: BLE001 - user code may raise anything: the tuple fails, the task continues
                error = raised
            if error is None and tuple not in collector.failing:
                # Success: all actions of the execution take effect.
                if acks:
                    collector.ack(tuple)
                collector.end()
                if collector.failing:
                    self._try_failing_again()
                continue
            # Failure: undo the execution and schedule its tuple for another one.
            if failed is not None:
                failed.append(position)
                collector.drop_emits_at(position)
            collector.emitted = emitted
            yield from self._remind(self._fail_execution(tuple, error))

    def _fail_execution(self, tuple: Tuple, error: Exception | None) -> list[LocatedTuple]:
        """Undo an execution and schedule its tuple for a retry.

        Returns tuples that the bolt must get again: it held them, and acked or failed them in this
        execution. So it may have forgotten them.
        """
        others = self._take_back(tuple, error)
        if isinstance(tuple, LocatedTuple):
            self._try_again(tuple, error)
        return others

    def _take_back(self, tuple: Tuple, error: Exception | None) -> list[LocatedTuple]:
        others = [other for other in self.collector.take_back() if other is not tuple]
        self._take_back_state()
        if error is not None and (
            not isinstance(error, FailedException) or isinstance(error, ReportedFailedException)
        ):
            self._on_error(error, f"executing a tuple of {tuple.source_component!r}")
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
        content = {"stream": tuple.source_stream, "row": tuple.row, "values": tuple.as_dict()}
        permanent = isinstance(error, PermanentError)
        self._write_letter(
            tuple.offset,
            f"failed, and would fail again: {_why(error)}"
            if permanent
            else f"failed {tuple.attempts} times: {_why(error)}",
            tuple.source_component,
            value=shown_values(content),
            attempts=tuple.attempts,
            kind=kind_of(error) if isinstance(error, UnsendableError) else FAILED,
            error=LetterError() if error is None else error_of(error),
            row=tuple.row,
            roots=roots_of(tuple.roots()),
        )
        self.collector.ack(tuple)
        self.collector.acked -= 1

    def _write_letter(self, offset: int, reason: str, source: str, **more: Any) -> None:
        self._outbox.letters.append(
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

    def _lose(self, frame: Salvaged, offset: int) -> None:
        super()._lose(frame, offset)
        reason = f"cannot be decoded ({frame.lost} tuples of its frame cannot): {frame.reason}"
        self._write_letter(
            offset, reason, frame.component, kind=UNDECODABLE, roots=roots_of(frame.lost_pairs)
        )

    def _begin_state(self) -> None:
        if self.state is not None:
            self.state.begin()

    def _take_back_state(self) -> None:
        if self.state is not None:
            self.state.take_back()

    def write(
        self,
        topic: str,
        keys: Sequence[str | bytes | None],
        values: Sequence[str | bytes | None],
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        """Write records of a sink. They leave with the task's sends if the current execution
        succeeds.

        The producer chooses the partitions by the keys. Raises `BrokerError` if a record is too
        large for any transaction. None of the records is written then.
        """
        records = SinkRecords(topic, keys, values, headers, self.task_id)
        if headers is not None or not all_short(keys, values):
            for record in records:
                if problem := too_large(record):
                    raise BrokerError(f"a record for topic {topic!r} cannot be written: {problem}")
        self.collector.keep(
            partial(_add, self._outbox, records.at(0) if len(records) == 1 else records)
        )

    # Unfinished tuples.

    def retry_is_due(self, now: float) -> bool:
        """Return True if `retry` has something to do."""
        return self.rows.is_due(now) or bool(self.collector.failing)

    def retry(self, now: float) -> Steps:
        """Execute the tuples whose retry is due."""
        self.now = now
        self._try_failing_again()  # tuples that the bolt failed outside any execution
        tuples = self.rows.take_due(now)
        self.retried += len(tuples)
        if not self._acks_itself:
            self.rows.watch(tuples)
        yield from self._execute_tuples(tuples, self._acks_itself)

    def resume(
        self, left: Sequence[tuple[int, TupleFrame, Sequence[Left]]], written: Mapping[bytes, bytes]
    ) -> Steps:
        """Continue the unfinished work of the task's previous owner.

        `left` has the offset, the frame and the unfinished tuples of each frame. `written` are the
        pairs that store this. Raises `FrameError` if a frame is not for this bolt.
        """
        self.rows = Unfinished(written.items())
        found = [
            one
            for offset, frame, rows in left
            for one in _at_rows(self._source(frame), frame, offset, rows)
        ]
        yield from self._remind([tuple for tuple, row in found if not row.waits])
        for tuple, row in found:
            if row.waits:
                self.rows.wait(tuple, self.now)

    def _remind(self, tuples: Sequence[LocatedTuple]) -> Steps:
        """Execute tuples again that the bolt held, to restore its memory.

        Their effects were committed at the first execution. So an execution only takes effect if it
        finishes a tuple, because that is new. Nothing else is executed before the bolt has all of
        them again. So if the bolt raises on one, that tuple is retried immediately.
        """
        waiting = deque(tuples)
        while waiting:
            tuple, error = waiting.popleft(), None
            self.rows.watch([tuple])
            self._begin_state()
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
                waiting.extendleft(reversed([*others, *([] if following is None else [following])]))
            elif self.collector.acks_any:
                self.collector.end()
                self._try_failing_again()
            else:
                failing = self.collector.failing
                self.collector.take_back()
                self._take_back_state()
                # The bolt gives up tuples that it held. That is not undone with the rest.
                self.collector.failing = failing
                self._try_failing_again()


def _located(source: Source, frame: TupleFrame, offset: int) -> Iterator[LocatedTuple]:
    for row, tuple in enumerate(tuples_of(source, frame)):
        yield LocatedTuple(
            tuple.values, source, tuple.root, tuple.edge, tuple.more, offset=offset, row=row
        )


def _at_rows(
    source: Source, frame: TupleFrame, offset: int, rows: Sequence[Left]
) -> Iterator[tuple[LocatedTuple, Left]]:
    tuples = list(_located(source, frame, offset))
    for row in rows:
        tuple = tuples[row.row]
        tuple.attempts, tuple.ack_val = row.attempts, row.ack_val
        yield tuple, row


def _apart(tuples: Sequence[LocatedTuple]) -> list[LocatedTuple]:
    """Return copies of the tuples. Whatever the bolt still does with the originals has no effect."""
    others = [tuple.again(tuple.attempts) for tuple in tuples]
    for tuple in tuples:
        tuple.finished = True
    return others


def _why(error: Exception | None) -> str:
    return "the bolt failed it" if error is None else f"{type(error).__name__}: {error}"


def _add(outbox: Outbox, records: Part) -> None:
    outbox.records.append(records)
