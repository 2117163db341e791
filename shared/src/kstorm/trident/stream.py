"""Streams and their operations (Storm's `Stream`, `GroupedStream` and `TridentState`)."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kstorm.errors import TopologyError
from kstorm.topology import Bolt, CustomStreamGrouping, Fields
from kstorm.topology.groupings import (
    AllGrouping,
    CustomGrouping,
    FieldsGrouping,
    GlobalGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)
from kstorm.trident.aggregators import (
    Aggregator,
    AnyAggregator,
    CombinerAggregator,
    aggregation_of,
)
from kstorm.trident.batches import FieldSelection
from kstorm.trident.chained_aggregators import Chain
from kstorm.trident.custom_state import CustomStateUpdate, StateFactory
from kstorm.trident.external import MapFactory
from kstorm.trident.first_tuples import Assembly, by_field, by_tuple
from kstorm.trident.operations import Filter, Function, as_filter, name_of
from kstorm.trident.plan import (
    BoltNode,
    Node,
    QueryNode,
    RepartitionNode,
    StateNode,
    StepNode,
    WindowNode,
    select_fields,
)
from kstorm.trident.sink import json_bolt
from kstorm.trident.state import KstormState, QueryFunction, StateUpdater
from kstorm.trident.step_factories import (
    adding_step,
    aggregate_step,
    combine_step,
    filter_step,
    project_step,
    state_update,
    static_query_step,
)
from kstorm.trident.steps import CallStep, PeekStep, Step
from kstorm.trident.tuple import TridentTuple
from kstorm.trident.updates import PersistUpdate
from kstorm.trident.windows import Window
from kstorm.windows.window_spec import Extent

if TYPE_CHECKING:
    from kstorm.trident.topology import TridentTopology

Names = Fields | Iterable[str] | str
"""Field names."""
_PARTIAL = "value"
N = TypeVar("N", bound=Node)


class _StreamBase:
    """Base of the objects that users chain operations on. Holds the last operation."""

    def __init__(self, topology: "TridentTopology", node: Node) -> None:
        self._topology, self._node = topology, node

    def name(self, id: str) -> Self:
        """Set the ID of the component that runs the last operation. By default it is derived from
        the operation's name.

        The ID is part of topic names, so do not change it later.
        """
        self._node.name = id
        return self

    def parallelism_hint(self, executors: int, tasks: int | None = None) -> Self:
        """Set the number of processes for the operations back to the last repartitioning.

        `tasks` is the number of tasks, which can never change. By default there is one task per
        process.
        """
        self._node.hint, self._node.tasks = executors, tasks
        return self

    def _add(self, node: N) -> N:
        self._topology.nodes.append(node)
        return node


class Stream(_StreamBase):
    """Tuples with the same fields."""

    # Operations on tuples within their task.

    def each(self, inputs: Any, operation: Any = None, outputs: Names = ()) -> "Stream":
        """Add the fields `outputs` with a `Function`, or keep some tuples with a `Filter`.

        `each(Fields("sentence"), Split(), Fields("word"))`: `inputs` are the fields that the
        operation receives. A plain callable receives their values. With `outputs`, it returns an
        iterable of values for one field, or of tuples for several fields. Without `outputs`, it
        returns whether to keep the tuple.
        """
        names, new = Fields(inputs), Fields(outputs)
        title = f"each({_listed(names)}, {name_of(operation)}"
        if isinstance(operation, Filter) or (not isinstance(operation, Function) and not len(new)):
            return self._step(
                f"{title})", operation, partial(filter_step, as_filter(operation), names)
            )
        return self._step(
            f"{title} → {_listed(new)})", operation, partial(adding_step, operation, names, new)
        )

    def map(self, function: Callable[..., Any], outputs: Names | None = None) -> "Stream":
        """Replace each tuple by one other. The callable receives all values.

        It returns the values of the fields `outputs`, which replace all fields. Without `outputs`,
        the fields stay the same.
        """
        return self._call("map", function, outputs, many=False)

    def flat_map(self, function: Callable[..., Any], outputs: Names | None = None) -> "Stream":
        """Replace each tuple by any number of others. The callable returns an iterable of results
        as in `map`."""
        return self._call("flat_map", function, outputs, many=True)

    def filter(
        self, inputs: Any, operation: "Filter | Callable[..., object] | None" = None
    ) -> "Stream":
        """Keep some tuples: `filter(Fields("word"), FilterNull())`.

        With a single argument, all fields are passed: `filter(lambda word, count: count > 1)`.
        """
        keep, names = (inputs, None) if operation is None else (operation, Fields(inputs))
        return self._step(
            f"filter({name_of(keep)})", keep, partial(filter_step, as_filter(keep), names)
        )

    def peek(self, function: Callable[[TridentTuple], object]) -> "Stream":
        """Pass each tuple to a callable, for debugging. A retried tuple is passed again."""
        return self._step(
            f"peek({name_of(function)})",
            function,
            lambda fields: (fields, PeekStep(function, _all(fields))),
        )

    def project(self, *names: Names) -> "Stream":
        """Keep only these fields, in this order."""
        wanted = Fields(*names)
        return self._step(f"project({_listed(wanted)})", "project", partial(project_step, wanted))

    def partition_aggregate(self, *given: Any) -> "Stream":
        """Aggregate each batch of each task to one value, or to the output of an `Aggregator`.

        `partition_aggregate(inputs, aggregator, outputs)`: `inputs` may be left out. A batch is one
        frame, whose size is not guaranteed.
        """
        return self.group_by().partition_aggregate(*given)

    def window(self, window: Window, *given: Any) -> "Stream":
        """Aggregate each window of each task to one value, or to the output of an `Aggregator`.

        `window(Window(Duration.minutes(1)), inputs, aggregator, outputs)`: `inputs` may be left
        out.
        """
        return GroupedStream(self._topology, self._node, Fields())._window(
            window, given, self._node
        )

    def tumbling_window(self, length: Extent | timedelta, *given: Any) -> "Stream":
        """Aggregate windows that follow one another. See `window`."""
        return self.window(Window(length), *given)

    def sliding_window(
        self, length: Extent | timedelta, slide: Extent | timedelta, *given: Any
    ) -> "Stream":
        """Aggregate windows that overlap. See `window`."""
        return self.window(Window(length, slide), *given)

    def min_by(self, field: str, key: Callable[[Any], Any] | None = None) -> "Stream":
        """Keep the tuple with the lowest value of a field, or of `key` of it, in each batch of each
        task.

        None values are ignored.
        """
        return self._step(
            f"min_by({field})", "min_by", lambda fields: by_field(1, field, key, False, fields)
        )

    def max_by(self, field: str, key: Callable[[Any], Any] | None = None) -> "Stream":
        """Keep the tuple with the highest value of a field. See `min_by`."""
        return self._step(
            f"max_by({field})", "max_by", lambda fields: by_field(1, field, key, True, fields)
        )

    def min(self, key: Callable[[TridentTuple], Any]) -> "Stream":
        """Keep the tuple with the lowest `key` of the tuple in each batch of each task.

        Use `functools.cmp_to_key` for a function that compares two tuples. None keys are ignored.
        """
        return self._step(
            f"min({name_of(key)})", "min", lambda fields: by_tuple(1, key, False, fields)
        )

    def max(self, key: Callable[[TridentTuple], Any]) -> "Stream":
        """Keep the tuple with the highest `key` of the tuple. See `min`."""
        return self._step(
            f"max({name_of(key)})", "max", lambda fields: by_tuple(1, key, True, fields)
        )

    def apply_assembly(self, assembly: "Assembly | Callable[[Stream], Stream]") -> "Stream":
        """Apply an assembly: `apply_assembly(FirstN(3, "count", reverse=True))`."""
        return assembly.apply(self) if isinstance(assembly, Assembly) else assembly(self)

    def chained_agg(self) -> Chain:
        """Start several aggregations of the same tuples.

        `chained_agg().aggregate(Count(), "n").aggregate("cents", Sum(), "sum").chain_end()`
        """
        return self.group_by().chained_agg()

    # Repartitioning.

    def shuffle(self) -> "Stream":
        """Send tuples to the tasks in turn."""
        return self._repartition("shuffle", lambda fields: ShuffleGrouping())

    def partition_by(self, *names: Names) -> "Stream":
        """Send tuples with equal values to the same task."""
        return self._repartition("partition_by", FieldsGrouping, Fields(*names))

    def partial_key(self, *names: Names) -> "Stream":
        """Send the tuples of each key to the less loaded of two tasks."""
        return self._repartition("partial_key", PartialKeyGrouping, Fields(*names))

    def global_(self) -> "Stream":
        """Send all tuples to the task with the lowest ID (Storm's `global`)."""
        return self._repartition("global", lambda fields: GlobalGrouping())

    def batch_global(self) -> "Stream":
        """Send all tuples of a batch to one task.

        Here it is always the same task, because a batch has no ID that all tasks know.
        """
        return self.global_()

    def broadcast(self) -> "Stream":
        """Send every tuple to every task."""
        return self._repartition("broadcast", lambda fields: AllGrouping())

    def partition(self, grouping: CustomStreamGrouping) -> "Stream":
        """Send tuples to the tasks chosen by the user's grouping."""
        return self._repartition(
            f"partition({name_of(grouping)})", lambda fields: CustomGrouping(grouping)
        )

    # Operations on many tuples.

    def group_by(self, *names: Names) -> "GroupedStream":
        """Group tuples by equal values. The following operation is applied to each group."""
        return GroupedStream(self._topology, self._node, Fields(*names))

    def aggregate(self, *given: Any) -> "Stream":
        """Aggregate the tuples of all tasks in one task. See `partition_aggregate`."""
        return GroupedStream(self._topology, self._node, Fields()).aggregate(*given)

    def persistent_aggregate(self, state: KstormState | MapFactory, *given: Any) -> "TridentState":
        """Aggregate the whole history to one value in a state.

        `persistent_aggregate(state, inputs, aggregator, outputs)`: `inputs` may be left out.
        """
        return GroupedStream(self._topology, self._node, Fields()).persistent_aggregate(
            state, *given
        )

    def partition_persist(
        self,
        state: KstormState | StateFactory,
        inputs: Any,
        updater: StateUpdater,
        outputs: Names = (),
    ) -> "TridentState":
        """Change each task's part of a state with an updater, whose output has the fields
        `outputs`.

        A state of the user's own class is changed when an epoch ends, with all of its tuples.
        Nothing can be emitted then.
        """
        names, new = Fields(inputs), Fields(outputs)
        node = StateNode(
            f"partition_persist({name_of(updater)})", [self._node], short=_short(updater)
        )
        if isinstance(state, StateFactory):
            if len(new):
                raise TopologyError(
                    f"{name_of(updater)} cannot emit, because its state is of your own class: "
                    "name no outputs"
                )
            node.can_be_asked = False
            node.make = lambda fields, combined: CustomStateUpdate(
                state, updater, FieldSelection(select_fields(names, fields), fields)
            )
        elif isinstance(state, KstormState):
            node.make = lambda fields, combined: PersistUpdate(
                updater, FieldSelection(select_fields(names, fields), fields), new
            )
        else:
            raise TopologyError(f"the state is {state!r}: give kstorm_state(), or a StateFactory")
        return TridentState(self._topology, self._add(node))

    def state_query(
        self,
        state: "TridentState | StateFactory",
        inputs: Any,
        query: QueryFunction,
        outputs: Names,
    ) -> "Stream":
        """Add a state's answers: `state_query(counts, Fields("word"), MapGet(), Fields("count"))`.

        The query runs in the task that has the tuple's key: the values of `inputs`, which must be
        as many as the state's group fields. A static state is queried in the tuple's current task.
        """
        names, new = Fields(inputs), Fields(outputs)
        title = f"state_query({_listed(names)}, {name_of(query)} → {_listed(new)})"
        if isinstance(state, StateFactory):
            return self._step(title, query, partial(static_query_step, state, query, names, new))
        node = QueryNode(
            title, [self._node], state=state.node, query=query, inputs=names, added=new
        )
        return Stream(self._topology, self._add(node))

    # Merging and ending streams.

    def merge(self, *others: "Stream") -> "Stream":
        """Merge this stream with others of as many fields. The fields have the names of this
        stream."""
        return self._topology.merge(self, *others)

    def to_kafka(self, to: str | Bolt, key: str | None = None) -> None:
        """Write each tuple to a topic, as a JSON record of its fields.

        With `key`, the value of that field is the record's key. `to` may also be a `KafkaBolt`,
        which maps the fields itself.
        """
        bolt = json_bolt(to, key) if isinstance(to, str) else to
        names = None if key is None else Fields(key)
        group = (lambda fields: ShuffleGrouping()) if names is None else FieldsGrouping
        node = RepartitionNode(f"by {key}", [self._node], names=names, grouping=group)
        title = f"to_kafka({to!r})" if isinstance(to, str) else f"to_kafka({name_of(to)})"
        self._add(BoltNode(title, [self._add(node)], short="sink", bolt=bolt))

    def _step(
        self, title: str, operation: object, make: Callable[[Fields], tuple[Fields, Step]]
    ) -> "Stream":
        node = StepNode(title, [self._node], short=_short(operation), make=make)
        return Stream(self._topology, self._add(node))

    def _call(
        self, verb: str, function: Callable[..., Any], outputs: Names | None, *, many: bool
    ) -> "Stream":
        new = None if outputs is None else Fields(outputs)

        def make(fields: Fields) -> tuple[Fields, Step]:
            out = fields if new is None else new
            return out, CallStep(function, _all(fields), len(out), many=many)

        title = f"{verb}({name_of(function)}{'' if new is None else f' → {_listed(new)}'})"
        return self._step(title, function if name_of(function) != "lambda" else verb, make)

    def _repartition(self, title: str, grouping: Any, names: Fields | None = None) -> "Stream":
        shown = title if names is None else f"{title}({_listed(names)})"
        node = RepartitionNode(shown, [self._node], names=names, grouping=grouping)
        return Stream(self._topology, self._add(node))


class GroupedStream(_StreamBase):
    """A stream grouped by equal values."""

    def __init__(self, topology: "TridentTopology", node: Node, groups: Fields) -> None:
        super().__init__(topology, node)
        self._groups = groups

    def aggregate(self, *given: Any) -> Stream:
        """Aggregate each batch to one tuple per group with its fields and its value, or to the
        output of an `Aggregator`.

        `aggregate(inputs, aggregator, outputs)`: `inputs` may be left out.
        """
        inputs, aggregator, outputs = aggregation_of(given)
        node = self._add(self._by_group(self._parts(aggregator, inputs)))
        title = f"aggregate({name_of(aggregator)} → {_listed(outputs)})"
        step = StepNode(title, [node], short=_short(aggregator))
        step.make = partial(aggregate_step, aggregator, self._groups, inputs, outputs)
        if isinstance(aggregator, CombinerAggregator):
            step.make_of_parts = partial(combine_step, aggregator, self._groups, outputs)
        return Stream(self._topology, self._add(step))

    def partition_aggregate(self, *given: Any) -> Stream:
        """Aggregate each batch of each task. A group's tuples may be in several tasks. See
        `aggregate`."""
        inputs, aggregator, outputs = aggregation_of(given)
        step = partial(aggregate_step, aggregator, self._groups, inputs, outputs)
        stream = Stream(self._topology, self._node)
        return stream._step(
            f"partition_aggregate({name_of(aggregator)} → {_listed(outputs)})", aggregator, step
        )

    def chained_agg(self) -> Chain:
        """Start several aggregations of each group. See `Stream.chained_agg`."""
        return Chain(self)

    def state_query(
        self,
        state: "TridentState | StateFactory",
        inputs: Any,
        query: QueryFunction,
        outputs: Names,
    ) -> Stream:
        """Add a state's answers. The query runs in the task that has the group. See
        `Stream.state_query`."""
        return (
            Stream(self._topology, self._node)
            .partition_by(self._groups)
            .state_query(state, inputs, query, outputs)
        )

    def window(self, window: Window, *given: Any) -> Stream:
        """Aggregate each group of a window. See `Stream.window`."""
        return self._window(window, given, self._add(self._by_group(self._node)))

    def _window(self, window: Window, given: tuple[Any, ...], node: Node) -> Stream:
        inputs, aggregator, outputs = aggregation_of(given)
        title = f"window({window.window_settings}, {name_of(aggregator)} → {_listed(outputs)})"
        make = partial(aggregate_step, aggregator, self._groups, inputs, outputs)
        found = WindowNode(title, [node], short=_short(aggregator), window=window, make=make)
        return Stream(self._topology, self._add(found))

    def persistent_aggregate(self, state: KstormState | MapFactory, *given: Any) -> "TridentState":
        """Aggregate the whole history to one value per group in a state.

        `persistent_aggregate(state, inputs, aggregator, outputs)`: `inputs` may be left out. The
        state is `kstorm_state()` or a database, such as an `OpaqueMap`. The aggregator is a
        `CombinerAggregator` or a `ReducerAggregator`.
        """
        if not isinstance(state, KstormState | MapFactory):
            raise TopologyError(
                f"the state is {state!r}: give kstorm_state(), or an OpaqueMap of a database"
            )
        inputs, aggregator, outputs = aggregation_of(given)
        if isinstance(aggregator, Aggregator):
            raise TopologyError(
                f"persistent_aggregate cannot use the Aggregator {name_of(aggregator)}, which "
                "keeps no single value: use a CombinerAggregator or a ReducerAggregator, or use "
                "partition_persist"
            )
        before = self._add(self._by_group(self._parts(aggregator, inputs)))
        title = f"persistent_aggregate({name_of(aggregator)} → {_listed(outputs)})"
        outside = state if isinstance(state, MapFactory) else None
        node = StateNode(
            title,
            [before],
            short=_short(aggregator),
            groups=self._groups,
            in_database=outside is not None,
        )
        node.make = partial(state_update, aggregator, self._groups, inputs, outputs, outside)
        return TridentState(self._topology, self._add(node))

    def _parts(self, aggregator: AnyAggregator, inputs: Fields | None) -> Node:
        """Combine each batch's groups before they are sent if the aggregator can. Otherwise keep
        only the needed fields."""
        if not isinstance(aggregator, CombinerAggregator):
            if inputs is None:
                return self._node
            needed = Fields(dict.fromkeys([*self._groups, *inputs]))
            make = partial(project_step, needed)
            title = f"project({_listed(needed)})"
            return self._add(
                StepNode(title, [self._node], short="project", make=make, is_optional=True)
            )
        outputs = Fields(_spare(_PARTIAL, self._groups))
        make = partial(aggregate_step, aggregator, self._groups, inputs, outputs, is_partial=True)
        title = f"combine({name_of(aggregator)})"
        node = StepNode(
            title,
            [self._node],
            short=_short(aggregator),
            make=make,
            is_partial=True,
            is_optional=True,
        )
        return self._add(node)

    def _by_group(self, node: Node) -> RepartitionNode:
        if len(self._groups):
            return RepartitionNode(
                f"group_by({_listed(self._groups)})",
                [node],
                names=self._groups,
                grouping=FieldsGrouping,
            )
        return RepartitionNode("global", [node], grouping=lambda fields: GlobalGrouping())


class TridentState(_StreamBase):
    """A state that a stream updates."""

    @property
    def node(self) -> StateNode:
        """Return the state's node in the plan."""
        assert isinstance(self._node, StateNode)
        return self._node

    def new_values_stream(self) -> Stream:
        """Return a stream with one tuple for each group that a batch has changed: its fields and
        the new value."""
        return Stream(self._topology, self._node)


def _all(fields: Fields) -> FieldSelection:
    return FieldSelection(fields, fields)


def _spare(name: str, taken: Fields) -> str:
    while name in taken:
        name += "_"
    return name


def _listed(fields: Fields) -> str:
    return ", ".join(fields)


def _short(operation: object) -> str:
    return operation if isinstance(operation, str) else name_of(operation)
