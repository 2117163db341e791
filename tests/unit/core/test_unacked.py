"""A bolt's held tuples are remembered until they are finished or have timed out."""

import pytest

from kstorm.core import unacked as module
from kstorm.core.unacked import UnackedTuples
from kstorm.topology import Fields, Source, Tuple

SOURCE = Source("words", "default", 1, Fields("word"))


def tuples(count: int) -> list[Tuple]:
    return [Tuple((str(number),), SOURCE, number + 1, number + 1) for number in range(count)]


def test_unfinished_tuples_are_taken_once() -> None:
    """They are in the order of arrival."""
    held, (one, two, three) = UnackedTuples(30.0), tuples(3)
    for each in (one, two, three):
        held.add(each)
    two.finished = True
    assert held.take() == [one, three]
    assert held.take() == []


def test_tuple_is_dropped_at_the_second_turn() -> None:
    held, (one, two) = UnackedTuples(30.0), tuples(2)
    held.age(0.0)
    held.add(one)
    held.age(29.0)
    held.age(30.0)
    held.add(two)
    assert held.take() == [one, two]
    held.add(one)
    held.age(60.0)
    held.add(two)
    held.age(90.0)
    assert held.take() == [two]


def test_finished_tuples_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for any number of tuples, and for any remainder."""
    monkeypatch.setattr(module, "_FEW", 10)
    held, some = UnackedTuples(float("inf")), tuples(1000)
    for number, one in enumerate(some):
        one.finished = number % 100 > 0
        held.add(one)
    assert len(held._newer) <= 2 * 10 + 1
    assert held.take() == some[::100]


def test_a_bolt_that_never_acks_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the latest tuples are remembered."""
    monkeypatch.setattr(module, "_FEW", 10)
    monkeypatch.setattr(module, "_MOST", 100)
    held, some = UnackedTuples(float("inf")), tuples(1000)
    for one in some:
        held.add(one)
        assert len(held._older) + len(held._newer) <= 4 * 100
    left = held.take()
    assert left == some[-len(left) :]
    assert len(left) >= 100
