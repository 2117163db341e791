"""Tracks one source partition: messages read, messages in flight, and the offset to store.

Modeled on the `PartitionManager` in Storm's documentation, *Storm Kafka Integration*.

**The stored offset never passes an unfinished message.**

A message is finished when all its tuple trees are complete, when it produced no tuples, or when the
broker has its dead letter. With `NO_GUARANTEE` it is finished once it is emitted. With
`AT_MOST_ONCE` the rule is reversed: **no message is emitted before an offset beyond it is stored.**

Unfinished messages are kept in emission order. This is offset order, because a retried message
keeps its place. So the first one has the lowest unfinished offset. Offsets that were never emitted
(compacted away or transaction markers) do not block progress, because only emitted ones are
tracked. `kstorm.kafka.finished_ranges` records the outcome of each offset.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from math import inf
from typing import Any

from msgspec import Struct

from kstorm.core.dead_letters import REFUSED, UNDECODABLE, kind_of, text_of
from kstorm.core.failure_notes import note_of
from kstorm.errors import NotYetError
from kstorm.kafka.completed_ranges import CompletedRanges, Run, runs_between
from kstorm.kafka.config import ProcessingGuarantee, SpoutConfig
from kstorm.kafka.emitting import emit_message, explain_unemittable
from kstorm.kafka.failures import Cause, Failures
from kstorm.kafka.finished_ranges import ACKED, OffsetOutcomes
from kstorm.kafka.message import UndecodableBatch, UndecodableBatchError
from kstorm.kafka.message_id import KafkaMessageId
from kstorm.kafka.partition_times import PartitionTimes
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.kafka.scheme import Values, deserializer
from kstorm.topology import SpoutOutputCollector
from kstorm.topology.positioned import LetterContent


class _Pending(Struct, gc=False):
    """An unfinished message."""

    message: SourceMessage
    since: float
    """Time of the first emission."""
    attempt: int
    """Number of emissions."""
    trees: int
    """Incomplete trees of this attempt. 0 while waiting for the retry or dead letter."""


class PartitionManager:
    """Emits the messages of one partition and tracks up to which offset they are finished.

    `offset` is the first one to emit. `stored` is the one in the offset store, if any, and `done`
    are the finished runs above it. `rest` is the outcome of finished messages that are not an
    exception. `unix_ms` is the current time. `times` are the messages' event times, if used.
    """

    def __init__(
        self,
        partition: Partition,
        config: SpoutConfig,
        collector: SpoutOutputCollector,
        *,
        offset: int,
        stored: int | None = None,
        done: Sequence[Run] = (),
        epoch: int = 0,
        rest: str = ACKED,
        unix_ms: int = 0,
        times: PartitionTimes | None = None,
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.waiting: deque[SourceMessage] = deque()
        """Messages that were read but not emitted yet."""
        self.next_offset = offset
        """The next offset to emit, which is one more than the highest emitted one."""
        self.committed_to = stored
        """The offset that was last passed to the store."""
        self.stored_above = list(done)
        """The finished runs above `committed_to` that were last passed to the store."""
        self.paused = False
        """True if the spout has paused fetching of this partition."""
        self.times = times
        self.most_to_store: float = inf
        """Upper limit for the stored offset, even if later messages are finished."""
        self.claimed = offset
        """With `AT_MOST_ONCE`: end of the messages to emit once this offset is stored."""
        self._claims = config.processing_guarantee is ProcessingGuarantee.AT_MOST_ONCE
        self._tracks = config.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
        # Messages below this offset may be emitted.
        self._granted: float = offset if self._claims else inf
        start = offset if stored is None else stored
        self.outcomes = OffsetOutcomes(start, offset, rest=rest, claims=self._claims, now=unix_ms)
        """Outcomes of the offsets after the last confirmed range."""
        self.not_yet: NotYetError | None = None
        """The reason why the next message cannot be read yet, or None if it can."""
        self.failures = Failures(partition, config, collector)
        self._pending: dict[int, _Pending] = {}
        self._collector = collector
        self._stream = config.output_stream_id
        self._deserialize = deserializer(config.scheme, config.max_message_bytes)
        self._max_uncommitted = config.max_uncommitted_offsets
        self._above = CompletedRanges(done)
        # The partition contains no message from the last one read up to this offset.
        self._end = offset
        # Lower bound of `last_completed_offset`, so that the limit needs no search per message.
        self._floor = offset

    def fill(self, messages: Iterable[SourceMessage]) -> None:
        """Append messages that were read from this partition."""
        self.waiting.extend(messages)

    def end_reached(self, end: int) -> None:
        """Note that the partition contains no message from the last one read up to `end`."""
        self._end = end
        self._step_over()

    def _step_over(self) -> None:
        """Skip the offsets at the end that have no message, once all messages are emitted."""
        if self.next_offset < self._end and not self.waiting:
            self.outcomes.gap(self.next_offset, self._end)
            self.next_offset = self._end
            if self._claims:
                self.claimed = max(self.claimed, self._end)

    def retry(self, now: float) -> bool:
        """Emit one message whose retry is due. Returns True if one was readable."""
        offset = self.failures.due(now)
        if offset is None:
            return False
        pending = self._pending.get(offset)
        if pending is None or pending.trees:
            self.failures.done(offset)  # a custom policy returned a message that does not wait
            return False
        found: Sequence[Values] | Exception
        try:
            found = list(self._deserialize(pending.message) or ())
        except NotYetError as error:
            # The retry stays due, and does not count as an attempt.
            self.not_yet = error
            return False
        except Exception as error:  # noqa: BLE001 - a user's scheme may raise anything
            found = error
        self.failures.retry_started(offset)
        pending.attempt += 1
        if isinstance(found, Exception):
            self._give_up_unreadable(pending, offset, found)
        elif not found:
            self.outcomes.empty(offset)
            self._finish(offset)
        else:
            self._emit_again(pending, offset, found)
        return True

    def take(
        self, now: float, limit: int, room: int, rows: list[Values], ids: list[KafkaMessageId]
    ) -> int:
        """Take up to `limit` messages for one `emit_batch`.

        Their tuples are appended to `rows` and a message id per tuple to `ids`, until it has `room`
        entries. Returns the number of messages.
        """
        waiting, pending, taken, already = self.waiting, self._pending, 0, len(rows)
        partition, epoch, most = self.partition, self.epoch, self._max_uncommitted
        self.not_yet = None
        while waiting and taken < limit and len(ids) < room:
            # The first condition is cheap, and nearly always sufficient.
            if self.next_offset - self._floor >= most and self.at_limit:
                break
            message = waiting[0]
            offset = message.offset()
            if offset >= self._granted:
                break
            waiting.popleft()
            if offset != self.next_offset:
                # The reader was set back, so this message has already been emitted.
                if offset < self.next_offset:
                    continue
                self.outcomes.gap(self.next_offset, offset)
            self.next_offset = offset + 1
            if offset < self._above.end and self._above.has(offset):
                if self.times is not None:
                    self.times.emitted_before(self.next_offset, message, self._deserialize)
                continue
            unfinished = _Pending(message, now, 1, 0)
            try:
                tuples = self._tuples_of(unfinished, offset)
            except NotYetError as error:
                self.not_yet = error
                self.next_offset = offset
                waiting.appendleft(message)
                break
            if tuples:
                taken += 1
                unfinished.trees = len(tuples)
                pending[offset] = unfinished
                id = KafkaMessageId(partition, offset, epoch, 1)
                rows += tuples
                ids += (id,) if len(tuples) == 1 else repeat(id, len(tuples))
        if self.times is not None and len(rows) > already:
            self.times.emitted_rows(self.next_offset, rows[already:])
        self._step_over()
        return taken

    def refused(self, id: KafkaMessageId, reason: str, error: Exception | None = None) -> None:
        """Give up a taken message that cannot be emitted, because of `error` if there is one."""
        pending = self._pending.get(id.offset)
        if pending is not None and pending.trees:
            pending.trees = 0
            cause = (REFUSED, None) if error is None else (kind_of(error), note_of(0, error))
            self._give_up(pending, id.offset, reason, cause)

    def ack(self, id: KafkaMessageId) -> None:
        """Complete a tree of a message. Ignores ids of failed attempts and unknown messages."""
        pending = self._pending.get(id.offset)
        if pending is None or pending.attempt != id.attempt or not pending.trees:
            return
        pending.trees -= 1
        if not pending.trees:
            del self._pending[id.offset]
            if pending.attempt > 1:
                self.failures.done(id.offset)

    def fail(self, id: KafkaMessageId, now: float) -> None:
        """Fail a tree of a message. The message is retried later or becomes a dead letter."""
        pending = self._pending.get(id.offset)
        if pending is None or pending.attempt != id.attempt or not pending.trees:
            return
        pending.trees = 0
        given_up = self.failures.failed(id.offset, pending.attempt, self.next_offset, now)
        if given_up is not None:
            self._give_up(pending, id.offset, *given_up)

    def content_of(self, id: KafkaMessageId) -> LetterContent:
        """Return the content of an unfinished message with one tuple, otherwise nothing."""
        pending = self._pending.get(id.offset) if id.epoch == self.epoch else None
        if pending is None or pending.trees != 1:
            return {}
        key, value, headers = (message := pending.message).key(), message.value(), message.headers()
        stamped, stamp = message.timestamp()
        return LetterContent(
            key=key, value=value, headers=text_of(headers), timestamp=stamp if stamped else 0
        )

    def grant(self, stored: int | None) -> None:
        """With `AT_MOST_ONCE`, allow messages below `stored` if that is the claimed offset.

        Then claim the messages that wait after it, so that their end is the next offset to store.
        """
        if self.claimed in (self._granted, stored):
            self._granted = self.claimed
            if self.waiting:
                self.claimed = max(self.claimed, self.read_to)

    def give_back(self) -> None:
        """Stop: claimed but unemitted messages go to the next owner. Only `commit` may follow."""
        self.claimed = self.next_offset
        self.waiting.clear()

    def commit(self) -> int | None:
        """Return the offset to store, or None if it has not changed."""
        completed = self.claimed if self._claims else self.last_completed_offset
        completed = self.outcomes.most(int(min(completed, self.most_to_store)))
        if completed == self.committed_to:
            return None
        self.committed_to = completed
        return completed

    def done_above(self, offset: int) -> list[Run]:
        """Return the acked runs above `offset`, which is at most `last_completed_offset`."""
        but = sorted(
            [*((each, each + 1) for each in self._pending), *self.outcomes.exceptions(offset)]
        )
        runs = runs_between(offset + 1, self.next_offset, but)
        return self._above.added_to(runs, self.next_offset)

    def left_above(self, offset: int) -> list[Run]:
        """Return the former owner's acked runs from `offset` on, which this task has not stored."""
        return self._above.added_to([], offset)

    def pass_over(self, first: int, end: int, why: str) -> int:
        """Queue a dead letter for the undecodable offsets. Returns the next offset to read."""
        read_to = self.read_to
        if read_to < end:
            self.waiting.append(UndecodableBatch(self.partition, max(first, read_to), end, why))
        return max(read_to, end)

    @property
    def last_completed_offset(self) -> int:
        """The lowest unfinished offset."""
        return next(iter(self._pending), self.next_offset)

    @property
    def pending(self) -> int:
        """Number of messages that were emitted and are not finished."""
        return len(self._pending)

    @property
    def at_limit(self) -> bool:
        """True if `max_uncommitted_offsets` blocks new messages until an old one is finished."""
        if self.next_offset - self._floor < self._max_uncommitted:
            return False
        self._floor = self.last_completed_offset
        return self.next_offset - self._floor >= self._max_uncommitted

    def oldest_pending_age(self, now: float) -> float:
        """Return the seconds since the oldest unfinished message was first emitted, or 0."""
        oldest = next(iter(self._pending.values()), None)
        return 0.0 if oldest is None else now - oldest.since

    @property
    def oldest_unfinished(self) -> SourceMessage | None:
        """The first unfinished message that was read, even if it was not emitted yet, or None."""
        pending = next(iter(self._pending.values()), None)
        if pending is not None:
            return pending.message
        return self.waiting[0] if self.waiting else None

    @property
    def read_to(self) -> int:
        """The offset after the last message read."""
        if not self.waiting:
            return self.next_offset
        last = self.waiting[-1]
        return last.end if isinstance(last, UndecodableBatch) else last.offset() + 1

    def _emit_again(self, pending: _Pending, offset: int, tuples: Sequence[Values]) -> None:
        pending.trees = len(tuples)
        self.outcomes.retried(offset, pending.attempt)
        id = KafkaMessageId(self.partition, offset, self.epoch, pending.attempt)
        try:
            emit_message(self._collector, tuples, id if self._tracks else None, self._stream)
        except Exception as error:  # noqa: BLE001 - user groupings may raise anything
            self.refused(id, explain_unemittable(tuples, error), error)
        # Untracked messages are finished on emission. At this point the message is in `_pending`.
        if not self._tracks:
            for _ in tuples:
                self.ack(id)

    def _tuples_of(self, pending: _Pending, offset: int) -> Sequence[Values]:
        """Return a message's tuples, or none if empty or unreadable. Raises `NotYetError`."""
        try:
            tuples = self._deserialize(pending.message)
            tuples = tuples if tuples is None or isinstance(tuples, tuple | list) else list(tuples)
        except NotYetError:
            raise
        except Exception as error:  # noqa: BLE001 - a user's scheme may raise anything
            self._pending[offset] = pending
            self._give_up_unreadable(pending, offset, error)
            return ()
        if not tuples:
            self.outcomes.empty(offset)
            self._finish(offset)
        return tuples or ()

    def _give_up_unreadable(self, pending: _Pending, offset: int, error: Exception) -> None:
        if isinstance(error, UndecodableBatchError):
            # One dead letter at the first offset. The other offsets are skipped.
            batch = error.batch
            self.next_offset = batch.end
            self.outcomes.skip(batch.first + 1, batch.end, batch.reason)
            self._bury(batch, batch.reason, (UNDECODABLE, None), key=None, value=None, attempts=1)
            return
        reason = f"cannot be deserialized: {type(error).__name__}: {error}"
        self._give_up(pending, offset, reason, (UNDECODABLE, note_of(0, error)))

    def _give_up(self, pending: _Pending, offset: int, reason: str, cause: Cause) -> None:
        message, attempts = pending.message, pending.attempt
        key, value = message.key(), message.value()
        self._bury(message, reason, cause, key=key, value=value, attempts=attempts)
        self.failures.done(offset)

    def _bury(self, message: SourceMessage, reason: str, cause: Cause, **more: Any) -> None:
        offset = message.offset()
        stamped, stamp = message.timestamp()
        kind, error = cause
        self.outcomes.dead(offset)
        self._collector.dead_letter(
            reason,
            topic=self.partition.topic,
            partition=self.partition.partition,
            offset=offset,
            kind=kind,
            error=error,
            headers=text_of(message.headers()),
            timestamp=stamp if stamped else 0,
            on_stored=partial(self._finish, offset),
            **more,
        )

    def _finish(self, offset: int) -> None:
        self._pending.pop(offset, None)
