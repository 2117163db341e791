"""What of the work of an exactly-once topology is not done, by what is committed of it."""

from kstorm.core.exact.unfinished import is_unfinished_key
from kstorm.testing.logs import Fate, Logs, TopicPartition
from kstorm.testing.world import World


def unfinished_tasks(world: World) -> list[str]:
    """The bolts' tasks that have frames to execute, or tuples that they hold or will try again, by name and index."""
    topology, logs = world.topology, world.logs
    return [
        f"{bolt.id}[{task}]"
        for bolt in topology.bolts
        for task in range(bolt.num_tasks)
        if _has_input(logs, (topology.bolt_topic(bolt.id), task))
        or _has_written_down(logs, (topology.state_topic(bolt.id), task))
    ]


def _has_input(logs: Logs, place: TopicPartition) -> bool:
    """Also what is in an open transaction."""
    if logs.stable_end(place) < len(logs.records(place)):
        return True
    return bool(logs.committed_records(place, logs.committed(place), len(logs.records(place))))


def _has_written_down(logs: Logs, place: TopicPartition) -> bool:
    left = set()
    for written in logs.changelog(place):
        key, value = written.change
        if written.transaction.fate is Fate.COMMITTED and is_unfinished_key(key):
            left.discard(key) if value is None else left.add(key)
    return bool(left)
