"""Writes and reads the topic `<topology>.__events`."""

from collections.abc import Iterator

from kstorm.errors import FrameError
from kstorm.events import Event, decode_event, encode_event
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.single_partition_topic import read_topic, write_topic
from kstorm.topology.names import NamesOf


def write_event(settings: Settings, topology: str, event: Event, within: float = 20.0) -> bool:
    """Write an event. Returns False if the topology has no event topic.

    Raises `BrokerError` if Kafka does not respond within `within` seconds or rejects the record.
    """
    topic = NamesOf(topology).events_topic
    if topic not in Admin(settings).partition_counts(within):
        return False
    write_topic(settings, topic, [(None, encode_event(event))])
    return True


def read_events(settings: Settings, topology: str, first: int = 0) -> Iterator[Event]:
    """Yield the events from offset `first` on, without invalid records. Raises `BrokerError`."""
    for record in read_topic(settings, NamesOf(topology).events_topic, first):
        value = record.value()
        try:
            yield decode_event(value.encode() if isinstance(value, str) else value or b"")
        except FrameError:
            continue
