"""Which partitions a spout task reads: the seed's `calculatePartitionsForTask`.

There is no consumer group: the task index alone decides, so a task that moves to another process takes exactly its own
partitions along, and no other task notices.
"""

import logging
from collections.abc import Sequence

from kstorm.errors import ConfigError
from kstorm.kafka.ports import Partition

log = logging.getLogger(__name__)


def calculate_partitions_for_task(
    partitions: Sequence[Partition], total_tasks: int, task_index: int
) -> list[Partition]:
    """Every `total_tasks`-th of the ordered partitions, from the `task_index`-th on.

    With 5 partitions and 3 tasks, task 1 reads the partitions 1 and 4. Tasks beyond the number of partitions read
    nothing, and a warning says so. Raises `ConfigError` if there is no task of that index.
    """
    if not 0 <= task_index < total_tasks:
        raise ConfigError(f"task index {task_index} of {total_tasks} tasks: it must be from 0 to {total_tasks - 1}")
    if len(partitions) < total_tasks:
        log.warning(
            "there are more tasks than partitions (tasks: %d; partitions: %d), some tasks will be idle",
            total_tasks,
            len(partitions),
        )
    return list(partitions[task_index::total_tasks])
