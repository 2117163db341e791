"""One partition of the source topic: what was read, what is in flight, and up to where everything is done.

After the `PartitionManager` of Storm's documentation, *Storm Kafka Integration*.

The rule: **the stored offset never passes a message that is not finished.** A message is finished when all its tuples'
trees are complete, when it turned out to hold nothing to process, or when the broker has it among the dead letters.
With `NO_GUARANTEE` it is finished once it is emitted. With `AT_MOST_ONCE` the rule is turned round: **no message is
emitted before an offset behind it is stored.**

What is unfinished is kept in emission order, which is offset order, since a retried message keeps its place; so the
lowest unfinished offset is the first. Offsets that were never emitted (compacted away, or markers of transactions) are
in nobody's way, as only emitted ones count. What became of each offset, `kstorm.kafka.finished` keeps.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final

from msgspec import Struct

from kstorm.core.dead_letters import FAILED, REFUSED, UNDECODABLE
from kstorm.core.notes import note_of
from kstorm.errors import NotYetError
from kstorm.kafka.above import Above, Run, runs_between
from kstorm.kafka.config import ProcessingGuarantee, SpoutConfig
from kstorm.kafka.emitting import emit_message, why
from kstorm.kafka.finished import ACKED, Outcomes
from kstorm.kafka.letters import Cause, why_failed, write_letter
from kstorm.kafka.message import UndecodableBatch, UndecodableBatchError
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.kafka.retry import make_retry_manager
from kstorm.kafka.retry_manager import FailedMessageRetryManager
from kstorm.kafka.scheme import Values, deserializer
from kstorm.topology import SpoutOutputCollector

_EVERY_OFFSET: Final = float("inf")


class KafkaMessageId(Struct, frozen=True, gc=False):
    """Says which attempt at which message a tree belongs to."""

    partition: Partition
    offset: int
    epoch: int
    """Counts the task's readings of this partition: what an earlier one emitted must not finish anything in this."""
    attempt: int
    """1 for the first emission. A message of several tuples can have trees of two attempts under way."""


class _Pending(Struct, gc=False):
    """An unfinished message."""

    message: SourceMessage
    since: float
    """When it was first emitted."""
    attempt: int
    """How often it has been emitted."""
    trees: int
    """Trees of this attempt that are not complete; 0 while the message waits for its retry or for its dead letter."""


class PartitionManager:
    """Emits the messages of one partition, and answers up to where they are finished.

    `offset` is the first one to emit; `stored` the one that the offset store holds, if any, with what is `done` above it; `rest`
    what has become of a message that is finished and no exception; `unix_ms` what time it is.
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
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.waiting: deque[SourceMessage] = deque()
        """Read, but not emitted yet."""
        self.next_offset = offset
        """One more than the highest offset emitted, or the offset to begin with."""
        self.committed_to = stored
        """The offset that was last given to the store."""
        self.stored_above = list(done)
        """What is done above it, as it was last given to the store."""
        self.writing = False
        """Whether a finished range is on its way to Kafka; the offset behind it is stored when it is there."""
        self.write_again = False
        """Whether an offset was to be stored meanwhile."""
        self.on_written: Callable[[], None] | None = None
        """To be called when nothing is on its way any more, by who waits for that."""
        self.dropped = False
        """Whether the partition is another's, or is read anew: what was on its way is not stored any more."""
        self.paused = False
        """Whether the reader was told to fetch no more of this partition for now; the spout's note."""
        self.most_to_store: float = _EVERY_OFFSET
        """No offset behind this one is stored, whatever is finished."""
        self.retries = 0
        """Messages that failed and wait to be emitted again."""
        self.claimed = offset
        """With `AT_MOST_ONCE`: one more than the highest offset that is to be emitted once the store has this."""
        self._claims = config.processing_guarantee is ProcessingGuarantee.AT_MOST_ONCE
        self._tracks = config.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
        self._granted: float = (
            offset if self._claims else _EVERY_OFFSET
        )  # what may be emitted is below this
        self.outcomes = Outcomes(
            offset if stored is None else stored,
            offset,
            rest=rest,
            claims=self._claims,
            now=unix_ms,
        )
        """What became of the offsets from the last confirmed range on."""
        self.not_yet: NotYetError | None = None
        """Why the message that comes next cannot be read so far; None if it can."""
        self._pending: dict[int, _Pending] = {}
        self._collector = collector
        self._stream = config.output_stream_id
        self._deserialize: Callable[[SourceMessage], Iterable[Values] | None] = deserializer(
            config.scheme, config.max_message_bytes
        )
        self._retry: FailedMessageRetryManager = make_retry_manager(config)
        self._max_uncommitted = config.max_uncommitted_offsets
        self._max_behind = config.max_offset_behind
        self._above = Above(done)
        self._floor = offset  # a lower bound of last_completed_offset, so that the limit costs no search per message

    def fill(self, messages: Iterable[SourceMessage]) -> None:
        """Takes messages of this partition that have been read."""
        self.waiting.extend(messages)

    def retry(self, now: float) -> bool:
        """Emits one message whose retry is due; whether there was one that could be read."""
        offset = self._retry.next_failed_message_to_retry(now)
        if offset is None:
            return False
        pending = self._pending.get(offset)
        if pending is None or pending.trees:
            self._forget(offset)  # a policy of a user's has named one that does not wait
            return False
        if not self._is_readable(pending.message):
            return False
        self._emit_again(offset, now)
        return True

    def take(
        self, now: float, limit: int, room: int, rows: list[Values], ids: list[KafkaMessageId]
    ) -> int:
        """Hands out up to `limit` messages that were read, for one `emit_batch`: their tuples are added to `rows`, with a
        message id each in `ids`, until there are `room`. How many messages."""
        waiting, pending, taken = self.waiting, self._pending, 0
        partition, epoch, most = self.partition, self.epoch, self._max_uncommitted
        self.not_yet = None
        while waiting and taken < limit and len(ids) < room:
            if (
                self.next_offset - self._floor >= most and self.at_limit
            ):  # the first half alone decides nearly always
                break
            message = waiting[0]
            offset = message.offset()
            if offset >= self._granted:
                break
            waiting.popleft()
            if offset != self.next_offset:
                if offset < self.next_offset:  # the reader was set back: this one has been emitted
                    continue
                self.outcomes.gap(self.next_offset, offset)
            self.next_offset = offset + 1
            if offset < self._above.end and self._above.has(offset):
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
        return taken

    def refused(self, id: KafkaMessageId, reason: str, error: Exception | None = None) -> None:
        """A message that was handed out cannot be emitted; `error` says so, if one was raised."""
        pending = self._pending.get(id.offset)
        if pending is not None and pending.trees:
            pending.trees = 0
            self._give_up(
                pending, id.offset, reason, (REFUSED, None if error is None else note_of(0, error))
            )

    def ack(self, id: KafkaMessageId) -> None:
        """A tree of the message is complete. An id of an attempt that failed already, or of no message, is ignored."""
        pending = self._pending.get(id.offset)
        if pending is None or pending.attempt != id.attempt or not pending.trees:
            return
        pending.trees -= 1
        if not pending.trees:
            del self._pending[id.offset]
            if pending.attempt > 1:
                self._forget(id.offset)

    def fail(self, id: KafkaMessageId, now: float) -> None:
        """A tree of the message failed: the message is laid by for its retry, or becomes a dead letter."""
        pending = self._pending.get(id.offset)
        if pending is None or pending.attempt != id.attempt or not pending.trees:
            return
        pending.trees = 0
        if self._max_behind is not None and id.offset < self.next_offset - self._max_behind:
            reason = f"failed, and more than max_offset_behind={self._max_behind} behind"
            self._give_up(pending, id.offset, reason, why_failed(self._collector))
            return
        try:
            again = self._retry.retry_further(id.offset)
            if again:
                self._retry.failed(id.offset, now)
        except Exception as error:  # noqa: BLE001 - the policy may be a user's, and the message must not be forgotten
            reason = f"failed, and its retry manager raised {type(error).__name__}: {error}"
            self._give_up(pending, id.offset, reason, (FAILED, note_of(0, error)))
            return
        if again:
            self.retries += 1
        else:
            self._give_up(
                pending,
                id.offset,
                "failed, and its retries are used up",
                why_failed(self._collector),
            )

    def grant(self, stored: int | None) -> None:
        """With `AT_MOST_ONCE`: the store holds `stored`. If that is what was claimed, the messages below it may be emitted,
        and those that wait behind them are claimed, that is to say, are next to be stored."""
        if self.claimed in (self._granted, stored):
            self._granted = self.claimed
            if self.waiting:
                self.claimed = max(self.claimed, self._read_to)

    def give_back(self) -> None:
        """This is the end of it: what was claimed and not emitted is the next owner's. Only `commit` may follow."""
        self.claimed = self.next_offset
        self.waiting.clear()

    def commit(self) -> int | None:
        """The offset to store, or None if it is the one that was stored last."""
        completed = self.claimed if self._claims else self.last_completed_offset
        if completed > self.most_to_store:
            completed = int(self.most_to_store)
        completed = self.outcomes.most(completed)
        if completed == self.committed_to:
            return None
        self.committed_to = completed
        return completed

    def done_above(self, offset: int) -> list[Run]:
        """What is acked from `offset` on, which is no higher than the oldest unfinished message."""
        but = sorted(
            [*((each, each + 1) for each in self._pending), *self.outcomes.exceptions(offset)]
        )
        return self._above.added_to(
            runs_between(offset + 1, self.next_offset, but), self.next_offset
        )

    def left_above(self, offset: int) -> list[Run]:
        """What a former owner had acked from `offset` on; of a spout that itself stores nothing of that."""
        return self._above.added_to([], offset)

    def skip_to(self, offset: int, why: str) -> None:
        """What comes next is at `offset`; what lies between that and what has been read is given up."""
        self.outcomes.skip(self._read_to, offset, why)

    def pass_over(self, first: int, end: int, why: str) -> int:
        """No message from `first` to `end` can be read: when its turn comes, one dead letter says so. Where to read on."""
        read_to = self._read_to
        if read_to < end:
            self.waiting.append(UndecodableBatch(self.partition, max(first, read_to), end, why))
        return max(read_to, end)

    @property
    def last_completed_offset(self) -> int:
        """The lowest offset that is not finished; everything below it is."""
        return next(iter(self._pending), self.next_offset)

    @property
    def pending(self) -> int:
        """Messages that were emitted and are not finished."""
        return len(self._pending)

    @property
    def at_limit(self) -> bool:
        """Whether `max_uncommitted_offsets` allows no new message until an old one is finished."""
        if self.next_offset - self._floor < self._max_uncommitted:
            return False
        self._floor = self.last_completed_offset
        return self.next_offset - self._floor >= self._max_uncommitted

    def oldest_pending_age(self, now: float) -> float:
        """Seconds since the oldest unfinished message was first emitted; 0 if there is none."""
        oldest = next(iter(self._pending.values()), None)
        return 0.0 if oldest is None else now - oldest.since

    @property
    def oldest_unfinished(self) -> SourceMessage | None:
        """The first message that is not finished, emitted or not, of those that were read; None if there is none."""
        pending = next(iter(self._pending.values()), None)
        if pending is not None:
            return pending.message
        return self.waiting[0] if self.waiting else None

    @property
    def _read_to(self) -> int:
        """The offset behind what was read last."""
        if not self.waiting:
            return self.next_offset
        last = self.waiting[-1]
        return last.end if isinstance(last, UndecodableBatch) else last.offset() + 1

    def _emit_again(self, offset: int, now: float) -> None:
        self._retry.retry_started(offset)
        self.retries -= 1
        pending = self._pending[offset]
        pending.attempt += 1
        try:
            tuples = self._tuples_of(pending, offset)
        except NotYetError as error:  # a moment ago it could be read
            self.not_yet = error
            self._retry.failed(offset, now)
            self.retries += 1
            return
        if tuples:
            pending.trees = len(tuples)
            self.outcomes.retried(offset, pending.attempt)
            self._emit(tuples, KafkaMessageId(self.partition, offset, self.epoch, pending.attempt))

    def _emit(self, tuples: Sequence[Values], id: KafkaMessageId) -> None:
        """Emits all tuples of a message. It is known as pending by now: with tracking off the collector acks at once."""
        try:
            emit_message(self._collector, tuples, id if self._tracks else None, self._stream)
        except Exception as error:  # noqa: BLE001 - a user's grouping may raise anything
            self.refused(id, why(tuples, error), error)
        if not self._tracks:
            for _ in tuples:
                self.ack(id)

    def _tuples_of(self, pending: _Pending, offset: int) -> Sequence[Values]:
        """The tuples of a message; none if there is nothing to process, or if it cannot be read. Raises `NotYetError`."""
        try:
            tuples = self._deserialize(pending.message)
            tuples = tuples if tuples is None or isinstance(tuples, tuple | list) else list(tuples)
        except NotYetError:
            raise
        except UndecodableBatchError as error:
            self._pending[offset] = pending
            self._give_up_batch(error.batch)
            return ()
        except Exception as error:  # noqa: BLE001 - whatever a user's scheme raises, it says that it cannot read this
            self._pending[offset] = pending
            reason = f"cannot be deserialized: {type(error).__name__}: {error}"
            self._give_up(pending, offset, reason, (UNDECODABLE, note_of(0, error)))
            return ()
        if not tuples:
            self.outcomes.empty(offset)
            self._finish(offset)
            return ()
        return tuples

    def _is_readable(self, message: SourceMessage) -> bool:
        """Whether the scheme knows by now what the message is, be it that it cannot be read."""
        try:
            for _ in self._deserialize(message) or ():
                pass
        except NotYetError as error:
            self.not_yet = error
            return False
        except Exception:  # noqa: BLE001 - emitting it will show
            return True
        return True

    def _give_up(self, pending: _Pending, offset: int, reason: str, cause: Cause) -> None:
        message = pending.message
        self._bury(
            offset,
            reason,
            message,
            cause,
            key=message.key(),
            value=message.value(),
            attempts=pending.attempt,
        )
        self._forget(offset)

    def _give_up_batch(self, batch: UndecodableBatch) -> None:
        """The dead letter has its first offset; those behind it are skipped."""
        self.next_offset = batch.end
        self.outcomes.skip(batch.first + 1, batch.end, batch.reason)
        self._bury(
            batch.first, batch.reason, batch, (UNDECODABLE, None), key=None, value=None, attempts=1
        )

    def _bury(
        self, offset: int, reason: str, message: SourceMessage, cause: Cause, **more: Any
    ) -> None:
        self.outcomes.dead(offset)
        on_stored = partial(self._finish, offset)
        write_letter(
            self._collector,
            self.partition,
            offset,
            reason,
            message,
            cause,
            on_stored=on_stored,
            **more,
        )

    def _forget(self, offset: int) -> None:
        try:
            self._retry.done(offset)
        except Exception as error:  # noqa: BLE001 - the policy may be a user's; what is done is done
            self._collector.report_error(error)

    def _finish(self, offset: int) -> None:
        self._pending.pop(offset, None)
