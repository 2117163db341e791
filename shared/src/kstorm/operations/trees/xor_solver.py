"""Find which of some random 64-bit ids were XORed to a value, by Gaussian elimination over GF(2).

Up to about 50 random ids are linearly independent, so there is at most one answer. With n ids, an
unrelated value has an answer with probability 2^(n-64).
"""

from collections.abc import Iterable, Sequence
from typing import Final

MOST_UNKNOWN: Final = 48
"""Answers are trusted for up to this number of IDs. At most one in 65,000 is wrong."""


class XorSpan:
    """The linear span of some values."""

    def __init__(self, values: Iterable[int]) -> None:
        self.unique = True
        """True if the values are independent, so that every total has at most one answer."""
        # Leading bit → a sum, and a bit mask of the values that it consists of.
        self._rows: dict[int, tuple[int, int]] = {}
        self._count = 0
        for value in values:
            self._add(value)

    def parts_of(self, total: int) -> Sequence[int] | None:
        """Return the indexes of the values whose XOR is `total`, in order. None if impossible."""
        left, parts = self._reduced(total, 0)
        if left:
            return None
        return [number for number in range(self._count) if parts >> number & 1]

    def _add(self, value: int) -> None:
        left, parts = self._reduced(value, 1 << self._count)
        self._count += 1
        if left:
            self._rows[left.bit_length()] = left, parts
        else:
            self.unique = False

    def _reduced(self, value: int, parts: int) -> tuple[int, int]:
        rows = self._rows
        while value and (row := rows.get(value.bit_length())) is not None:
            value ^= row[0]
            parts ^= row[1]
        return value, parts


def one_or_two(values: Sequence[int], total: int) -> Sequence[int] | None:
    """Return the index of the value that equals `total`, or those of two values whose XOR equals
    it.

    Takes linear time for any number of values.
    """
    numbers = {value: number for number, value in enumerate(values)}
    if (number := numbers.get(total)) is not None:
        return [number]
    for number, value in enumerate(values):
        other = numbers.get(value ^ total)
        if other is not None and other != number:
            return sorted((number, other))
    return None
