"""Finds the unfinished work of an exactly-once topology, from its committed records."""

from collections.abc import Iterator

from kstorm.core.exactly_once.unfinished import is_unfinished_key
from kstorm.testing.logs import BrokerLogs, TopicPartition, TransactionFate
from kstorm.testing.world import SimulatedWorld


def unfinished_tasks(world: SimulatedWorld) -> Iterator[str]:
    """Yield bolt tasks, by name and index, that have frames to execute, or tuples to finish or
    retry."""
    topology, logs = world.topology, world.logs
    for bolt in topology.bolts:
        for task in range(bolt.num_tasks):
            if _has_input(logs, (topology.bolt_topic(bolt.id), task)) or _has_written_down(
                logs, (topology.state_topic(bolt.id), task)
            ):
                yield f"{bolt.id}[{task}]"


def _has_input(logs: BrokerLogs, place: TopicPartition) -> bool:
    """Return True if input remains, including records in open transactions."""
    if logs.stable_end(place) < len(logs.records(place)):
        return True
    return bool(logs.committed_records(place, logs.committed(place), len(logs.records(place))))


def _has_written_down(logs: BrokerLogs, place: TopicPartition) -> bool:
    left = set()
    for written in logs.changelog(place):
        key, value = written.change
        if written.transaction.fate is TransactionFate.COMMITTED and is_unfinished_key(key):
            left.discard(key) if value is None else left.add(key)
    return bool(left)
