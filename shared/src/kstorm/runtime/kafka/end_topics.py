"""Creates a topology's source and sink topics in a Kafka that is part of its release."""

from kstorm.kafka.ends import sinks_of, sources_of
from kstorm.runtime.kafka.topics import create_topic
from kstorm.runtime.service.settings import Settings
from kstorm.topology import Topology


def make_ends(topology: Topology, settings: Settings, partitions: int) -> list[str]:
    """Create the missing topics and return their names.

    May be called from many processes. Raises as `create_topic` does.
    """
    return [
        topic
        for topic in {**sources_of(topology), **sinks_of(topology)}
        if create_topic(settings, topic, partitions)
    ]
