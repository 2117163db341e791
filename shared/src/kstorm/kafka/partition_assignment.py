"""Assigns partitions to spout tasks: Storm's `calculatePartitionsForTask`.

The spout does not use a consumer group's rebalancing. The assignment depends only on the task
index. So a task that moves to another process keeps its partitions, and other tasks are not
affected.
"""

import logging
import zlib
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from kstorm.errors import ConfigError
from kstorm.kafka.cluster import Partition

log = logging.getLogger(__name__)


def calculate_partitions_for_task(
    partitions: Sequence[Partition], total_tasks: int, task_index: int
) -> list[Partition]:
    """Return every `total_tasks`-th of the ordered partitions, starting at index `task_index`.

    With 5 partitions and 3 tasks, task 1 reads the partitions 1 and 4. Tasks beyond the number of
    partitions read nothing, which is logged as a warning. Raises `ConfigError` if `task_index` is
    out of range.
    """
    _check(partitions, total_tasks, task_index)
    return list(partitions[task_index::total_tasks])


def calculate_partitions_of_topics_for_task(
    partitions: Sequence[Partition], total_tasks: int, task_index: int
) -> list[Partition]:
    """Apply `calculate_partitions_for_task` per topic, with a start task that depends on the
    topic's name.

    So an added or removed topic does not move partitions of other topics to other tasks, where they
    would be read again from their stored offsets. Storm distributes the partitions of all topics in
    one sequence, which moves most of them. The drawback is that the tasks' numbers of partitions
    may differ by more than one.
    """
    _check(partitions, total_tasks, task_index)
    mine: list[Partition] = []
    for topic, group in groupby(partitions, attrgetter("topic")):
        first = zlib.crc32(topic.encode()) % total_tasks
        mine += list(group)[(task_index - first) % total_tasks :: total_tasks]
    return mine


def _check(partitions: Sequence[Partition], total_tasks: int, task_index: int) -> None:
    if not 0 <= task_index < total_tasks:
        raise ConfigError(
            f"task index {task_index} of {total_tasks} tasks: it must be from 0 to "
            f"{total_tasks - 1}"
        )
    if 0 < len(partitions) < total_tasks:
        log.warning(
            "there are more tasks than partitions (tasks: %d; partitions: %d), some tasks will be "
            "idle",
            total_tasks,
            len(partitions),
        )
