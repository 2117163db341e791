"""Read and move the position of an exactly-once spout: its group's offsets of the source topic.

ZooKeeper takes precedence. An offset that an operator sets there is newer than any position, and
the spout moves its position there before it emits anything (`kstorm.kafka.positioned_offsets`).
This module moves the position too, only for the benefit of tools that show the group.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from kstorm.errors import BrokerError
from kstorm.kafka.ports import Partition
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.errors import raise_first_error

_ANSWER_SECS: Final = 20.0


def positions_of(
    settings: Settings, group: str, partitions: Sequence[Partition]
) -> Mapping[Partition, int]:
    """Return the positions of the partitions that have one.

    Raises `BrokerError` if Kafka does not report them.
    """
    asked = ConsumerGroupTopicPartitions(
        group, [TopicPartition(*partition) for partition in partitions]
    )
    admin = Admin(settings)  # must outlive its futures
    try:
        answers = admin.group_offsets([asked], _ANSWER_SECS)
        found = answers[group].result().topic_partitions
        raise_first_error(found)
    except KafkaException as error:
        raise BrokerError(
            f"Kafka at {settings.bootstrap_servers} did not return the offsets of the group "
            f"{group!r}: {error.args[0].str()}"
        ) from None
    return {
        Partition(place.topic, place.partition): place.offset
        for place in found
        if place.offset >= 0
    }


def move_positions(settings: Settings, group: str, offsets: Mapping[Partition, int]) -> str:
    """Commit offsets for a group without members. Return the error, or empty on success."""
    places = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
    admin = Admin(settings)  # must outlive its futures
    try:
        answers = admin.client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places)], request_timeout=_ANSWER_SECS
        )
        raise_first_error(answers[group].result().topic_partitions)
    except KafkaException as error:
        return str(error.args[0].str())
    return ""
