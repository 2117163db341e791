"""Partitions are dealt out by task index, as in the seed."""

import logging

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka.partitions import calculate_partitions_for_task
from kstorm.kafka.ports import Partition

FIVE = [Partition("t", number) for number in range(5)]


def test_the_seeds_example() -> None:
    """With 5 partitions and 3 tasks, task 1 reads the partitions 1 and 4."""
    assert calculate_partitions_for_task(FIVE, 3, 1) == [FIVE[1], FIVE[4]]


@pytest.mark.parametrize("tasks", range(1, 8))
def test_every_partition_has_one_task(tasks: int) -> None:
    """However many tasks there are, together they read each partition once."""
    dealt = [p for task in range(tasks) for p in calculate_partitions_for_task(FIVE, tasks, task)]
    assert sorted(dealt) == FIVE


def test_surplus_tasks_idle_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A task beyond the number of partitions reads nothing, and the log says why."""
    with caplog.at_level(logging.WARNING):
        assert calculate_partitions_for_task(FIVE, 6, 5) == []
    assert "more tasks than partitions (tasks: 6; partitions: 5)" in caplog.text


@pytest.mark.parametrize("index", [-1, 3])
def test_a_task_index_that_is_none_is_refused(index: int) -> None:
    """The index must be below the number of tasks."""
    with pytest.raises(ConfigError, match=f"task index {index} of 3"):
        calculate_partitions_for_task(FIVE, 3, index)
