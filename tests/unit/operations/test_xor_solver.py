"""Recovery of the ids whose XOR is a given value."""

from functools import reduce
from operator import xor
from random import Random

from kstorm.operations.trees.xor_solver import MOST_UNKNOWN, XorSpan, one_or_two


def test_the_parts_of_a_sum_are_found() -> None:
    """The solver takes up to `MOST_UNKNOWN` ids."""
    random = Random(3)
    ids = [random.getrandbits(64) for _ in range(MOST_UNKNOWN)]
    span = XorSpan(ids)
    assert span.unique
    for size in (0, 1, 7, MOST_UNKNOWN):
        parts = sorted(random.sample(range(MOST_UNKNOWN), size))
        assert span.parts_of(reduce(xor, (ids[part] for part in parts), 0)) == parts


def test_unrelated_value_has_no_parts() -> None:
    """With few ids, no subset matches by chance."""
    random = Random(4)
    span = XorSpan([random.getrandbits(64) for _ in range(20)])
    assert all(span.parts_of(random.getrandbits(64)) is None for _ in range(1000))


def test_dependent_ids_are_detected() -> None:
    """Then the answer is not unique."""
    assert not XorSpan([1, 2, 3]).unique
    assert XorSpan([1, 2, 4]).unique


def test_one_or_two_of_very_many() -> None:
    """The solver needs no elimination for that."""
    random = Random(5)
    ids = [random.getrandbits(64) for _ in range(5000)]
    assert one_or_two(ids, ids[17]) == [17]
    assert one_or_two(ids, ids[17] ^ ids[4000]) == [17, 4000]
    assert one_or_two(ids, ids[1] ^ ids[2] ^ ids[3]) is None
    assert one_or_two(ids, 0) is None
