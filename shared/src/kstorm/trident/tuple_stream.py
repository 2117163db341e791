"""Operations on the tuples of a stream within their task, and repartitioning."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self, TypeVar

from kstorm.fitting import Positive, Text, checked
from kstorm.topology import CustomStreamGrouping, Fields
from kstorm.topology.groupings import (
    AllGrouping,
    CustomGrouping,
    FieldsGrouping,
    GlobalGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)
from kstorm.trident.batches import FieldSelection
from kstorm.trident.first_tuples import by_field, by_tuple
from kstorm.trident.operations import Filter, Function, as_filter, check_instance, name_of
from kstorm.trident.plan import Node, RepartitionNode, StepNode
from kstorm.trident.step_factories import adding_step, check_takes, filter_step, project_step
from kstorm.trident.steps import CallStep, PeekStep, Step
from kstorm.trident.tuple import TridentTuple

Names = Fields | Iterable[str] | str
"""Field names."""
N = TypeVar("N", bound=Node)


class StreamBase:
    """Base of the objects that users chain operations on. Holds the topology's operations and the
    last one of this stream."""

    def __init__(self, nodes: list[Node], node: Node) -> None:
        self._nodes, self._node = nodes, node

    @checked()
    def name(self, id: Text) -> Self:
        """Set the ID of the component that runs the last operation. By default it is derived from
        the operation's name.

        The ID is part of topic names, so do not change it later.
        """
        self._node.name = id
        return self

    @checked()
    def parallelism_hint(self, executors: Positive, tasks: Positive | None = None) -> Self:
        """Set the number of processes for the operations back to the last repartitioning.

        `tasks` is the number of tasks, which can never change. By default there is one task per
        process.
        """
        self._node.hint, self._node.tasks = executors, tasks
        return self

    def _add(self, node: N) -> N:
        self._nodes.append(node)
        return node


class TupleStream(StreamBase):
    """Tuples with the same fields."""

    # Operations on tuples within their task.

    @checked()
    def each(
        self,
        inputs: Names,
        operation: "Filter | Function | Callable[..., Any]",
        outputs: Names = (),
    ) -> Self:
        """Add the fields `outputs` with a `Function`, or keep some tuples with a `Filter`.

        `each(Fields("sentence"), Split(), Fields("word"))`: `inputs` are the fields that the
        operation receives. A plain callable receives their values. With `outputs`, it returns an
        iterable of values for one field, or of tuples for several fields. Without `outputs`, it
        returns whether to keep the tuple.
        """
        check_instance(operation)
        names, new = Fields(inputs), Fields(outputs)
        title = f"each({listed(names)}, {name_of(operation)}"
        if isinstance(operation, Filter) or (not isinstance(operation, Function) and not len(new)):
            return self._step(
                f"{title})", operation, partial(filter_step, as_filter(operation), names)
            )
        return self._step(
            f"{title} → {listed(new)})", operation, partial(adding_step, operation, names, new)
        )

    def map(self, function: Callable[..., Any], outputs: Names | None = None) -> Self:
        """Replace each tuple by one other. The callable receives all values.

        It returns the values of the fields `outputs`, which replace all fields. Without `outputs`,
        the fields stay the same.
        """
        return self._call("map", function, outputs, many=False)

    @checked()
    def flat_map(self, function: Callable[..., Any], outputs: Names | None = None) -> Self:
        """Replace each tuple by any number of others. The callable returns an iterable of results
        as in `map`."""
        return self._call("flat_map", function, outputs, many=True)

    @checked()
    def filter(
        self, inputs: Any, operation: "Filter | Callable[..., object] | None" = None
    ) -> Self:
        """Keep some tuples: `filter(Fields("word"), FilterNull())`.

        With a single argument, all fields are passed: `filter(lambda word, count: count > 1)`.
        """
        keep, names = (inputs, None) if operation is None else (operation, Fields(inputs))
        return self._step(
            f"filter({name_of(keep)})", keep, partial(filter_step, as_filter(keep), names)
        )

    @checked()
    def peek(self, function: Callable[[TridentTuple], object]) -> Self:
        """Pass each tuple to a callable, for debugging. A retried tuple is passed again."""
        check_instance(function)
        return self._step(
            f"peek({name_of(function)})",
            function,
            lambda fields: (fields, PeekStep(function, _all(fields))),
        )

    @checked()
    def project(self, *names: Names) -> Self:
        """Keep only these fields, in this order."""
        wanted = Fields(*names)
        return self._step(f"project({listed(wanted)})", "project", partial(project_step, wanted))

    @checked()
    def min_by(self, field: Text, key: Callable[[Any], Any] | None = None) -> Self:
        """Keep the tuple with the lowest value of a field, or of `key` of it, in each batch of each
        task.

        None values are ignored.
        """
        return self._step(
            f"min_by({field})", "min_by", lambda fields: by_field(1, field, key, False, fields)
        )

    @checked()
    def max_by(self, field: Text, key: Callable[[Any], Any] | None = None) -> Self:
        """Keep the tuple with the highest value of a field. See `min_by`."""
        return self._step(
            f"max_by({field})", "max_by", lambda fields: by_field(1, field, key, True, fields)
        )

    @checked()
    def min(self, key: Callable[[TridentTuple], Any]) -> Self:
        """Keep the tuple with the lowest `key` of the tuple in each batch of each task.

        Use `functools.cmp_to_key` for a function that compares two tuples. None keys are ignored.
        """
        return self._step(
            f"min({name_of(key)})", "min", lambda fields: by_tuple(1, key, False, fields)
        )

    @checked()
    def max(self, key: Callable[[TridentTuple], Any]) -> Self:
        """Keep the tuple with the highest `key` of the tuple. See `min`."""
        return self._step(
            f"max({name_of(key)})", "max", lambda fields: by_tuple(1, key, True, fields)
        )

    # Repartitioning.

    def shuffle(self) -> Self:
        """Send tuples to the tasks in turn."""
        return self._repartition("shuffle", lambda fields: ShuffleGrouping())

    @checked()
    def partition_by(self, *names: Names) -> Self:
        """Send tuples with equal values to the same task."""
        return self._repartition("partition_by", FieldsGrouping, Fields(*names))

    @checked()
    def partial_key(self, *names: Names) -> Self:
        """Send the tuples of each key to the less loaded of two tasks."""
        return self._repartition("partial_key", PartialKeyGrouping, Fields(*names))

    def global_(self) -> Self:
        """Send all tuples to the task with the lowest ID (Storm's `global`)."""
        return self._repartition("global", lambda fields: GlobalGrouping())

    def batch_global(self) -> Self:
        """Send all tuples of a batch to one task.

        Here it is always the same task, because a batch has no ID that all tasks know.
        """
        return self.global_()

    def broadcast(self) -> Self:
        """Send every tuple to every task."""
        return self._repartition("broadcast", lambda fields: AllGrouping())

    @checked()
    def partition(self, grouping: CustomStreamGrouping) -> Self:
        """Send tuples to the tasks chosen by the user's grouping."""
        return self._repartition(
            f"partition({name_of(grouping)})", lambda fields: CustomGrouping(grouping)
        )

    def _step(
        self, title: str, operation: object, make: Callable[[Fields], tuple[Fields, Step]]
    ) -> Self:
        node = StepNode(title, [self._node], short=short_of(operation), make=make)
        return type(self)(self._nodes, self._add(node))

    def _call(
        self, verb: str, function: Callable[..., Any], outputs: Names | None, *, many: bool
    ) -> Self:
        check_instance(function)
        new = None if outputs is None else Fields(outputs)

        def make(fields: Fields) -> tuple[Fields, Step]:
            check_takes(function, fields)
            out = fields if new is None else new
            return out, CallStep(function, _all(fields), len(out), many=many)

        title = f"{verb}({name_of(function)}{'' if new is None else f' → {listed(new)}'})"
        return self._step(title, function if name_of(function) != "lambda" else verb, make)

    def _repartition(self, title: str, grouping: Any, names: Fields | None = None) -> Self:
        shown = title if names is None else f"{title}({listed(names)})"
        node = RepartitionNode(shown, [self._node], names=names, grouping=grouping)
        return type(self)(self._nodes, self._add(node))


def listed(fields: Fields) -> str:
    return ", ".join(fields)


def short_of(operation: object) -> str:
    return operation if isinstance(operation, str) else name_of(operation)


def _all(fields: Fields) -> FieldSelection:
    return FieldSelection(fields, fields)
