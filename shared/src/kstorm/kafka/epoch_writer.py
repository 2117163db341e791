"""A sink's records in the transaction of the process."""

from collections.abc import Sequence
from typing import Protocol

from kstorm.errors import BrokerError
from kstorm.kafka.ports import Headers, OnBatchDelivery, OnDelivery, RecordColumn


class EpochTask(Protocol):
    """A task whose process writes what it does in transactions."""

    def write(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        headers: Sequence[Headers | None] | None,
    ) -> None:
        """Adds records to what the execution under way does; the producer chooses their partitions, by the keys.

        Raises `BrokerError` if one of them cannot be written: then none is.
        """
        ...


class EpochWriter:
    """A `RecordWriter` of one task. A record counts as written at once: it is committed with its tuple's ack, or neither is."""

    def __init__(self, task: EpochTask) -> None:
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
        self._task.write(topic, [key], [value], [headers])
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
        try:
            self._task.write(topic, keys, values, headers)
        except BrokerError as error:
            on_done([error])
        else:
            on_done([])
