"""The first tuples of a batch by value (Storm's `FirstN`, `minBy` and `maxBy`)."""

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from kstorm.topology import Fields
from kstorm.trident.batches import Batch, FieldSelection
from kstorm.trident.plan import select_fields
from kstorm.trident.steps import Step
from kstorm.trident.tuple import TridentTuple

Ranks = Callable[[Batch], Sequence[Any]]
"""Return the sort key of each tuple. None excludes the tuple."""


class FirstStep(Step):
    """Keeps the tuples of a batch with the lowest or highest rank."""

    def __init__(self, number: int, ranks: Ranks | None, *, reverse: bool) -> None:
        """Tuples with the rank None are ignored. Without `ranks`, the first tuples in order of
        arrival are kept."""
        self._number, self._ranks, self._reverse = number, ranks, reverse

    def run(self, batch: Batch) -> Batch:
        if self._ranks is None:
            return batch.taken(range(min(self._number, batch.size)))
        ranks = self._ranks(batch)
        there = [place for place, rank in enumerate(ranks) if rank is not None]
        best = heapq.nlargest if self._reverse else heapq.nsmallest
        found = best(self._number, there, key=ranks.__getitem__)
        columns = [[column[place] for place in found] for column in batch.columns()]
        return Batch(columns, [batch.all_positions()[-1]] * len(found), len(found))


def by_field(
    number: int, field: str, key: Callable[[Any], Any] | None, reverse: bool, fields: Fields
) -> Any:
    """Return the fields and the step for the first tuples by a field, or by `key` of its value.

    Raises `TopologyError` if the field does not exist.
    """
    (place,) = FieldSelection(select_fields(Fields(field), fields), fields).places

    def ranks(batch: Batch) -> Sequence[Any]:
        values = batch.column(place)
        return (
            values if key is None else [None if value is None else key(value) for value in values]
        )

    return fields, FirstStep(number, ranks, reverse=reverse)


def by_tuple(number: int, key: Callable[[TridentTuple], Any], reverse: bool, fields: Fields) -> Any:
    """Return the fields and the step for the first tuples by `key` of the tuple."""
    picked = FieldSelection(fields, fields)
    return fields, FirstStep(
        number, lambda batch: [key(tuple) for tuple in picked.tuples(batch)], reverse=reverse
    )
