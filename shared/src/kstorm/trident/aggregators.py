"""What makes one value of many tuples: Storm's three kinds of aggregators, and the ones that come with it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kstorm.trident.operations import Operation, TridentCollector
from kstorm.trident.tuple import TridentTuple

Columns = Sequence[Sequence[Any]]
"""The input fields of many tuples, one after the other."""
Tuples = Callable[[], Iterable[TridentTuple]]
"""Makes those tuples."""


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

    def fold_columns(self, keys: Sequence[Any], columns: Columns, tuples: Tuples) -> dict[Any, Any]:
        """The value of the tuples of each key. For speed: define it where `columns` suffice, as to make a tuple takes longer than
        to add it up."""
        return self.fold(keys, [self.init(tuple) for tuple in tuples()])

    def fold(self, keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
        """`combine` of the values of each key."""
        found: dict[Any, Any] = {}
        combine = self.combine
        for key, value in zip(keys, values, strict=True):
            found[key] = combine(found[key], value) if key in found else value
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

    def fold_columns(self, keys: Sequence[Any], columns: Columns, tuples: Tuples) -> dict[Any, int]:
        """See `CombinerAggregator.fold_columns`. One that begins otherwise or combines otherwise is no count any more."""
        return (
            dict(Counter(keys))
            if type(self) is Count
            else super().fold_columns(keys, columns, tuples)
        )

    def fold(self, keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
        """See `CombinerAggregator.fold`."""
        return _sums(keys, values) if type(self) is Count else super().fold(keys, values)

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

    def fold_columns(self, keys: Sequence[Any], columns: Columns, tuples: Tuples) -> dict[Any, Any]:
        """See `CombinerAggregator.fold_columns`. One that begins otherwise has its tuples."""
        if type(self).init is not _OfOneField.init:
            return super().fold_columns(keys, columns, tuples)
        return self.fold(keys, columns[0])


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


def _sums(keys: Sequence[Any], values: Sequence[int]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for key, value in zip(keys, values, strict=True):
        found[key] = found.get(key, 0) + value
    return found


def results_of(aggregator: CombinerAggregator, values: list[Any]) -> list[Any]:
    """What is emitted for these values."""
    if type(aggregator).result is CombinerAggregator.result:
        return values
    return [aggregator.result(value) for value in values]


AnyAggregator = CombinerAggregator | ReducerAggregator | Aggregator


def as_aggregator(given: "AnyAggregator | Callable[[Any, Any], Any]") -> AnyAggregator:
    """A callable combines two values of the one input field: `max`, `operator.add`."""
    return given if isinstance(given, AnyAggregator) else _Combined(given)
