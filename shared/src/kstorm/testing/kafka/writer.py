"""Writes to the topics of a fake Kafka: the `RecordWriter` of a `KafkaBolt`."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kstorm.errors import BrokerError, TopicError
from kstorm.kafka.ports import Headers, OnBatchDelivery, OnDelivery, RecordColumn
from kstorm.testing.kafka.broker import FakeRecord, PendingRequests, Topics, as_bytes, as_headers

MAX_BYTES: Final = 1_000_000  # librdkafka's message.max.bytes

Refuse = Callable[[str, bytes | None, bytes | None], str | None]
"""Maps topic, key and value of a record to the reason why the broker refuses it, or None."""


class FakeWriter:
    """Records arrive some time after they are written, and are reported some time after they
    arrive.

    A bolt that awaits the report in `execute` gets it as soon as the event loop runs.
    """

    def __init__(
        self,
        topics: Topics,
        answers: PendingRequests,
        refuse: Refuse,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        self._topics, self._answers, self._refuse = topics, answers, refuse
        self._shared = properties is None
        # librdkafka's report of a record that was written has the record only on request.
        self._reports_records = (properties or {}).get("delivery.report.only.error") in (
            False,
            "false",
        )

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        """Queue a record. Raises `BrokerError` if it is too large, or if the topic is not text."""
        if not isinstance(topic, str) or not _is_text(topic):
            raise BrokerError(
                f"a record for topic {topic!r} was refused: the name of a topic must be text"
            )
        if size(key) + size(value) > MAX_BYTES:
            raise BrokerError(
                f"a record of {size(key) + size(value):,} bytes is too large for topic {topic!r}"
            )

        def report(errors: Sequence[object]) -> None:
            written = batch.record if self._reports_records else None
            on_delivery(errors[0] if errors else None, written)

        batch = _Batch(report)
        self._send(batch, topic, [key], [value], [headers])

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        """Queue records. Raises `TypeError` or reports an error if the topic is not text, as
        librdkafka does."""
        if not isinstance(topic, str):
            raise TypeError(f"the name of a topic must be text, but is {topic!r}")
        self._send(_Batch(on_done), topic, keys, values, headers or [None] * len(values))

    async def close(self) -> None:
        """Deliver pending records, unless the writer is shared with other tasks."""
        if not self._shared:
            self._answers.all_of(self)

    def lose(self) -> None:
        """Drop everything that has not arrived, without a report: the process was killed."""
        self._answers.forget(self)

    def _send(
        self,
        batch: "_Batch",
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        headers: Sequence[Headers | None],
    ) -> None:
        batch.waiting = len(values)
        for key, value, own in zip(keys, values, headers, strict=True):
            record = topic, as_bytes(key), as_bytes(value), as_headers(own)
            self._answers.later(self, lambda record=record: self._arrive(batch, *record))  # type: ignore[misc]
        # Without a running event loop nothing can be waiting.
        with suppress(RuntimeError):
            asyncio.get_running_loop().call_soon(self._answer_at_once, batch)

    def _arrive(
        self,
        batch: "_Batch",
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
    ) -> None:
        error = self._refuse(topic, key, value)
        if error is None and size(key) + size(value) > MAX_BYTES:
            error = "it is too large"
        if error is None:
            try:
                batch.record = self._topics.append(topic, key, value, headers)
            except TopicError as missing:
                error = str(missing)
        self._answers.later(self, lambda: batch.reported(error))

    def _answer_at_once(self, batch: "_Batch") -> None:
        self._answers.all_of(self)
        if self._answers.away:  # librdkafka's message.timeout.ms, but immediately
            self._answers.forget(self)
            batch.give_up("the fake Kafka cannot be reached")


class _Batch:
    """Records that are reported together."""

    def __init__(self, on_done: OnBatchDelivery) -> None:
        self._on_done = on_done
        self.waiting = 0
        self.record: FakeRecord | None = None
        """The record that was appended last."""
        self._errors: list[object] = []

    def reported(self, error: str | None) -> None:
        """Record the outcome of one record."""
        self._errors += [] if error is None else [error]
        self.waiting -= 1
        if not self.waiting:
            self._on_done(self._errors)

    def give_up(self, error: str) -> None:
        """Report all remaining records as undelivered."""
        while self.waiting:
            self.reported(error)


def _is_text(topic: str) -> bool:
    """Return True if UTF-8 can encode it."""
    try:
        topic.encode()
    except UnicodeEncodeError:
        return False
    return True


def size(data: str | bytes | None) -> int:
    return len(as_bytes(data) or b"")
