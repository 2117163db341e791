"""Read and move the position of an exactly-once spout: its group's offsets of the source topic.

ZooKeeper takes precedence. An offset that an operator sets there is newer than any position, and
the spout moves its position there before it emits anything (`kstorm.kafka.positioned_offsets`).
This module moves the position too, only for the benefit of tools that show the group.
"""

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException, TopicPartition

from kstorm.kafka.ports import Partition
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.offset_reader import OffsetReader


def positions_of(
    settings: Settings, group: str, partitions: Sequence[Partition]
) -> Mapping[Partition, int]:
    """Return the positions of the partitions that have one.

    Raises `BrokerError` if Kafka does not report them.
    """
    asked = {group: [TopicPartition(*partition) for partition in partitions]}
    found = OffsetReader(settings).stored(asked)[group]
    return {Partition(place.topic, place.partition): place.offset for place in found}


def move_positions(settings: Settings, group: str, offsets: Mapping[Partition, int]) -> str:
    """Commit offsets for a group without members. Return the error, or empty on success."""
    places = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
    try:
        Admin(settings).store_offsets(group, places)
    except KafkaException as error:
        return str(error.args[0].str())
    return ""
