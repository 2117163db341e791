"""A sink's records in the transaction of the process."""

from collections.abc import Sequence
from functools import partial

from kstorm.core.exact import ExactBoltTask
from kstorm.core.outbox import Outgoing
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
        """See `RecordWriter.write`."""
        self._task.write([Outgoing(topic, _BY_KEY, value, key, headers)])
        on_delivery(None, None)

    def write_batch(
        self,
        topic: str,
        keys: RecordColumn,
        values: RecordColumn,
        on_done: OnBatchDelivery,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        """See `RecordWriter.write_batch`."""
        make = partial(Outgoing, topic, _BY_KEY)
        if headers is None:
            self._task.write([make(value, key) for key, value in zip(keys, values, strict=True)])
        else:
            rows = zip(keys, values, headers, strict=True)
            self._task.write([make(value, key, own) for key, value, own in rows])
        on_done([])
