"""Record in `<topology>.__finished` that an operator moves an offset, and which offsets are
skipped.

The record is written before the offset is moved, so that no audit finds an unexplained gap.
"""

import time
import uuid
from collections.abc import Mapping

from msgspec.structs import replace

from kstorm.errors import BrokerError
from kstorm.kafka.finished_ranges import FinishedRange, moved_range
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Partition
from kstorm.operations.events.operator_identity import operator
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.single_partition_topic import write_topic
from kstorm.runtime.zookeeper.nodes import OffsetNode
from kstorm.topology.names import NamesOf


def note_moves(
    reading: SpoutOffsets,
    changes: Mapping[Partition, tuple[OffsetNode, StoredOffset]],
    positions: Mapping[Partition, int],
    command: str,
) -> str:
    """Record the offsets that the changes skip. Return why that was not possible, or "".

    `positions` are the current positions. Raises `BrokerError` if Kafka rejects a record.
    """
    session, who = uuid.uuid4().hex, operator()
    records: dict[str, list[FinishedRange]] = {}
    for partition, (node, stored) in changes.items():
        before = 0 if node.stored is None else node.stored.offset
        found = moved_range(before, stored.offset, command, who, positions.get(partition, 0))
        if found is not None:
            name = stored.topology.name if reading.group is None else reading.topology.name
            records.setdefault(NamesOf(name).finished_topic, []).append(
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
        try:
            write_topic(
                reading.settings,
                topic,
                [(record.key, record.encode()) for record in records[topic]],
            )
        except BrokerError as error:
            raise BrokerError(
                f"{error}. Without this record of the skipped messages, no offset was changed"
            ) from None
    missing = sorted(records.keys() - there.keys())
    return f"there is no topic {', '.join(missing)}" if missing else ""
