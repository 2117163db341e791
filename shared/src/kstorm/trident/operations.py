"""What users give to a stream: classes as Storm has them, or plain callables.

An object given to a stream is a template, as a bolt is: each task has a deep copy of its own. Whatever cannot be copied (a
connection) is made in `prepare`.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

from kstorm.topology import Config, TopologyContext
from kstorm.trident.tuple import TridentTuple


class TridentCollector(Protocol):
    """Takes what a function or an aggregator emits (Storm's interface of the same name)."""

    def emit(self, values: Sequence[Any]) -> None:
        """One value for each of the operation's output fields. Raises `EmitError` on another number of them."""
        ...


class Operation:
    """What functions, filters, aggregators, queries and updaters have in common."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """Called once in each task, before anything else."""

    def cleanup(self) -> None:
        """Called when the task leaves its process in an orderly way; not when the process is killed."""


class Function(Operation):
    """Adds fields to a tuple: one copy of it for each `emit`, none without one (Storm's `Function`)."""

    def execute(self, tuple: TridentTuple, collector: TridentCollector) -> None:
        """`tuple` has the input fields that `each` named."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")


class Filter(Operation):
    """Keeps some tuples (Storm's `Filter`)."""

    def is_keep(self, tuple: TridentTuple) -> bool:
        """Whether it goes on."""
        raise NotImplementedError(f"{type(self).__name__} does not define is_keep")


class FilterNull(Filter):
    """Keeps tuples none of whose input fields is None."""

    def is_keep(self, tuple: TridentTuple) -> bool:
        """See `Filter.is_keep`."""
        return all(value is not None for value in tuple)


class Equals(Filter):
    """Keeps tuples whose input fields are all equal."""

    def is_keep(self, tuple: TridentTuple) -> bool:
        """See `Filter.is_keep`."""
        return all(one == other for one, other in pairwise(tuple))


class Debug(Filter):
    """Keeps all tuples, and prints each: what the service writes, or `./run topology` shows."""

    def __init__(self, name: str = "") -> None:
        """`name`: what is in front of each, if there are several."""
        self._before = f"DEBUG({name})" if name else "DEBUG"

    def is_keep(self, tuple: TridentTuple) -> bool:
        """See `Filter.is_keep`."""
        print(f"{self._before}: {tuple.as_dict()}", flush=True)
        return True


class Negate(Filter):
    """Keeps what another filter does not."""

    def __init__(self, other: "Filter | Callable[..., object]") -> None:
        self._other = as_filter(other)

    def prepare(self, config: Config, context: TopologyContext) -> None:
        """See `Operation.prepare`."""
        self._other.prepare(config, context)

    def cleanup(self) -> None:
        """See `Operation.cleanup`."""
        self._other.cleanup()

    def is_keep(self, tuple: TridentTuple) -> bool:
        """See `Filter.is_keep`."""
        return not self._other.is_keep(tuple)


class _Predicate(Filter):
    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def is_keep(self, tuple: TridentTuple) -> bool:
        return bool(self.function(*tuple.values))


def as_filter(given: "Filter | Callable[..., object]") -> Filter:
    """A callable is given the values of the input fields."""
    return given if isinstance(given, Filter) else _Predicate(given)


def predicate_of(keep: Filter) -> Callable[..., object] | None:
    """The callable that a filter is made of, if it is."""
    return keep.function if type(keep) is _Predicate else None


def name_of(given: object) -> str:
    """What an operation is called in plans, messages and the ids of bolts."""
    given = given.function if isinstance(given, _Predicate) else given
    name = getattr(given, "__name__", None) or type(given).__name__
    return "lambda" if name == "<lambda>" else str(name)


Rows = Iterable[Any]
"""What a plain callable returns in the place of a function: for one output field its values, for several a tuple each."""
