"""Operations that users pass to a stream: Storm's classes, or plain callables.

An object passed to a stream is a template, as a bolt is. Each task has its own deep copy. Create
objects that cannot be copied, such as connections, in `prepare`.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

from kstorm.errors import ArgumentError
from kstorm.fitting import checked
from kstorm.topology import Config, TopologyContext
from kstorm.trident.tuple import TridentTuple


class TridentCollector(Protocol):
    """Collects the output of a function or an aggregator (Storm's interface of the same name)."""

    def emit(self, values: Sequence[Any]) -> None:
        """Emit one value for each of the operation's output fields. Raises `EmitError` for any
        other number of values."""


class Operation:
    """Base of functions, filters, aggregators, queries and updaters."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Prepare the operation. Called once in each task, before everything else."""

    def cleanup(self) -> None:
        """Clean up. Called when the task leaves its process in an orderly way, but not when the
        process is killed."""


class Function(Operation):
    """Adds fields to a tuple (Storm's `Function`). Each `emit` makes a copy of the tuple. Without
    an `emit`, the tuple is dropped."""

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        """Process a tuple, which has the input fields that `each` named."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")


class Filter(Operation):
    """Keeps some of the tuples (Storm's `Filter`)."""

    def is_keep(self, tuple: TridentTuple) -> bool:
        """Return True to keep the tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define is_keep")


class FilterNull(Filter):
    """Keeps tuples that have no None in their input fields."""

    def is_keep(self, tuple: TridentTuple) -> bool:
        return all(value is not None for value in tuple)


class Equals(Filter):
    """Keeps tuples whose input fields are all equal."""

    def is_keep(self, tuple: TridentTuple) -> bool:
        return all(one == other for one, other in pairwise(tuple))


class Debug(Filter):
    """Keeps all tuples and prints each one. The output is in the service's log, or in that of
    `./run topology`."""

    @checked()
    def __init__(self, name: str = "") -> None:
        """`name` is part of the prefix of each line, to tell several of them apart."""
        self._before = f"DEBUG({name})" if name else "DEBUG"

    def is_keep(self, tuple: TridentTuple) -> bool:
        print(f"{self._before}: {tuple.as_dict()}", flush=True)
        return True


class Negate(Filter):
    """Keeps the tuples that another filter drops."""

    @checked()
    def __init__(self, other: "Filter | Callable[..., object]") -> None:
        self._other = as_filter(other)

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._other.prepare(config, context)

    def cleanup(self) -> None:
        self._other.cleanup()

    def is_keep(self, tuple: TridentTuple) -> bool:
        return not self._other.is_keep(tuple)


class _Predicate(Filter):
    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def is_keep(self, tuple: TridentTuple) -> bool:
        return bool(self.function(*tuple.values))


def as_filter(given: "Filter | Callable[..., object]") -> Filter:
    """Return a filter. A callable receives the values of the input fields."""
    check_instance(given)
    return given if isinstance(given, Filter) else _Predicate(given)


def predicate_of(keep: Filter) -> Callable[..., object] | None:
    """Return the callable of a filter made by `as_filter`, or None for other filters."""
    return keep.function if type(keep) is _Predicate else None


def check_instance(given: object) -> None:
    """Raise `ArgumentError` unless an operation is an object of its class, or a function."""
    if isinstance(given, type) and issubclass(given, Operation):
        raise ArgumentError(
            f"{given.__name__} is a class: give an object of it, {given.__name__}(…)"
        )
    if not isinstance(given, Operation) and not callable(given):
        raise ArgumentError(
            f"{given!r:.200} is not an operation: give an object of a class such as Function, "
            "Filter or CombinerAggregator, or a function"
        )


def name_of(given: object) -> str:
    """Return the name of an operation for plans, messages and bolt IDs."""
    given = given.function if isinstance(given, _Predicate) else given
    name = getattr(given, "__name__", None) or type(given).__name__
    return "lambda" if name == "<lambda>" else str(name)


Rows = Iterable[Any]
"""Result of a plain callable that replaces a function: values for one output field, or a tuple of
values for several."""
