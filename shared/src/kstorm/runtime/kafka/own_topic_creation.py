"""Creates a topology's source and sink topics in a Kafka that is part of its release."""

from kstorm.kafka.own_topics import own_sinks, own_sources
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import create_topic
from kstorm.topology import Topology


def create_own_topics(topology: Topology, settings: Settings, partitions: int) -> list[str]:
    """Create the missing topics and return their names.

    May be called from many processes. Raises the errors of `create_topic`.
    """
    return [
        topic
        for topic in {**own_sources(topology), **own_sinks(topology)}
        if create_topic(settings, topic, partitions)
    ]
