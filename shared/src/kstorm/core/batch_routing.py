"""Routing for batches: like `kstorm.core.routing`, but from columns to the rows of each lane."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kstorm.core.columns import Positions
from kstorm.core.lanes import Lane

Selection = slice | Positions
"""Selects rows of the columns."""

Spreader = Callable[[Sequence[list[Any]], int], Iterator[tuple[Lane, Selection]]]
"""Maps columns and a row count to lanes with their rows. Rows of a lane keep their order."""

_CACHED_KEYS = 65_536
_ALL = slice(None)


def to_everyone(lanes: Sequence[Lane]) -> Spreader:
    """Send every row to every lane. With one lane, this is also the global grouping."""
    return lambda _columns, _count: ((lane, _ALL) for lane in lanes)


def in_turn(lanes: Sequence[Lane], start: int) -> Spreader:
    """Shuffle in even blocks, starting at another lane each time.

    Blocks keep rows with one anchor together, so that their acks fold.
    """
    turn = start

    def spread(_columns: Sequence[list[Any]], count: int) -> Iterator[tuple[Lane, Selection]]:
        nonlocal turn
        blocks = min(count, len(lanes))
        first, turn = turn, turn + blocks
        for block in range(blocks):
            rows = slice(block * count // blocks, (block + 1) * count // blocks)
            yield lanes[(first + block) % len(lanes)], rows

    return spread


def by_fields(
    positions: Sequence[int], lanes: Sequence[Lane], number_of: Callable[[Sequence[Any]], int]
) -> Spreader:
    """Send equal keys to the same lane. `number_of` is the hash of a key."""
    number_of_key = _Numbers(lambda key: number_of((key,)) % len(lanes)).__getitem__

    def numbers(columns: Sequence[list[Any]], count: int) -> Positions:
        keys = columns[positions[0]]
        if len(positions) == 1:
            try:
                return np.fromiter(map(number_of_key, keys), np.intp, count)
            except TypeError:  # Python cannot hash some key
                return np.fromiter((number_of((key,)) % len(lanes) for key in keys), np.intp, count)
        rows = zip(*(columns[position] for position in positions), strict=True)
        return np.fromiter((number_of(key) % len(lanes) for key in rows), np.intp, count)

    def spread(columns: Sequence[list[Any]], count: int) -> Iterator[tuple[Lane, Selection]]:
        if len(lanes) == 1:
            return iter(((lanes[0], _ALL),))
        return _by_number(numbers(columns, count), lanes)

    return spread


def by_choice(choose: Callable[[Sequence[Any]], Sequence[Lane]]) -> Spreader:
    """Call a chooser for each row, for groupings without a faster method."""

    def spread(columns: Sequence[list[Any]], _count: int) -> Iterator[tuple[Lane, Selection]]:
        rows_of: dict[Lane, list[int]] = {}
        # A selection contains a row only once, as required by numpy's `vals[rows] ^= edges`.
        again: list[tuple[Lane, list[int]]] = []
        for row, values in enumerate(zip(*columns, strict=True)):
            for lane in choose(values):
                rows = rows_of.setdefault(lane, [])
                if rows and rows[-1] == row:
                    again.append((lane, [row]))
                else:
                    rows.append(row)
        return ((lane, np.array(rows, np.intp)) for lane, rows in (*rows_of.items(), *again))

    return spread


def pick(column: list[Any], rows: Selection) -> list[Any]:
    return column[rows] if isinstance(rows, slice) else list(map(column.__getitem__, rows.tolist()))


def _by_number(numbers: Positions, lanes: Sequence[Lane]) -> Iterator[tuple[Lane, Selection]]:
    if len(lanes) <= 16:
        for number, lane in enumerate(lanes):
            rows = np.flatnonzero(numbers == number)
            if rows.size:
                yield lane, rows
        return
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for number, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield lanes[number], rows


class _Numbers(dict[Any, int]):
    """A self-filling cache of key numbers.

    It stores only strings: because no string equals a value of another type, a hit is always
    correct.
    """

    def __init__(self, number_of: Callable[[Any], int]) -> None:
        super().__init__()
        self._number_of = number_of

    def __missing__(self, key: Any) -> int:
        number = self._number_of(key)
        if type(key) is str:
            if len(self) >= _CACHED_KEYS:
                self.clear()
            self[key] = number
        return number
