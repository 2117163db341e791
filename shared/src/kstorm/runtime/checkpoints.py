"""Writes changelogs such that no zombie can: in transactions of Kafka's, fenced by the consumer group.

A process that was paused for longer than its session has lost its tasks and does not know it. What it then still writes
to a changelog would come after what the new owner has written, and would be what the next recovery reads. So each
checkpoint is a transaction that also carries input offsets together with the group's generation: the broker refuses the
offsets of a member that is no longer one, and with them the whole transaction (KIP-447). Readers of changelogs see
committed records only.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from kstorm.errors import BrokerError, FencedError
from kstorm.runtime.consumer import TaskConsumer
from kstorm.runtime.delivery import MAX_MESSAGE_BYTES, produce_when_room
from kstorm.runtime.metrics import Sample
from kstorm.runtime.settings import Settings

T = TypeVar("T")

Pair = tuple[bytes, bytes | None]
"""A key and its value; None deletes it."""

TRANSACTION_SECS: Final = 10.0
"""After which the broker aborts a transaction whose process died amid it; a recovery may have to wait for that."""

_CALL_SECS: Final = 10.0
_PATIENCE_SECS: Final = 60.0
_PAUSE_SECS: Final = 0.1
_FENCED: Final = (KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID, KafkaError.INVALID_PRODUCER_EPOCH)


class CheckpointWriter:
    """The transactional producer of one process. One transaction at a time."""

    def __init__(self, settings: Settings, input_topic: str, group: str, consumer: TaskConsumer) -> None:
        self._settings, self._input_topic, self._consumer = settings, input_topic, consumer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._lock = asyncio.Lock()
        self._records = self._bytes = 0
        self._producer = Producer(
            {
                **settings.client_config,
                "client.id": f"{settings.instance}-checkpoints",
                "transactional.id": f"{group}-{settings.instance}",
                "transaction.timeout.ms": int(TRANSACTION_SECS * 1000),
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "linger.ms": 0,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    async def open(self) -> None:
        """Ends what a former life of this process left open. Raises `BrokerError` if Kafka does not answer."""
        await self._on_thread(lambda: self._insist(lambda: self._producer.init_transactions(_CALL_SECS)))

    async def write(
        self, changelog: str, changes: Mapping[int, Iterable[Pair]], offsets: Mapping[int, int]
    ) -> dict[int, int]:
        """Writes changes by partition and commits input offsets, all or nothing; returns each partition's last offset.

        Raises `FencedError` if the tasks are another process's by now, `BrokerError` if it did not come to pass in a
        minute. Then nothing was written.
        """
        pairs = [(partition, key, value) for partition, some in changes.items() for key, value in some]
        if not pairs:
            return {}
        async with self._lock:
            deadline = time.monotonic() + _PATIENCE_SECS
            while True:
                metadata = await self._consumer.group_metadata()
                try:
                    transaction = self._on_thread(partial(self._transact, changelog, pairs, offsets, metadata))
                    last = await asyncio.wait_for(transaction, _PATIENCE_SECS)
                except (
                    TimeoutError
                ):  # seen of librdkafka when its consumer was fenced meanwhile: the call never returns
                    raise self._failed(f"no answer in {_PATIENCE_SECS:.0f} s") from None
                except _AbortedError as error:  # mostly a rebalance under way: the next try has its generation
                    if time.monotonic() > deadline:
                        raise self._failed(error.reason) from None
                else:
                    self._records += len(pairs)
                    self._bytes += sum(len(key) + len(value or b"") for _, key, value in pairs)
                    return last
                await asyncio.sleep(_PAUSE_SECS)

    def samples(self) -> Iterable[Sample]:
        """What was written to changelogs."""
        yield "changelog_records_total", "Records that checkpoints wrote to changelogs", self._records, {}
        yield "changelog_bytes_total", "Bytes of their keys and values", self._bytes, {}

    def close(self) -> None:
        """Waits for the transaction under way."""
        self._thread.shutdown()

    async def _on_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _transact(
        self, changelog: str, pairs: list[tuple[int, bytes, bytes | None]], offsets: Mapping[int, int], metadata: Any
    ) -> dict[int, int]:
        last: dict[int, int] = {}

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                last[message.partition() or 0] = message.offset() or 0

        try:
            self._producer.begin_transaction()
            for partition, key, value in pairs:
                produce_when_room(self._producer, changelog, value, key, partition, report)
            if offsets:
                places = [TopicPartition(self._input_topic, partition, offset) for partition, offset in offsets.items()]
                self._insist(lambda: self._producer.send_offsets_to_transaction(places, metadata, _CALL_SECS))
            self._insist(lambda: self._producer.commit_transaction(_CALL_SECS))
        except KafkaException as error:
            self._abort(error.args[0])
        return last

    def _insist(self, call: Callable[[], object]) -> None:
        """Calls again what may be called again."""
        deadline = time.monotonic() + _PATIENCE_SECS
        while True:
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _abort(self, cause: KafkaError) -> None:
        """Takes the transaction back, which would else keep readers waiting until it times out; raises what that means."""
        failed: FencedError | BrokerError | None = None
        if cause.code() in _FENCED:
            failed = FencedError(
                f"{self._settings.instance!r} was paused or replaced, and its tasks are another process's now "
                f"({cause.str()}): this checkpoint is not written"
            )
        elif not cause.txn_requires_abort():
            failed = self._failed(cause.str())
        if cause.txn_requires_abort():
            try:
                self._insist(lambda: self._producer.abort_transaction(_CALL_SECS))
            except KafkaException as error:
                failed = failed or self._failed(error.args[0].str())
        raise failed or _AbortedError(cause.str())

    def _failed(self, reason: str) -> BrokerError:
        return BrokerError(
            f"a checkpoint could not be written to Kafka at {self._settings.bootstrap_servers}: {reason}"
        )


class _AbortedError(Exception):
    """A transaction was aborted, and may be tried again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
