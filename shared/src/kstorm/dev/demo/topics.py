"""The topics that the demo's topology reads and writes."""

from typing import Final

from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import create_topic

SOURCE_PARTITIONS: Final = 12
SINK_PARTITIONS: Final = 4


def create_demo_topics(settings: Settings, source: str, sink: str) -> None:
    """Create the topic that the sentences go to, and the one for the counts.

    In the sink topic the broker sets the timestamps, so they are the times when records arrived.
    """
    create_topic(settings, source, SOURCE_PARTITIONS)
    create_topic(settings, sink, SINK_PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
