"""Create the source and sink topics of a local run, and remove everything that the run created."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from confluent_kafka import KafkaException
from kazoo.exceptions import NoNodeError

from kstorm.dev.endpoints import zookeeper_client
from kstorm.errors import KstormError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.topology import Topology

_TIMEOUT_SECS: Final = 30.0


def topic_names(settings: Settings) -> set[str]:
    """Return the names of existing topics. Raises `BrokerError` if no broker responds."""
    return set(Admin(settings).partition_counts())


@contextmanager
def cleaned_up(
    settings: Settings, topology: Topology, topics: list[str], zookeeper_path: str
) -> Iterator[None]:
    """At the end, remove these topics, the topology's topics and groups, and its offsets from the
    user's servers."""
    try:
        yield
    finally:
        _remove_from_kafka(
            settings, [*topics, *topology.topics(), *topology.changelogs()], topology.name
        )
        with suppress(KstormError, NoNodeError), zookeeper_client(settings.zookeeper) as client:
            client.delete(zookeeper_path, recursive=True)


def _remove_from_kafka(settings: Settings, topics: list[str], group_prefix: str) -> None:
    """Remove topics and groups. Missing topics and groups are ignored."""
    admin = Admin(settings).client
    with suppress(KafkaException):
        found = admin.list_consumer_groups(request_timeout=_TIMEOUT_SECS).result().valid
        groups = [group.group_id for group in found if group.group_id.startswith(group_prefix)]
        removals: dict[str, Any] = admin.delete_topics(topics, operation_timeout=_TIMEOUT_SECS)
        if groups:
            removals |= {
                f"group {name}": done for name, done in admin.delete_consumer_groups(groups).items()
            }
        for done in removals.values():
            with suppress(KafkaException):
                done.result()
