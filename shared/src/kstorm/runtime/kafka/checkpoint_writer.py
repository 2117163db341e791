"""Writes changelogs in Kafka transactions that are fenced by the consumer group.

A process that was paused for longer than its session has lost its tasks without noticing. If it
still wrote to a changelog, its records would follow the new owner's, and the next recovery would
read them. So each checkpoint is a transaction that also includes input offsets with the group's
generation. The broker rejects offsets of a former member, and with them the whole transaction
(KIP-447). Changelog readers see only committed records.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from kstorm.core.engine.effects import Transact
from kstorm.core.engine.transaction import Answer, Request, TransactionalWrite, Transactions
from kstorm.core.outgoing import OutgoingRecord
from kstorm.errors import BrokerError, FencedError
from kstorm.runtime.base.metrics import Latency, Sample
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.deadlines import DeadlineError, DeadlineExecutor
from kstorm.runtime.kafka.epoch_records import (
    Attempt,
    produce_each,
    produce_pairs,
    produce_unreported,
)
from kstorm.runtime.kafka.position_notes import noted
from kstorm.runtime.kafka.refusals import (
    AbortedError,
    RecordsRefusedError,
    Refusals,
    blames_a_record,
    explain_missing_right,
)
from kstorm.runtime.kafka.transactional_producer import (
    FENCED,
    TRANSACTION_SECS,
    TRIAL_SECS,
    init_transactions,
    transactional_properties,
)

T = TypeVar("T")

Pair = tuple[bytes, bytes | None]
"""A key and its value. The value None deletes the key."""

_CALL_SECS: Final = 10.0
_STUCK_SECS: Final = 5.0
"""Timeout for sending the offsets. librdkafka ignores its own: if the group's broker is away, it
waits until a broker joins or leaves (its issues 5456 and 5511)."""
_SLICE_SECS: Final = 0.1
_PATIENCE_SECS: Final = 60.0
_PAUSE_SECS: Final = 0.1
_AT_ONCE_SECS: Final = 1.0
"""Interval after which librdkafka silently resends a request."""
_BATCH_BYTES: Final = 1_000_000
"""librdkafka's default limit for a batch of several records."""
_BY_COORDINATORS: Final = (Request.OFFSETS, Request.COMMIT, Request.ABORT)
"""Requests answered by Kafka's coordinators, not by librdkafka or partition leaders."""


class CheckpointWriter:
    """The transactional producer of one process. It runs one transaction at a time.

    The offsets are sent only after all records are in the changelog. Otherwise a process could
    pause after sending the offsets and lose its tasks. The next owner would read the changelog
    without the missing records, and would wait only for the group's offset. When the paused process
    resumed, it would commit both, and the next owner would continue after tuples that its state
    does not include.
    """

    def __init__(
        self,
        settings: Settings,
        input_topic: str,
        group: str,
        consumer: TaskConsumer,
        count: Callable[[Sequence[OutgoingRecord]], None] = lambda records: None,
    ) -> None:
        """`count` is called with the records of each committed transaction."""
        self._settings, self._input_topic, self._consumer, self._count = (
            settings,
            input_topic,
            consumer,
            count,
        )
        self._id = f"{group}-{settings.instance}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._offsets_caller = DeadlineExecutor("checkpoint-offsets")
        self._lock = asyncio.Lock()
        self._records = self._bytes = 0
        self.transactions = Latency()
        """Seconds from the start of `write` to the commit's response."""
        self.aborted = self.replaced = 0
        self._written = 0
        self._requests = Transactions()
        # True once a record was refused in this run. From then on, a delivery report is requested
        # for each record, which is expensive.
        self._listens = False
        self._batch_bytes = _BATCH_BYTES
        self._producer = self._new_producer()

    def _new_producer(self, *, alone: bool = False) -> Producer:
        """Create the producer. `alone`: each record is a batch of its own."""
        seconds, batch_bytes = _seconds(alone=alone), 1 if alone else self._batch_bytes
        return Producer(
            {
                **transactional_properties(self._id, seconds, self._settings),
                "client.id": f"{self._settings.instance}-checkpoints",
                "batch.size": batch_bytes,
                "retry.backoff.ms": int(_AT_ONCE_SECS * 1000),
            }
        )

    async def open(self) -> None:
        """Abort a transaction that an earlier run left open. Raises the errors of
        `init_transactions`."""
        await self._on_thread(partial(self._begin, TRANSACTION_SECS))

    def _begin(self, seconds: float) -> None:
        init_transactions(self._producer, self._id, seconds, self._settings)

    async def write(self, changelog: str, effect: Transact) -> dict[int, int]:
        """Write changes and records, and commit input offsets and positions, all or nothing.

        Returns the last offset of each partition with changes. A transaction that only has offsets
        is fenced in the same way. An empty effect does nothing.

        A rejected transaction is retried unchanged. On an error, nothing is written:

        - `RecordsRefusedError`: some records of sinks are rejected permanently.
        - `FencedError`: the tasks belong to another process.
        - `BrokerError`: the transaction did not succeed within a minute, or an operator must fix
          something first.
        """
        pairs = [
            (partition, key, value)
            for partition, some in effect.changes.items()
            for key, value in some
        ]
        places = [TopicPartition(self._input_topic, *place) for place in effect.offsets.items()]
        places += [noted(place, offset) for place, offset in effect.positions.items()]
        if not pairs and not places and not effect.records:
            return {}
        async with self._lock:
            started = time.monotonic()
            deadline = started + _PATIENCE_SECS
            refused = False
            writing = self._requests.begin()
            while True:
                metadata = await self._consumer.group_metadata(anew=refused)
                until = time.monotonic() + _PATIENCE_SECS
                attempt = Attempt(changelog, pairs, effect.records, places, metadata, until)
                try:
                    attempting = self._on_thread(partial(self._attempt, writing, attempt))
                    last = await asyncio.wait_for(attempting, _PATIENCE_SECS)
                except TimeoutError:
                    # librdkafka may block forever if its consumer was fenced during the call.
                    raise self._failed(f"no response within {_PATIENCE_SECS:.0f} s") from None
                except RecordsRefusedError:
                    self.aborted += 1
                    raise
                except AbortedError as error:
                    # Usually a rebalance is in progress, and the next attempt uses its generation.
                    self.aborted += 1
                    refused = True
                    if time.monotonic() > deadline:
                        raise self._failed(error.reason) from None
                else:
                    self.transactions.add(time.monotonic() - started)
                    self._written += len(effect.records)
                    self._count(effect.records)
                    self._records += len(pairs)
                    self._bytes += sum(len(key) + len(value or b"") for _, key, value in pairs)
                    return last
                await asyncio.sleep(_PAUSE_SECS)

    def samples(self) -> Iterable[Sample]:
        yield (
            "changelog_records_total",
            "Records that checkpoints wrote to changelogs",
            self._records,
            {},
        )
        yield (
            "changelog_bytes_total",
            "Bytes of the keys and values of changelog records",
            self._bytes,
            {},
        )
        yield (
            "transactions_total",
            "Kafka transactions committed",
            sum(self.transactions.counts),
            {},
        )
        yield (
            "transaction_seconds_total",
            "Seconds that these transactions took",
            self.transactions.total,
            {},
        )
        yield (
            "transactions_aborted_total",
            "Transactions that Kafka refused, and that were written again",
            self.aborted,
            {},
        )
        yield (
            "transaction_records_total",
            "Records in transactions, without those of changelogs",
            self._written,
            {},
        )
        yield (
            "transaction_producers_total",
            "Producers that were replaced because an answer came late",
            self.replaced,
            {},
        )

    def close(self) -> None:
        """Wait for the current transaction."""
        self._thread.shutdown()
        self._offsets_caller.close()

    async def _on_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _attempt(self, writing: TransactionalWrite, attempt: Attempt) -> dict[int, int]:
        """Make requests until everything is committed. Raises if the transaction is rolled back."""
        while (request := writing.next) is not None:
            before = time.monotonic()
            try:
                answer = self._make(request, attempt)
            except (RecordsRefusedError, AbortedError):
                writing.answered(Answer.TAKEN_BACK)
                raise
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                answer = self._answer_of(request, cause, attempt)
                if answer is Answer.TAKEN_BACK:
                    self._take_back()
                    writing.answered(answer)
                    raise AbortedError(cause.str()) from None
                if answer is Answer.REFUSED:
                    attempt.refused = cause
            at_once = time.monotonic() - before <= _AT_ONCE_SECS
            writing.answered(answer, at_once=at_once or request not in _BY_COORDINATORS)
            if request is Request.ABORT and answer is Answer.DONE and attempt.refused is not None:
                raise self._fenced(attempt.refused) or AbortedError(attempt.refused.str())
        return attempt.last

    def _make(self, request: Request, attempt: Attempt) -> Answer:
        producer = self._producer
        match request:
            case Request.REPLACE:
                self._replace_producer()
            case Request.BEGIN:
                producer.begin_transaction()
            case Request.WRITE:
                produce_pairs(producer, attempt.changelog, attempt.pairs, attempt.report)
                if self._listens:
                    produce_each(producer, enumerate(attempt.records), attempt.refusals)
                else:
                    produce_unreported(producer, attempt.records, attempt.refusals)
            case Request.FLUSH:
                self._flush(attempt.refusals)
                if attempt.refusals:
                    self._refuse(attempt.records, attempt.refusals)
            case Request.OFFSETS:
                self._hand_in(attempt)
            case Request.COMMIT:
                producer.commit_transaction(_CALL_SECS)
            case Request.ABORT:
                producer.abort_transaction(_CALL_SECS)
        return Answer.DONE

    def _answer_of(self, request: Request, cause: KafkaError, attempt: Attempt) -> Answer:
        """Classify an error of a request. Raises errors that end the process."""
        if (
            request in _BY_COORDINATORS
            and cause.retriable()
            and time.monotonic() < attempt.deadline
        ):
            return Answer.NONE
        if refused := explain_missing_right(cause):
            self._take_back()
            raise self._failed(refused) from None
        if blames_a_record(cause) and not self._listens:
            self._listens = True
            return Answer.TAKEN_BACK
        if request is not Request.ABORT and cause.txn_requires_abort():
            return Answer.REFUSED
        first = attempt.refused or cause
        if request is Request.ABORT and first.code() not in FENCED:
            # The broker may have aborted a long transaction itself. A new producer ends any.
            return Answer.TAKEN_BACK
        raise (self._fenced(first) or self._failed(cause.str())) from None

    def _hand_in(self, attempt: Attempt) -> None:
        """Add the offsets to the transaction.

        If the call does not return, another producer writes everything again. This is safe: no
        commit was requested, and Kafka fences this producer when the new one begins.
        """
        hand_in = partial(
            self._producer.send_offsets_to_transaction, attempt.places, attempt.metadata, _CALL_SECS
        )
        try:
            self._offsets_caller.call(hand_in, _STUCK_SECS)
        except DeadlineError:
            raise AbortedError(f"the offsets were not accepted within {_STUCK_SECS:g} s") from None

    def _flush(self, refusals: Refusals) -> None:
        """Wait until all records are acknowledged or one is refused.

        librdkafka gives up on a record after four fifths of `TRANSACTION_SECS`.
        """
        deadline = time.monotonic() + _PATIENCE_SECS
        while left := self._producer.flush(_SLICE_SECS):
            if refusals:
                return
            if time.monotonic() > deadline:
                raise self._failed(
                    f"{left} records were neither accepted nor refused within {_PATIENCE_SECS:.0f} s"
                )

    def _refuse(self, records: Sequence[OutgoingRecord], refusals: Refusals) -> None:
        """Roll back the transaction and raise the error that follows from the refused records."""
        self._listens = True
        self._take_back()
        if refusals.must_end:
            raise self._failed(refusals.must_end)
        refused = refusals.culprits()
        if not refused and (suspects := refusals.suspects()):
            refused = self._tried_alone(records, suspects, refusals)
        if refused:
            raise RecordsRefusedError(refused)
        raise AbortedError(refusals.reason)

    def _tried_alone(
        self, records: Sequence[OutgoingRecord], suspects: Sequence[int], before: Refusals
    ) -> dict[int, str]:
        """Return the records that are refused even as single batches, in a trial transaction.

        If none is refused, the earlier batches were too long, so the batch size is reduced.
        """
        refusals = Refusals(records)
        self._replace_producer(alone=True)
        self._producer.begin_transaction()
        produce_each(self._producer, ((number, records[number]) for number in suspects), refusals)
        self._flush(refusals)
        self._take_back()
        if not refusals:
            self._batch_bytes = max(1, min(self._batch_bytes, before.refused_bytes) // 4)
        return refusals.culprits(alone=True)

    def _take_back(self) -> None:
        """Abort a transaction that contains refused records.

        The producer is replaced before the next transaction, which also ends this one if the abort
        fails. After a refusal, librdkafka may drop some records of the next transaction.
        """
        self._producer.purge()
        with suppress(KafkaException):
            # The abort would block while delivery reports are pending.
            if not self._producer.flush(_SLICE_SECS):
                self._producer.abort_transaction(_AT_ONCE_SECS)

    def _replace_producer(self, *, alone: bool = False) -> None:
        self._producer = self._new_producer(alone=alone)
        self._begin(_seconds(alone=alone))
        self.replaced += 1

    def _fenced(self, cause: KafkaError) -> FencedError | None:
        if cause.code() not in FENCED:
            return None
        return FencedError(
            f"{self._settings.instance!r} was paused or replaced, and another process has its "
            f"tasks now ({cause.str()}): this checkpoint is not written"
        )

    def _failed(self, reason: str) -> BrokerError:
        return BrokerError(
            f"a checkpoint could not be written to Kafka at {self._settings.bootstrap_servers}: "
            f"{reason}"
        )


def _seconds(*, alone: bool) -> float:
    return TRIAL_SECS if alone else TRANSACTION_SECS
