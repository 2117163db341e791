"""Topics that belong to no topology: what its spouts read and its sinks write."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.errors import BrokerError
from kstorm.runtime.settings import Settings
from kstorm.runtime.topics import partition_counts

_TIMEOUT_SECS: Final = 30.0


def create_topic(settings: Settings, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> bool:
    """Create a topic; False if it is there already, whatever its partitions. Raises `BrokerError`."""
    admin = AdminClient(dict(settings.client_config))
    new = NewTopic(topic, partitions, settings.replication_factor, config=dict(config or {}))
    try:
        admin.create_topics([new], request_timeout=_TIMEOUT_SECS)[topic].result()
    except KafkaException as error:
        if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
            return False
        raise BrokerError(f"Kafka would not create the topic {topic!r}: {error.args[0].str()}") from None
    return True


def topic_names(settings: Settings) -> set[str]:
    """The topics that there are; `BrokerError` if no broker answers."""
    return set(partition_counts(AdminClient(dict(settings.client_config)), settings))
