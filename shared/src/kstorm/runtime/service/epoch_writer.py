"""A sink's records in the transaction of the process."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from kstorm.core.exact import ExactBoltTask
from kstorm.core.outbox import Outgoing
from kstorm.core.sizes import too_large
from kstorm.errors import BrokerError
from kstorm.kafka.ports import Headers, OnBatchDelivery, OnDelivery, RecordColumn

_BY_KEY = -1  # the producer chooses the partition


class EpochWriter:
    """A `RecordWriter` of one task. A record counts as written at once: it is committed with its tuple's ack, or neither is."""

    def __init__(self, task: ExactBoltTask) -> None:
        self._task = task

    async def close(self) -> None:
        """See `RecordWriter.close`: what was written leaves with the next epoch."""

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        """See `RecordWriter.write`. Raises `BrokerError` if no transaction could hold the record: its tuple fails."""
        record = self._make(topic, value, key, headers)
        if problem := too_large(record):
            raise BrokerError(f"a record for topic {topic!r} cannot be written: {problem}")
        self._task.write([record])
        on_delivery(None, None)

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        """See `RecordWriter.write_batch`. If one of them cannot be written, none is."""
        make = partial(self._make, topic)
        if headers is None:
            records = [make(value, key) for key, value in zip(keys, values, strict=True)]
        else:
            records = [make(value, key, own) for key, value, own in zip(keys, values, headers, strict=True)]
        problems = [problem for record in records if (problem := too_large(record))]
        if not problems:
            self._task.write(records)
        on_done(problems)

    def _make(self, topic: str, value: Any, key: str | bytes | None, headers: Headers | None = None) -> Outgoing:
        return Outgoing(topic, _BY_KEY, value, key, headers, self._task.task_id)
