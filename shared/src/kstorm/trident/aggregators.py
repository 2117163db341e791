"""Storm's three kinds of aggregators, and the aggregators included with Trident."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kstorm.errors import ArgumentError, TopologyError
from kstorm.fitting import takes
from kstorm.topology import Fields
from kstorm.trident.operations import Operation, TridentCollector, check_instance, name_of
from kstorm.trident.tuple import TridentTuple

Columns = Sequence[Sequence[Any]]
"""The input fields of many tuples, field by field."""
Tuples = Callable[[], Iterable[TridentTuple]]
"""Return the same tuples as objects."""


class CombinerAggregator(Operation):
    """Make a value of each tuple and combine the values, in any order.

    Tuples are combined before they are sent, so only the combined values are sent. Values must be
    encodable with MessagePack.
    """

    def init(self, tuple: TridentTuple) -> Any:
        """Return the value of a tuple, which has the input fields."""
        raise NotImplementedError(f"{type(self).__name__} does not define init")

    def combine(self, one: Any, other: Any) -> Any:
        """Return the combined value. Must not change either argument."""
        raise NotImplementedError(f"{type(self).__name__} does not define combine")

    def zero(self) -> Any:
        """Return the value of an empty set of tuples."""
        raise NotImplementedError(f"{type(self).__name__} does not define zero")

    def fold_columns(self, keys: Sequence[Any], columns: Columns, tuples: Tuples) -> dict[Any, Any]:
        """Return the value of the tuples of each key. `keys` and each of `columns` have one entry
        per tuple.

        Override this for speed if `columns` suffice: making a tuple object takes longer than adding
        its value.
        """
        return self.fold(keys, [self.init(tuple) for tuple in tuples()])

    def fold(self, keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
        """Combine the values of each key."""
        found: dict[Any, Any] = {}
        combine = self.combine
        for key, value in zip(keys, values, strict=True):
            found[key] = combine(found[key], value) if key in found else value
        return found

    def result(self, value: Any) -> Any:
        """Return the output for a value. By default it is the value itself. Not in Storm.

        Needed where the two differ: an average stores a sum and a count.
        """
        return value


class ReducerAggregator(Operation):
    """Update a value tuple by tuple. All tuples of a group are processed in one task."""

    def init(self) -> Any:
        """Return the value of an empty set of tuples."""
        raise NotImplementedError(f"{type(self).__name__} does not define init")

    def reduce(self, current: Any, tuple: TridentTuple) -> Any:
        """Return the value after one more tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define reduce")


class Aggregator(Operation):
    """Emit any number of tuples for the tuples of a batch."""

    def init(self, batch_id: Any, collector: TridentCollector) -> Any:
        """Return the value that `aggregate` and `complete` receive for this batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define init")

    def aggregate(self, value: Any, tuple: TridentTuple, collector: TridentCollector) -> None:
        """Process a tuple of the batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define aggregate")

    def complete(self, value: Any, collector: TridentCollector) -> None:
        """Complete the batch. Called after its last tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define complete")


class Count(CombinerAggregator):
    """The number of tuples."""

    def fold_columns(self, keys: Sequence[Any], columns: Columns, tuples: Tuples) -> dict[Any, int]:
        # A subclass may override `init` or `combine`.
        return (
            dict(Counter(keys))
            if type(self) is Count
            else super().fold_columns(keys, columns, tuples)
        )

    def fold(self, keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
        return _sums(keys, values) if type(self) is Count else super().fold(keys, values)

    def init(self, tuple: TridentTuple) -> int:
        return 1

    def combine(self, one: int, other: int) -> int:
        return one + other

    def zero(self) -> int:
        return 0


class _OfOneField(CombinerAggregator):
    """Takes the values of the only input field."""

    def init(self, tuple: TridentTuple) -> Any:
        return tuple[0]

    def fold_columns(self, keys: Sequence[Any], columns: Columns, tuples: Tuples) -> dict[Any, Any]:
        # A subclass that overrides `init` needs the tuples.
        if type(self).init is not _OfOneField.init:
            return super().fold_columns(keys, columns, tuples)
        return self.fold(keys, columns[0])


class Sum(_OfOneField):
    """The sum of the only input field."""

    def combine(self, one: Any, other: Any) -> Any:
        return one + other

    def zero(self) -> int:
        return 0


class _Chosen(_OfOneField):
    """Chooses one value of the only input field that is not None, or None without one."""

    def combine(self, one: Any, other: Any) -> Any:
        return other if one is None else one if other is None else self.choose(one, other)

    def choose(self, one: Any, other: Any) -> Any:
        """Return one of two values that are not None."""
        raise NotImplementedError

    def zero(self) -> None: ...


class Min(_Chosen):
    """The minimum of the only input field. None values are ignored."""

    def choose(self, one: Any, other: Any) -> Any:
        return min(one, other)


class Max(_Chosen):
    """The maximum of the only input field. None values are ignored."""

    def choose(self, one: Any, other: Any) -> Any:
        return max(one, other)


class First(_Chosen):
    """The first value of the only input field that is not None.

    Tuples from several tasks have no defined order.
    """

    def choose(self, one: Any, other: Any) -> Any:
        return one


class Average(CombinerAggregator):
    """The mean of the only input field. None if there are no tuples."""

    def init(self, tuple: TridentTuple) -> list[Any]:
        """Return the sum and count of one tuple."""
        return [tuple[0], 1]

    def combine(self, one: list[Any], other: list[Any]) -> list[Any]:
        return [one[0] + other[0], one[1] + other[1]]

    def zero(self) -> list[Any]:
        return [0, 0]

    def result(self, value: list[Any]) -> Any:
        return value[0] / value[1] if value[1] else None


class _Combined(_OfOneField):
    """Combines the values of the only input field with a callable of two values. None values are
    ignored."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def combine(self, one: Any, other: Any) -> Any:
        return other if one is None else one if other is None else self.function(one, other)

    def zero(self) -> None: ...


def _sums(keys: Sequence[Any], values: Sequence[int]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for key, value in zip(keys, values, strict=True):
        found[key] = found.get(key, 0) + value
    return found


def results_of(aggregator: CombinerAggregator, values: list[Any]) -> list[Any]:
    """Return the aggregator's results for values."""
    if type(aggregator).result is CombinerAggregator.result:
        return values
    return [aggregator.result(value) for value in values]


AnyAggregator = CombinerAggregator | ReducerAggregator | Aggregator


def as_aggregator(given: "AnyAggregator | Callable[[Any, Any], Any]") -> AnyAggregator:
    """Return an aggregator. A callable, such as `max` or `operator.add`, combines two values of the
    only input field."""
    check_instance(given)
    if not isinstance(given, AnyAggregator) and (
        isinstance(given, Operation) or not takes(given, 2)
    ):
        raise ArgumentError(
            f"{name_of(given)} is not an aggregator: give an object of a class such as "
            "CombinerAggregator, or a function of two values"
        )
    return given if isinstance(given, AnyAggregator) else _Combined(given)


def aggregation_of(given: tuple[Any, ...]) -> tuple[Fields | None, AnyAggregator, Fields]:
    """Return the inputs (or None), the aggregator and the outputs."""
    if len(given) not in (2, 3):
        raise TopologyError(
            f"an aggregation takes [inputs], aggregator, outputs, but was given {len(given)} "
            "arguments"
        )
    inputs, aggregator, outputs = given if len(given) == 3 else (None, *given)
    return None if inputs is None else Fields(inputs), as_aggregator(aggregator), Fields(outputs)
