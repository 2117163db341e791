"""Change the offsets of a spout: what `kstorm offsets` and `kstorm migrate offsets` share.

The commands change offsets only while no process reads the partitions, and change either all or
none of them. For an exactly-once spout they also move the position in Kafka.
"""

import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

from kstorm.cli.json_output import print_json
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import Partition
from kstorm.operations.events.audit_log import record_event
from kstorm.operations.offsets.group_offsets import move_positions, positions_of
from kstorm.operations.offsets.offset_audit import note_moves
from kstorm.operations.offsets.source_log import LogRange, SourceLog, open_log
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.runtime.kafka.broker_reachability import check_reachable
from kstorm.runtime.zookeeper.nodes import OffsetNode, OffsetNodes, open_nodes

Changes = Mapping[Partition, tuple[OffsetNode, StoredOffset]]
"""The node of each partition as it was read, and its new content."""


def open_spout_nodes(reading: SpoutOffsets) -> AbstractContextManager[OffsetNodes]:
    settings = reading.settings
    return open_nodes(
        reading.zookeeper, reading.root_of, settings.zookeeper_auth, settings.zookeeper_tls
    )


def open_spout_log(reading: SpoutOffsets) -> AbstractContextManager[SourceLog]:
    if not getattr(reading.config.hosts, "bootstrap_servers", None):
        check_reachable(reading.settings)
    return open_log(reading)


def group_of(reading: SpoutOffsets, nodes: Iterable[OffsetNode]) -> str:
    """Return the consumer group that stores the positions. Empty if the spout is not an
    exactly-once spout."""
    if reading.group is not None:
        return reading.group
    return next(
        (node.stored.group for node in nodes if node.stored is not None and node.stored.group), ""
    )


def changes_of(
    reading: SpoutOffsets,
    nodes: OffsetNodes,
    logs: Mapping[Partition, LogRange],
    wanted: Mapping[Partition, int],
    owner: TopologyRef | None = None,
) -> Changes:
    """Return the old and new values of the nodes.

    Without `owner`, the owner of a stored offset stays the same, because `ignore_zk_offsets`
    depends on it.
    """
    changes = {}
    for partition, offset in wanted.items():
        node = nodes.read(partition)
        kept = reading.topology if node.stored is None else node.stored.topology
        leader = logs[partition].leader
        changes[partition] = node, StoredOffset.of(owner or kept, partition, offset, leader)
    return changes


def apply_moves(
    reading: SpoutOffsets,
    nodes: OffsetNodes,
    log: SourceLog,
    changes: Changes,
    command: str,
    json: bool,
) -> None:
    """Write the changes and print them. `command` is recorded in the audit topic.

    Raises `InUseError` if a process reads one of the partitions.
    """
    nodes.check_free(changes)
    wanted = {partition: stored.offset for partition, (_, stored) in changes.items()}
    group = group_of(reading, (node for node, _ in changes.values()))
    followed = [
        partition for partition, (node, _) in changes.items() if node.stored and node.stored.group
    ]
    positions = positions_of(reading.settings, group, followed) if followed else {}
    unsaid = note_moves(reading, changes, positions, command)
    nodes.write(changes)
    log.show_as_group(wanted)
    left_behind = move_positions(reading.settings, group, wanted) if group else ""
    moves = []
    for partition, (node, stored) in changes.items():
        before = "none" if node.stored is None else node.stored.offset
        moves.append(f"{partition}: {before} → {stored.offset}")
    if json:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, "offset": new.offset}
                for each, (_, new) in changes.items()
            ]
        )
    else:
        print("\n".join(moves))
    what, topologies = (
        command.removeprefix("kstorm "),
        {stored.topology.name for _, stored in changes.values()},
    )
    for name in topologies if reading.group is None else (reading.topology.name,):
        record_event(name, what, outcome=", ".join(moves), settings=reading.settings)
    if unsaid:
        print(f"an audit will not show who moved the offsets: {unsaid}", file=sys.stderr)
    if left_behind:
        print(
            f"the position of the group {group!r} in Kafka will move there when the spout starts; "
            f"it could not be moved now: {left_behind}",
            file=sys.stderr,
        )
