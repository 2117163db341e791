"""Writes a sink's records in the transaction of the process."""

from collections.abc import Sequence
from typing import Protocol

from kstorm.errors import BrokerError
from kstorm.kafka.ports import Headers, OnBatchDelivery, OnDelivery, RecordColumn


class EpochTask(Protocol):
    """A task of a process that writes its output in transactions."""

    def write(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        headers: Sequence[Headers | None] | None,
    ) -> None:
        """Add records to the current execution. The producer partitions them by their keys.

        Raises `BrokerError` if one of them cannot be written. Then none is written.
        """


class EpochWriter:
    """A `RecordWriter` of one task for exactly-once processing.

    A record counts as written immediately, because the record and its tuple's ack are committed
    atomically.
    """

    def __init__(self, task: EpochTask) -> None:
        self._task = task

    async def close(self) -> None:
        """Do nothing: the records are committed with the next epoch."""

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        on_delivery: OnDelivery,
        headers: Headers | None = None,
    ) -> None:
        """Raises `BrokerError` if no transaction can hold the record. Then its tuple fails."""
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
        """Write all records, or none if one of them cannot be written."""
        try:
            self._task.write(topic, keys, values, headers)
        except BrokerError as error:
            on_done([error])
        else:
            on_done([])
