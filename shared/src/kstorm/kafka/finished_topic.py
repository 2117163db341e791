"""Writes the finished ranges of a spout task to the topic `<topology>.__finished`."""

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from kstorm.errors import BrokerError, KstormError
from kstorm.kafka.config import SpoutConfig
from kstorm.kafka.finished_ranges import FinishedRange
from kstorm.kafka.ports import Partition, RecordWriter
from kstorm.topology import TopologyContext

Written = Callable[[bool], None]
"""Called once per record, with True if the broker has it."""

_NOT_STORED: Final = (
    "until it does, offsets are not stored, so a restart repeats the messages processed now"
)


class FinishedTopic:
    """Writes the records of one spout task. `writer` belongs to the task."""

    def __init__(
        self,
        writer: RecordWriter,
        config: SpoutConfig,
        context: TopologyContext,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._writer, self._config, self._clock = writer, config, clock
        self._spout, self._task, self._topic = (
            context.component,
            context.task_id,
            context.topology.finished_topic,
        )
        self._session = uuid.uuid4().hex
        self._problem: KstormError | None = None

    def now(self) -> int:
        return int(self._clock() * 1000)

    def write(self, partition: Partition, finished: FinishedRange, written: Written) -> None:
        """Write a record. `written` is called later, or now if the record cannot be queued."""
        record = replace(
            finished,
            reading=self._config.zk_path_of(partition.topic),
            spout=self._spout,
            task=self._task,
            session=self._session,
            topic=partition.topic,
            partition=partition.partition,
            at=self.now(),
        )
        try:
            self._writer.write(
                self._topic, record.key, record.encode(), partial(self._delivered, written)
            )
        except BrokerError as error:
            self._delivered(written, error, None)

    def problem(self) -> KstormError | None:
        """The reason why the last record was rejected, or None if it was not."""
        return self._problem

    async def close(self) -> None:
        """Wait at most a few seconds for pending records and those that their callbacks write."""
        await self._writer.close()

    def _delivered(self, written: Written, error: object | None, record: object) -> None:
        self._problem = None
        if error is not None:
            self._problem = BrokerError(
                f"topic {self._topic!r} does not accept a record: {error}; {_NOT_STORED}"
            )
        written(error is None)
