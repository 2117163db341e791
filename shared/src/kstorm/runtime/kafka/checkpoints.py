"""Writes changelogs such that no zombie can: in transactions of Kafka's, fenced by the consumer group.

A process that was paused for longer than its session has lost its tasks and does not know it. What it then still writes
to a changelog would come after what the new owner has written, and would be what the next recovery reads. So each
checkpoint is a transaction that also carries input offsets together with the group's generation: the broker refuses the
offsets of a member that is no longer one, and with them the whole transaction (KIP-447). Readers of changelogs see
committed records only.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from kstorm.core.engine.effects import Transact
from kstorm.core.engine.transaction import Answer, Request, Transactions, Writing
from kstorm.core.outgoing import Outgoing
from kstorm.core.sizes import MAX_RECORD_BYTES
from kstorm.errors import BrokerError, FencedError
from kstorm.runtime.kafka.consumer import TaskConsumer
from kstorm.runtime.kafka.epoch_records import produce_each, produce_pairs, produce_unheard
from kstorm.runtime.kafka.in_time import Caller, NotInTimeError
from kstorm.runtime.kafka.refusals import RecordsRefusedError, Refusals, is_of_a_record, not_allowed
from kstorm.runtime.kafka.transactions import (
    FENCED,
    TRANSACTION_SECS,
    TRIAL_SECS,
    begin_transactions,
)
from kstorm.runtime.service.metrics import Latency, Sample
from kstorm.runtime.service.settings import Settings

T = TypeVar("T")

Pair = tuple[bytes, bytes | None]
"""A key and its value; None deletes it."""

_CALL_SECS: Final = 10.0
_STUCK_SECS: Final = 5.0
"""After which the handing in of offsets is given up. librdkafka keeps to no time there: when the group's broker went away, it waits
until some other broker comes or goes (its issues 5456 and 5511)."""
_SLICE_SECS: Final = 0.1
_PATIENCE_SECS: Final = 60.0
_PAUSE_SECS: Final = 0.1
_AT_ONCE_SECS: Final = 1.0
"""After which librdkafka sends a request again by itself, without saying so."""
_LINGER_MS: Final = 20
"""For how long librdkafka gathers records before it sends them: they go in a few large batches while the rest is still being handed
to it. Nothing waits for that, since a flush sends at once."""
_BATCH_BYTES: Final = 1_000_000
"""librdkafka's own default: no batch of several records is longer."""
_BY_COORDINATORS: Final = (Request.OFFSETS, Request.COMMIT, Request.ABORT)
"""The requests that are answered by Kafka's coordinators, and not by librdkafka or by the partitions' leaders."""


class CheckpointWriter:
    """The transactional producer of one process. One transaction at a time.

    The offsets are handed in only when all records are in the changelog. Were they handed in before, a process that then
    sleeps could lose its place to an heir that has read the changelog without those records, and waits only for the
    group's offset: awake, it would commit both, and the heir would go on behind tuples that its state does not include.
    """

    def __init__(
        self,
        settings: Settings,
        input_topic: str,
        group: str,
        consumer: TaskConsumer,
        count: Callable[[Sequence[Outgoing]], None] = lambda records: None,
    ) -> None:
        """`count` is given the records of each transaction that was committed."""
        self._settings, self._input_topic, self._consumer, self._count = (
            settings,
            input_topic,
            consumer,
            count,
        )
        self._id = f"{group}-{settings.instance}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._offsets_caller = Caller("checkpoint-offsets")
        self._lock = asyncio.Lock()
        self._records = self._bytes = 0
        self.transactions = Latency()
        """Seconds from the wish to write to the commit's answer."""
        self.aborted = self.replaced = 0
        self._written = 0
        self._requests = Transactions()
        self._listens = False  # to what becomes of each record: it costs, so only when one was refused in this life
        self._batch_bytes = _BATCH_BYTES
        self._producer = self._new_producer()

    def _new_producer(self, *, alone: bool = False) -> Producer:
        """With `alone`, each record is a batch of its own."""
        settings = self._settings
        milliseconds = int(_seconds(alone=alone) * 1000)
        return Producer(
            {
                **settings.client_config,
                "client.id": f"{settings.instance}-checkpoints",
                "transactional.id": self._id,
                "transaction.timeout.ms": milliseconds,
                "message.timeout.ms": milliseconds
                * 4
                // 5,  # it is known before the broker ends the transaction
                "message.max.bytes": MAX_RECORD_BYTES,
                "batch.size": 1 if alone else self._batch_bytes,
                "linger.ms": _LINGER_MS,
                "retry.backoff.ms": int(_AT_ONCE_SECS * 1000),
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    async def open(self) -> None:
        """Ends what a former life of this process left open. Raises as `begin_transactions` does."""
        await self._on_thread(partial(self._begin, TRANSACTION_SECS))

    def _begin(self, seconds: float) -> None:
        begin_transactions(self._producer, self._id, seconds, self._settings)

    async def write(self, changelog: str, effect: Transact) -> dict[int, int]:
        """Writes changes by partition and records, and commits input offsets and positions, all or nothing; returns the last
        offset of each partition that had changes. With offsets alone it is a transaction too, fenced alike; with nothing it does
        nothing.

        What is refused is written again, the same. Raises `RecordsRefusedError` if there are records of sinks that are refused for
        good, `FencedError` if the tasks are another process's by now, `BrokerError` if it did not come to pass in a minute or
        somebody has to mend something first. Nothing is written then.
        """
        pairs = [
            (partition, key, value)
            for partition, some in effect.changes.items()
            for key, value in some
        ]
        places = [TopicPartition(self._input_topic, *place) for place in effect.offsets.items()]
        places += [TopicPartition(*place, offset) for place, offset in effect.positions.items()]
        if not pairs and not places and not effect.records:
            return {}
        async with self._lock:
            started = time.monotonic()
            deadline = started + _PATIENCE_SECS
            refused = False
            writing = self._requests.begin()
            while True:
                metadata = await self._consumer.group_metadata(anew=refused)
                attempt = _Attempt(changelog, pairs, effect.records, places, metadata)
                try:
                    attempting = self._on_thread(partial(self._attempt, writing, attempt))
                    last = await asyncio.wait_for(attempting, _PATIENCE_SECS)
                except TimeoutError:  # seen of librdkafka when its consumer was fenced meanwhile: the call never returns
                    raise self._failed(f"no answer in {_PATIENCE_SECS:.0f} s") from None
                except RecordsRefusedError:
                    self.aborted += 1
                    raise
                except (
                    _AbortedError
                ) as error:  # mostly a rebalance under way: the next try has its generation
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
        """What was written to changelogs."""
        yield (
            "changelog_records_total",
            "Records that checkpoints wrote to changelogs",
            self._records,
            {},
        )
        yield "changelog_bytes_total", "Bytes of their keys and values", self._bytes, {}
        yield (
            "transactions_total",
            "Transactions of Kafka's that were committed",
            sum(self.transactions.counts),
            {},
        )
        yield "transaction_seconds_total", "Seconds that they took", self.transactions.total, {}
        yield (
            "transactions_aborted_total",
            "Those that were refused, and written again",
            self.aborted,
            {},
        )
        yield (
            "transaction_records_total",
            "Records in them that are of no changelog",
            self._written,
            {},
        )
        yield (
            "transaction_producers_total",
            "Producers that were replaced for an answer that came late",
            self.replaced,
            {},
        )

    def close(self) -> None:
        """Waits for the transaction under way."""
        self._thread.shutdown()
        self._offsets_caller.close()

    async def _on_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _attempt(self, writing: Writing, attempt: "_Attempt") -> dict[int, int]:
        """Makes requests until all is committed, or a transaction is taken back: then it raises what that means."""
        while (request := writing.next) is not None:
            before = time.monotonic()
            try:
                answer = self._make(request, attempt)
            except (RecordsRefusedError, _AbortedError):
                writing.answered(Answer.TAKEN_BACK)
                raise
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                answer = self._answer_of(request, cause, attempt)
                if answer is Answer.TAKEN_BACK:
                    self._take_back()
                    writing.answered(answer)
                    raise _AbortedError(cause.str()) from None
                if answer is Answer.REFUSED:
                    attempt.refused = cause
            writing.answered(answer, at_once=request not in _BY_COORDINATORS or _is_at_once(before))
            if request is Request.ABORT and answer is Answer.DONE and attempt.refused is not None:
                raise self._fenced(attempt.refused) or _AbortedError(attempt.refused.str())
        return attempt.last

    def _make(self, request: Request, attempt: "_Attempt") -> Answer:
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
                    produce_unheard(producer, attempt.records, attempt.refusals)
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

    def _answer_of(self, request: Request, cause: KafkaError, attempt: "_Attempt") -> Answer:
        """What an error says of a request. Raises it as one that ends the process, if it is one."""
        if (
            request in _BY_COORDINATORS
            and cause.retriable()
            and time.monotonic() < attempt.deadline
        ):
            return Answer.NONE
        if refused := not_allowed(cause):
            self._take_back()
            raise self._failed(refused) from None
        if is_of_a_record(cause) and not self._listens:
            self._listens = True
            return Answer.TAKEN_BACK
        if request is not Request.ABORT and cause.txn_requires_abort():
            return Answer.REFUSED
        raise (self._fenced(attempt.refused or cause) or self._failed(cause.str())) from None

    def _hand_in(self, attempt: "_Attempt") -> None:
        """Adds the offsets to the transaction. If that does not come back, another producer writes all of it again: no commit was
        asked for, and Kafka lets none of this producer through any more when that one begins."""
        hand_in = partial(
            self._producer.send_offsets_to_transaction, attempt.places, attempt.metadata, _CALL_SECS
        )
        try:
            self._offsets_caller.call(hand_in, _STUCK_SECS)
        except NotInTimeError:
            raise _AbortedError(f"the offsets were not taken in {_STUCK_SECS:g} s") from None

    def _flush(self, refusals: Refusals) -> None:
        """Waits until each record's fate is known, or one is refused: after four fifths of `TRANSACTION_SECS` librdkafka gives it
        up."""
        deadline = time.monotonic() + _PATIENCE_SECS
        while left := self._producer.flush(_SLICE_SECS):
            if refusals:
                return
            if time.monotonic() > deadline:
                raise self._failed(
                    f"{left} records were neither taken nor refused in {_PATIENCE_SECS:.0f} s"
                )

    def _refuse(self, records: Sequence[Outgoing], refusals: Refusals) -> None:
        """Takes the transaction back, and raises what follows from what was refused."""
        self._listens = True
        self._take_back()
        if refusals.must_end:
            raise self._failed(refusals.must_end)
        refused = refusals.culprits()
        if not refused and (suspects := refusals.suspects()):
            refused = self._tried_alone(records, suspects, refusals)
        if refused:
            raise RecordsRefusedError(refused)
        raise _AbortedError(refusals.reason)

    def _tried_alone(
        self, records: Sequence[Outgoing], suspects: Sequence[int], before: Refusals
    ) -> dict[int, str]:
        """Which of some records are refused even if each is a batch of its own, in a transaction that comes to nothing. If none
        is, their batches were too long, and become shorter."""
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
        """Ends a transaction in which records were refused. The producer is replaced before the next one, which ends it as well if
        it did not end here: after a refused record librdkafka may drop some of the next transaction's."""
        self._producer.purge()
        if not self._producer.flush(_SLICE_SECS):  # else the abort would wait for those who listen
            with suppress(KafkaException):
                self._producer.abort_transaction(_AT_ONCE_SECS)

    def _replace_producer(self, *, alone: bool = False) -> None:
        self._producer = self._new_producer(alone=alone)
        self._begin(_seconds(alone=alone))
        self.replaced += 1

    def _fenced(self, cause: KafkaError) -> FencedError | None:
        """The error, if it says that the tasks are another process's."""
        if cause.code() not in FENCED:
            return None
        return FencedError(
            f"{self._settings.instance!r} was paused or replaced, and its tasks are another process's now "
            f"({cause.str()}): this checkpoint is not written"
        )

    def _failed(self, reason: str) -> BrokerError:
        return BrokerError(
            f"a checkpoint could not be written to Kafka at {self._settings.bootstrap_servers}: {reason}"
        )


def _seconds(*, alone: bool) -> float:
    return TRIAL_SECS if alone else TRANSACTION_SECS


def _is_at_once(before: float) -> bool:
    return time.monotonic() - before <= _AT_ONCE_SECS


class _Attempt:
    """What one transaction is to hold, and what has come of it."""

    def __init__(
        self,
        changelog: str,
        pairs: Sequence[tuple[int, bytes, bytes | None]],
        records: Sequence[Outgoing],
        places: list[TopicPartition],
        metadata: Any,
    ) -> None:
        self.changelog, self.pairs, self.records, self.places = changelog, pairs, records, places
        self.metadata = metadata
        self.last: dict[int, int] = {}
        """The last offset of each partition of the changelog that has something of it."""
        self.refusals = Refusals(records, changelog)
        self.refused: KafkaError | None = None
        """Why all of it can only be taken back."""
        self.deadline = time.monotonic() + _PATIENCE_SECS

    def report(self, error: KafkaError | None, message: Message) -> None:
        """What has become of a record of the changelog."""
        if error is None:
            self.last[message.partition() or 0] = message.offset() or 0
        else:
            self.refusals.add_change(error)


class _AbortedError(Exception):
    """A transaction was aborted, and may be tried again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
