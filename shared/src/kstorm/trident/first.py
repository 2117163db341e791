"""The first tuples of a batch, by their values (Storm's `FirstN`, `minBy` and `maxBy`), and what is made of several operations."""

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kstorm.errors import TopologyError
from kstorm.topology import Fields
from kstorm.trident.batches import Batch, Picked
from kstorm.trident.plan import chosen
from kstorm.trident.steps import Step
from kstorm.trident.tuple import TridentTuple

if TYPE_CHECKING:
    from kstorm.trident.stream import Stream

Ranks = Callable[[Batch], Sequence[Any]]
"""By what each tuple is compared."""


class FirstStep(Step):
    """The tuples of a batch with the least or the greatest rank."""

    def __init__(self, number: int, ranks: Ranks | None, *, reverse: bool) -> None:
        """`ranks`: tuples whose rank is None do not count. Without, the first that came."""
        self._number, self._ranks, self._reverse = number, ranks, reverse

    def run(self, batch: Batch) -> Batch:
        """See `Step.run`."""
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
    """By the value of a field, or by what `key` makes of it, with all fields. Raises `TopologyError`."""
    (place,) = Picked(chosen(Fields(field), fields), fields).places

    def ranks(batch: Batch) -> Sequence[Any]:
        values = batch.column(place)
        return (
            values if key is None else [None if value is None else key(value) for value in values]
        )

    return fields, FirstStep(number, ranks, reverse=reverse)


def by_tuple(number: int, key: Callable[[TridentTuple], Any], reverse: bool, fields: Fields) -> Any:
    """By what `key` makes of a tuple."""
    picked = Picked(fields, fields)
    return fields, FirstStep(
        number, lambda batch: [key(tuple) for tuple in picked.tuples(batch)], reverse=reverse
    )


class Assembly:
    """Several operations under one name (Storm's `Assembly`)."""

    def apply(self, stream: "Stream") -> "Stream":
        """What becomes of a stream."""
        raise NotImplementedError(f"{type(self).__name__} does not define apply")


class FirstN(Assembly):
    """Of each batch of each task the first tuples by a field: the least ones, or in `reverse` the greatest; None does not count.
    Without a field those that came first."""

    def __init__(
        self, number: int, sort_field: str | None = None, *, reverse: bool = False
    ) -> None:
        """`number`: at least 1. Raises `TopologyError`."""
        if number < 1:
            raise TopologyError(f"FirstN({number}): give a number from 1 on")
        self._number, self._field, self._reverse = number, sort_field, reverse

    def apply(self, stream: "Stream") -> "Stream":
        """See `Assembly.apply`."""
        number, field, reverse = self._number, self._field, self._reverse

        def make(fields: Fields) -> tuple[Fields, Step]:
            if field is None:
                return fields, FirstStep(number, None, reverse=reverse)
            return by_field(number, field, None, reverse, fields)  # type: ignore[no-any-return]

        shown = "" if field is None else f", {field}{', reverse' if reverse else ''}"
        return stream._step(f"first({number}{shown})", "first", make)
