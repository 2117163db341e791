"""Says in the topic `<topology>.__finished` that an operator moves an offset: who, and what is passed over by that.

It is there before the offset is moved, so that no audit finds a gap which nobody has explained.
"""

import time
import uuid
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException, Message, Producer
from msgspec.structs import replace

from kstorm.cli.reading import Reading
from kstorm.cli.who import operator
from kstorm.errors import BrokerError
from kstorm.kafka.finished import FinishedRange, moved
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Partition
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.service.settings import Settings
from kstorm.runtime.zookeeper.nodes import OffsetNode

_FLUSH_SECS: Final = 20.0


def note_moves(
    reading: Reading,
    changes: Mapping[Partition, tuple[OffsetNode, StoredOffset]],
    positions: Mapping[Partition, int],
    command: str,
) -> str:
    """Writes what the changes pass over; why that could not be, empty if it was. `positions` are those that count. Raises
    `BrokerError` if Kafka refuses a record."""
    session, who = uuid.uuid4().hex, operator()
    records: dict[str, list[FinishedRange]] = {}
    for partition, (node, stored) in changes.items():
        before = 0 if node.stored is None else node.stored.offset
        found = moved(before, stored.offset, command, who, positions.get(partition, 0))
        if found is not None:
            name = stored.topology.name if reading.group is None else reading.topology.name
            records.setdefault(f"{name}.__finished", []).append(
                replace(
                    found,
                    reading=reading.root_of(partition.topic),
                    session=session,
                    topic=partition.topic,
                    partition=partition.partition,
                    at=int(time.time() * 1000),
                )
            )
    there = Admin(reading.settings).partition_counts() if records else {}
    for topic in records.keys() & there.keys():
        _write(reading.settings, topic, records[topic])
    missing = sorted(records.keys() - there.keys())
    return f"there is no topic {', '.join(missing)}" if missing else ""


def _write(settings: Settings, topic: str, records: list[FinishedRange]) -> None:
    refused: list[str] = []

    def delivered(error: object | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer({**settings.client_config, "enable.idempotence": True})
    try:
        for record in records:
            producer.produce(topic, record.encode(), record.key, on_delivery=delivered)
    except KafkaException as error:
        refused.append(error.args[0].str())
    if producer.flush(_FLUSH_SECS) or refused:
        told = refused[0] if refused else "no answer"
        raise BrokerError(f"topic {topic!r} does not take a record of what is skipped: {told}. No offset was changed")
