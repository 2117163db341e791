"""A process joins its group again if the group left tasks unassigned."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from math import inf

import pytest

from kstorm.errors import BrokerError
from kstorm.runtime.kafka.unassigned_tasks import UnassignedTaskDetector

REVOKE_SECS = 30.0
Answers = dict[float, "set[int] | Exception | None"]
"""The group's answers by start time."""


class Group:
    """The group, and a process that joined it at second 0."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.now, self.asked = answers, 0.0, 0
        self.looks = UnassignedTaskDetector(self._ask, REVOKE_SECS)
        self.looks.joined(0.0)

    def _ask(self) -> set[int] | None:
        self.asked += 1
        answer = self.answers[max(since for since in self.answers if since <= self.now)]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def first_said(
        self, *, has_tasks: bool = False, until: float = 100.0
    ) -> tuple[float, set[int]]:
        """Returns the time of the first report and its tasks, or infinity without a report."""
        for step in count():
            self.now = step / 2
            if self.now > until:
                return inf, set()
            found = self.looks.look(self.now, has_tasks=has_tasks)
            if self.looks._asked is not None:
                self.looks._asked.exception(10)  # waits for the answer
                found = self.looks.look(self.now, has_tasks=has_tasks)
            if found:
                return self.now, found
        raise AssertionError


@contextmanager
def group(answers: Answers) -> Iterator[Group]:
    """Provide a group, and close it."""
    made = Group(answers)
    try:
        yield made
    finally:
        made.looks.close()


def test_a_process_without_tasks_waits_a_little() -> None:
    """Tasks are unassigned for a moment during every move."""
    with group({0: {1, 3}}) as each:
        when, found = each.first_said()
    assert found == {1, 3}
    assert 5 <= when <= 8


def test_process_with_tasks_waits_for_the_revocation_timeout() -> None:
    """Rejoining would revoke its own tasks."""
    with group({0: {1}}) as each:
        when, found = each.first_said(has_tasks=True)
    assert found == {1}
    assert REVOKE_SECS + 5 <= when <= REVOKE_SECS + 8


def test_moving_tasks_are_not_unassigned() -> None:
    """Short gaps do not count, nor does a rebalance in progress."""
    with group({0: {1}, 5: None, 9: {2}, 12: set()}) as each:
        assert each.first_said() == (inf, set())


def test_no_further_look_once_every_task_has_an_owner() -> None:
    """A returning process makes its own look."""
    with group({0: None, 5: set(), 10: {1}}) as each:
        assert each.first_said() == (inf, set())
        assert each.asked <= 5
        each.looks.joined(0.0)
        each.answers = {0: {1}}
        assert each.first_said()[1] == {1}, "after it has joined again it asks again"


@pytest.mark.parametrize("silent_until", [0.5, 50.0])
def test_a_kafka_that_does_not_answer_is_asked_again(silent_until: float) -> None:
    """The missing answer gives no information."""
    with group({0: BrokerError("no answer"), silent_until: {1}}) as each:
        when, found = each.first_said()
    assert found == {1}
    assert when > silent_until
