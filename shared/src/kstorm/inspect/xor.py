"""Which of some random 64-bit ids were XORed to a value: Gaussian elimination over GF(2).

Random ids are independent as long as there are some fifty of them, so there is one answer or none. That a value which was made
otherwise has an answer all the same has a chance of 2^(n-64) with n ids.
"""

from collections.abc import Iterable, Sequence
from typing import Final

MOST_UNKNOWN: Final = 48
"""Ids up to which an answer is believed: a wrong one comes once in 65,000 times at most."""


class Span:
    """What can be made of some values."""

    def __init__(self, values: Iterable[int]) -> None:
        self.unique = True
        """Whether no value can be made of the others: then there is at most one way to make any."""
        self._rows: dict[
            int, tuple[int, int]
        ] = {}  # leading bit → a sum, and of which values it is one, a bit each
        self._count = 0
        for value in values:
            self._add(value)

    def parts_of(self, total: int) -> Sequence[int] | None:
        """The numbers of the values whose XOR is `total`, in order; None if there are none such."""
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
    """The numbers of the one value that is `total`, or of the two whose XOR is: of any number of values, in linear time."""
    numbers = {value: number for number, value in enumerate(values)}
    if (number := numbers.get(total)) is not None:
        return [number]
    for number, value in enumerate(values):
        other = numbers.get(value ^ total)
        if other is not None and other != number:
            return sorted((number, other))
    return None
