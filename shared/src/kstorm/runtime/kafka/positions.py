"""Looks up what a spout's consumer group has committed of its source: the `PositionReader` of `kstorm.kafka.ports`."""

from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kstorm.errors import BrokerError, KstormError
from kstorm.kafka.ports import Partition
from kstorm.runtime.service.settings import Settings

_ANSWER_SECS: Final = 20.0


class GroupPositions:
    """Of one consumer group. Used on the event loop; nothing here waits."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._settings, self._group = settings, group
        self._admin = AdminClient({**settings.client_config, "client.id": f"{settings.instance}-positions"})
        self._asked: dict[Partition, Future[Any]] = {}
        self._problem: BrokerError | None = None

    def position(self, partition: Partition) -> int | None:
        """See `PositionReader.position`."""
        future = self._asked.get(partition)
        if future is None:
            place = TopicPartition(*partition)
            asked = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self._group, [place])],
                require_stable=True,  # what is open in a transaction may be ours: its outcome is waited for
                request_timeout=_ANSWER_SECS,
            )
            self._asked[partition] = asked[self._group]
            return None
        if not future.done():
            return None
        del self._asked[partition]
        try:
            (found,) = future.result().topic_partitions
        except KafkaException as error:
            self._refused(error.args[0].str())
            return None
        if found.error is not None:
            self._refused(found.error.str())
            return None
        self._problem = None
        return int(found.offset) if found.offset >= 0 else -1

    def problem(self) -> KstormError | None:
        """See `PositionReader.problem`."""
        return self._problem

    def _refused(self, reason: str) -> None:
        self._problem = BrokerError(
            f"the offsets of the group {self._group!r} cannot be read from Kafka at {self._settings.bootstrap_servers}: {reason}"
        )
