"""Partitions are assigned by task index, as in Storm's documentation, *Storm Kafka Integration*."""

import logging

import pytest

from kstorm.errors import ConfigError
from kstorm.kafka.partition_assignment import (
    calculate_partitions_for_task,
    calculate_partitions_of_topics_for_task,
)
from kstorm.kafka.ports import Partition

FIVE = [Partition("t", number) for number in range(5)]


def test_the_example_of_storms_documentation() -> None:
    """With 5 partitions and 3 tasks, task 1 reads the partitions 1 and 4."""
    assert calculate_partitions_for_task(FIVE, 3, 1) == [FIVE[1], FIVE[4]]


@pytest.mark.parametrize("tasks", range(1, 8))
def test_every_partition_has_one_task(tasks: int) -> None:
    """Together, any number of tasks reads each partition once."""
    dealt = [p for task in range(tasks) for p in calculate_partitions_for_task(FIVE, tasks, task)]
    assert sorted(dealt) == FIVE


def test_surplus_tasks_idle_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A task beyond the number of partitions reads nothing, and the log gives the reason."""
    with caplog.at_level(logging.WARNING):
        assert calculate_partitions_for_task(FIVE, 6, 5) == []
    assert "more tasks than partitions (tasks: 6; partitions: 5)" in caplog.text


@pytest.mark.parametrize("index", [-1, 3])
def test_invalid_task_index_is_refused(index: int) -> None:
    """The index must be below the number of tasks."""
    with pytest.raises(ConfigError, match=f"task index {index} of 3"):
        calculate_partitions_for_task(FIVE, 3, index)


TOPICS = [Partition(topic, number) for topic in ("a", "b", "c", "d") for number in range(3)]


def of_topics(partitions: list[Partition], tasks: int) -> dict[Partition, int]:
    """Returns the task of each partition, and fails if a partition has two."""
    dealt = [
        (p, task)
        for task in range(tasks)
        for p in calculate_partitions_of_topics_for_task(partitions, tasks, task)
    ]
    assert sorted(p for p, _ in dealt) == sorted(partitions)
    return dict(dealt)


@pytest.mark.parametrize("tasks", range(1, 8))
def test_a_topic_that_comes_or_goes_moves_no_other(tasks: int) -> None:
    """New partitions move no task either, because each topic is assigned separately."""
    before = of_topics(TOPICS, tasks)
    without = [partition for partition in TOPICS if partition.topic != "a"]
    grown = sorted([*TOPICS, Partition("0", 0), Partition("b", 3), Partition("bb", 0)])
    for after in (of_topics(without, tasks), of_topics(grown, tasks)):
        assert {p: task for p, task in after.items() if p in before} == {
            p: before[p] for p in after if p in before
        }


def test_topics_of_one_partition_are_spread() -> None:
    """Otherwise task 0 would read them all."""
    dealt = of_topics([Partition(f"t{number:02}", 0) for number in range(40)], 4)
    assert set(dealt.values()) == {0, 1, 2, 3}


def test_surplus_tasks_are_counted_over_all_topics(caplog: pytest.LogCaptureFixture) -> None:
    """Twelve partitions are enough for twelve tasks, even if each topic has fewer."""
    with caplog.at_level(logging.WARNING):
        calculate_partitions_of_topics_for_task(TOPICS, 12, 0)
        assert caplog.text == ""
        calculate_partitions_of_topics_for_task(TOPICS, 13, 0)
    assert "more tasks than partitions (tasks: 13; partitions: 12)" in caplog.text
