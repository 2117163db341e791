"""What makes one value of many tuples: Storm's three kinds of aggregators, and the ones that come with it."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kstorm.trident.operations import Operation, TridentCollector
from kstorm.trident.tuple import TridentTuple

TupleOf = Callable[[Any], TridentTuple]
"""Gives of a row the tuple of the input fields."""
Rows = Sequence[Sequence[Any]]


class CombinerAggregator(Operation):
    """Makes a value of each tuple, and combines values. What comes first does not matter, so a part is combined before tuples
    travel, and only that travels. Values are what MessagePack can hold."""

    def init(self, tuple: TridentTuple) -> Any:
        """The value of a tuple with the input fields."""
        raise NotImplementedError(f"{type(self).__name__} does not define init")

    def combine(self, one: Any, other: Any) -> Any:
        """The value of both. Must not change either."""
        raise NotImplementedError(f"{type(self).__name__} does not define combine")

    def zero(self) -> Any:
        """The value of no tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define zero")

    def fold_rows(self, keys: Sequence[Any], rows: Rows, places: Sequence[int], tuple_of: TupleOf) -> dict[Any, Any]:
        """The values of many rows, whose input fields stand at these places, by the rows' keys. For speed: define it where no
        tuple is needed."""
        return self.fold(keys, [self.init(tuple_of(row)) for row in rows])

    def fold(self, keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
        """`combine` of many values, by their keys."""
        found: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            found[key] = self.combine(found[key], value) if key in found else value
        return found

    def result(self, value: Any) -> Any:
        """What is emitted for a value; the value itself by default. Not in Storm: an average keeps a sum and a count."""
        return value


class ReducerAggregator(Operation):
    """Goes on from a value by one tuple after the other, all in the task of its group."""

    def init(self) -> Any:
        """The value of no tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define init")

    def reduce(self, current: Any, tuple: TridentTuple) -> Any:
        """The value with one tuple more."""
        raise NotImplementedError(f"{type(self).__name__} does not define reduce")


class Aggregator(Operation):
    """Emits what it likes for the tuples of a batch, in any number of tuples."""

    def init(self, batch_id: Any, collector: TridentCollector) -> Any:
        """What `aggregate` and `complete` of this batch are given."""
        raise NotImplementedError(f"{type(self).__name__} does not define init")

    def aggregate(self, value: Any, tuple: TridentTuple, collector: TridentCollector) -> None:
        """Takes a tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define aggregate")

    def complete(self, value: Any, collector: TridentCollector) -> None:
        """The batch has no more."""
        raise NotImplementedError(f"{type(self).__name__} does not define complete")


class Count(CombinerAggregator):
    """How many tuples."""

    def fold_rows(self, keys: Sequence[Any], rows: Rows, places: Sequence[int], tuple_of: TupleOf) -> dict[Any, int]:
        """See `CombinerAggregator.fold_rows`."""
        return dict(Counter(keys))

    def init(self, tuple: TridentTuple) -> int:
        """1."""
        return 1

    def combine(self, one: int, other: int) -> int:
        """Their sum."""
        return one + other

    def zero(self) -> int:
        """0."""
        return 0


class _OfOneField(CombinerAggregator):
    """Its first values are the one input field's."""

    def init(self, tuple: TridentTuple) -> Any:
        """The field."""
        return tuple[0]

    def fold_rows(self, keys: Sequence[Any], rows: Rows, places: Sequence[int], tuple_of: TupleOf) -> dict[Any, Any]:
        """See `CombinerAggregator.fold_rows`."""
        return self.fold(keys, [row[places[0]] for row in rows])


class Sum(_OfOneField):
    """The sum of the one input field."""

    def combine(self, one: Any, other: Any) -> Any:
        """Their sum."""
        return one + other

    def zero(self) -> int:
        """0."""
        return 0


class _Chosen(_OfOneField):
    """One of the values of the one input field; None if there is none."""

    def combine(self, one: Any, other: Any) -> Any:
        """One of both, neither of which is None."""
        return other if one is None else one if other is None else self.choose(one, other)

    def choose(self, one: Any, other: Any) -> Any:
        """Which."""
        raise NotImplementedError

    def zero(self) -> None:
        """None."""


class Min(_Chosen):
    """The least value of the one input field; None does not count."""

    def choose(self, one: Any, other: Any) -> Any:
        """The lesser."""
        return min(one, other)


class Max(_Chosen):
    """The greatest value of the one input field; None does not count."""

    def choose(self, one: Any, other: Any) -> Any:
        """The greater."""
        return max(one, other)


class First(_Chosen):
    """The first value of the one input field that is not None, as far as tuples of several tasks have an order."""

    def choose(self, one: Any, other: Any) -> Any:
        """The one that was there."""
        return one


class Average(CombinerAggregator):
    """The mean of the one input field; None of no tuples."""

    def init(self, tuple: TridentTuple) -> list[Any]:
        """Sum and count."""
        return [tuple[0], 1]

    def combine(self, one: list[Any], other: list[Any]) -> list[Any]:
        """Of both."""
        return [one[0] + other[0], one[1] + other[1]]

    def zero(self) -> list[Any]:
        """Of nothing."""
        return [0, 0]

    def result(self, value: list[Any]) -> Any:
        """The sum by the count."""
        return value[0] / value[1] if value[1] else None


class _Combined(_OfOneField):
    """A callable of two values of the one input field."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def combine(self, one: Any, other: Any) -> Any:
        return other if one is None else one if other is None else self.function(one, other)

    def zero(self) -> None:
        """None."""


AnyAggregator = CombinerAggregator | ReducerAggregator | Aggregator


def as_aggregator(given: "AnyAggregator | Callable[[Any, Any], Any]") -> AnyAggregator:
    """A callable combines two values of the one input field: `max`, `operator.add`."""
    return given if isinstance(given, AnyAggregator) else _Combined(given)
