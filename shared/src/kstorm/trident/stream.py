"""Streams and their operations (Storm's `Stream`, `GroupedStream` and `TridentState`)."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from kstorm.errors import TopologyError
from kstorm.fitting import Text, checked
from kstorm.topology import Bolt, Fields
from kstorm.topology.groupings import FieldsGrouping, GlobalGrouping, ShuffleGrouping
from kstorm.trident.aggregators import Aggregator, AnyAggregator, CombinerAggregator, aggregation_of
from kstorm.trident.batches import FieldSelection
from kstorm.trident.chained_aggregators import (
    ChainedAggregator,
    ChainedCombiner,
    ChainedPart,
    spread,
)
from kstorm.trident.custom_state import CustomStateUpdate, StateFactory
from kstorm.trident.external import MapFactory
from kstorm.trident.operations import name_of
from kstorm.trident.plan import (
    BoltNode,
    MergeNode,
    Node,
    QueryNode,
    RepartitionNode,
    StateNode,
    StepNode,
    WindowNode,
    select_fields,
    spare,
)
from kstorm.trident.sink import json_bolt
from kstorm.trident.state import KstormState, QueryFunction, StateUpdater
from kstorm.trident.step_factories import (
    aggregate_step,
    check_outputs,
    combine_step,
    project_step,
    state_update,
    static_query_step,
)
from kstorm.trident.tuple_stream import Names, StreamBase, TupleStream, listed, short_of
from kstorm.trident.updates import PersistUpdate
from kstorm.trident.windows import Window
from kstorm.windows.window_spec import Extent

_PARTIAL = "value"


class Stream(TupleStream):
    """Tuples with the same fields."""

    def partition_aggregate(self, *given: Any) -> "Stream":
        """Aggregate each batch of each task to one value, or to the output of an `Aggregator`.

        `partition_aggregate(inputs, aggregator, outputs)`: `inputs` may be left out. A batch is one
        frame, whose size is not guaranteed.
        """
        return self.group_by().partition_aggregate(*given)

    @checked()
    def window(self, window: Window, *given: Any) -> "Stream":
        """Aggregate each window of each task to one value, or to the output of an `Aggregator`.

        `window(Window(Duration.minutes(1)), inputs, aggregator, outputs)`: `inputs` may be left
        out.
        """
        return GroupedStream(self._nodes, self._node, Fields())._window(window, given, self._node)

    def tumbling_window(self, length: Extent | timedelta, *given: Any) -> "Stream":
        """Aggregate windows that follow one another. See `window`."""
        return self.window(Window(length), *given)

    @checked()
    def sliding_window(
        self, length: Extent | timedelta, slide: Extent | timedelta, *given: Any
    ) -> "Stream":
        """Aggregate windows that overlap. See `window`."""
        return self.window(Window(length, slide), *given)

    @checked()
    def apply_assembly(self, assembly: "Assembly | Callable[[Stream], Stream]") -> "Stream":
        """Apply an assembly: `apply_assembly(FirstN(3, "count", reverse=True))`."""
        return assembly.apply(self) if isinstance(assembly, Assembly) else assembly(self)

    def chained_agg(self) -> "Chain":
        """Start several aggregations of the same tuples.

        `chained_agg().aggregate(Count(), "n").aggregate("cents", Sum(), "sum").chain_end()`
        """
        return self.group_by().chained_agg()

    # Operations on many tuples.

    @checked()
    def group_by(self, *names: Names) -> "GroupedStream":
        """Group tuples by equal values. The following operation is applied to each group."""
        return GroupedStream(self._nodes, self._node, Fields(*names))

    def aggregate(self, *given: Any) -> "Stream":
        """Aggregate the tuples of all tasks in one task. See `partition_aggregate`."""
        return GroupedStream(self._nodes, self._node, Fields()).aggregate(*given)

    def persistent_aggregate(self, state: KstormState | MapFactory, *given: Any) -> "TridentState":
        """Aggregate the whole history to one value in a state.

        `persistent_aggregate(state, inputs, aggregator, outputs)`: `inputs` may be left out.
        """
        return GroupedStream(self._nodes, self._node, Fields()).persistent_aggregate(state, *given)

    @checked("state")
    def partition_persist(
        self,
        state: KstormState | StateFactory,
        inputs: Names,
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
            f"partition_persist({name_of(updater)})", [self._node], short=short_of(updater)
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
        return TridentState(self._nodes, self._add(node))

    @checked()
    def state_query(
        self,
        state: "TridentState | StateFactory",
        inputs: Names,
        query: QueryFunction,
        outputs: Names,
    ) -> "Stream":
        """Add a state's answers: `state_query(counts, Fields("word"), MapGet(), Fields("count"))`.

        The query runs in the task that has the tuple's key: the values of `inputs`, which must be
        as many as the state's group fields. A static state is queried in the tuple's current task.
        """
        names, new = Fields(inputs), Fields(outputs)
        title = f"state_query({listed(names)}, {name_of(query)} → {listed(new)})"
        if isinstance(state, StateFactory):
            return self._step(title, query, partial(static_query_step, state, query, names, new))
        node = QueryNode(
            title, [self._node], state=state.node, query=query, inputs=names, added=new
        )
        return Stream(self._nodes, self._add(node))

    # Merging and ending streams.

    @checked()
    def merge(self, *others: "Stream") -> "Stream":
        """Merge this stream with others of as many fields. The fields have the names of this
        stream."""
        return merged(self._nodes, self, *others)

    @checked()
    def to_kafka(self, to: Text | Bolt, key: str | None = None) -> None:
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


class GroupedStream(StreamBase):
    """A stream grouped by equal values."""

    def __init__(self, nodes: list[Node], node: Node, groups: Fields) -> None:
        super().__init__(nodes, node)
        self._groups = groups

    def aggregate(self, *given: Any) -> Stream:
        """Aggregate each batch to one tuple per group with its fields and its value, or to the
        output of an `Aggregator`.

        `aggregate(inputs, aggregator, outputs)`: `inputs` may be left out.
        """
        inputs, aggregator, outputs = aggregation_of(given)
        node = self._add(self._by_group(self._parts(aggregator, inputs)))
        title = f"aggregate({name_of(aggregator)} → {listed(outputs)})"
        step = StepNode(title, [node], short=short_of(aggregator))
        step.make = partial(aggregate_step, aggregator, self._groups, inputs, outputs)
        if isinstance(aggregator, CombinerAggregator):
            step.make_of_parts = partial(combine_step, aggregator, self._groups, outputs)
        return Stream(self._nodes, self._add(step))

    def partition_aggregate(self, *given: Any) -> Stream:
        """Aggregate each batch of each task. A group's tuples may be in several tasks. See
        `aggregate`."""
        inputs, aggregator, outputs = aggregation_of(given)
        step = partial(aggregate_step, aggregator, self._groups, inputs, outputs)
        stream = Stream(self._nodes, self._node)
        return stream._step(
            f"partition_aggregate({name_of(aggregator)} → {listed(outputs)})", aggregator, step
        )

    def chained_agg(self) -> "Chain":
        """Start several aggregations of each group. See `Stream.chained_agg`."""
        return Chain(self)

    @checked()
    def state_query(
        self,
        state: "TridentState | StateFactory",
        inputs: Names,
        query: QueryFunction,
        outputs: Names,
    ) -> Stream:
        """Add a state's answers. The query runs in the task that has the group. See
        `Stream.state_query`."""
        return (
            Stream(self._nodes, self._node)
            .partition_by(self._groups)
            .state_query(state, inputs, query, outputs)
        )

    @checked()
    def window(self, window: Window, *given: Any) -> Stream:
        """Aggregate each group of a window. See `Stream.window`."""
        return self._window(window, given, self._add(self._by_group(self._node)))

    def _window(self, window: Window, given: tuple[Any, ...], node: Node) -> Stream:
        inputs, aggregator, outputs = aggregation_of(given)
        title = f"window({window.window_settings}, {name_of(aggregator)} → {listed(outputs)})"
        make = partial(aggregate_step, aggregator, self._groups, inputs, outputs)
        found = WindowNode(title, [node], short=short_of(aggregator), window=window, make=make)
        return Stream(self._nodes, self._add(found))

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
        title = f"persistent_aggregate({name_of(aggregator)} → {listed(outputs)})"
        outside = state if isinstance(state, MapFactory) else None
        node = StateNode(title, [before], short=short_of(aggregator), groups=self._groups)
        node.in_database = outside is not None
        node.make = partial(state_update, aggregator, self._groups, inputs, outputs, outside)
        return TridentState(self._nodes, self._add(node))

    def _parts(self, aggregator: AnyAggregator, inputs: Fields | None) -> Node:
        """Combine each batch's groups before they are sent if the aggregator can. Otherwise keep
        only the needed fields."""
        if not isinstance(aggregator, CombinerAggregator):
            if inputs is None:
                return self._node
            needed = Fields(dict.fromkeys([*self._groups, *inputs]))
            make = partial(project_step, needed)
            title = f"project({listed(needed)})"
            return self._add(
                StepNode(title, [self._node], short="project", make=make, is_optional=True)
            )
        outputs = Fields(spare(_PARTIAL, self._groups))
        make = partial(aggregate_step, aggregator, self._groups, inputs, outputs, is_partial=True)
        title = f"combine({name_of(aggregator)})"
        node = StepNode(title, [self._node], short=short_of(aggregator), make=make)
        node.is_partial = node.is_optional = True
        return self._add(node)

    def _by_group(self, node: Node) -> RepartitionNode:
        if len(self._groups):
            title = f"group_by({listed(self._groups)})"
            return RepartitionNode(title, [node], names=self._groups, grouping=FieldsGrouping)
        return RepartitionNode("global", [node], grouping=lambda fields: GlobalGrouping())


class TridentState(StreamBase):
    """A state that a stream updates."""

    @property
    def node(self) -> StateNode:
        """Return the state's node in the plan."""
        assert isinstance(self._node, StateNode)
        return self._node

    def new_values_stream(self) -> Stream:
        """Return a stream with one tuple for each group that a batch has changed: its fields and
        the new value."""
        return Stream(self._nodes, self._node)


class Chain:
    """Collects aggregators: call `aggregate` or `partition_aggregate` once for each, then
    `chain_end`."""

    def __init__(self, stream: GroupedStream) -> None:
        self._stream = stream
        self._parts: list[ChainedPart] = []
        self._verbs: set[str] = set()

    def aggregate(self, *given: Any) -> "Chain":
        """Add an aggregator: `aggregate([inputs], aggregator, outputs)`, as on the stream."""
        return self._with("aggregate", given)

    def partition_aggregate(self, *given: Any) -> "Chain":
        """Add an aggregator within each task.

        `partition_aggregate([inputs], aggregator, outputs)`
        """
        return self._with("partition_aggregate", given)

    def chain_end(self) -> Stream:
        """End the chain. Its tuples have the group's fields and all outputs, in the order of the
        chain.

        If an `Aggregator` emits several tuples, each is combined with each tuple of the other
        aggregators. Raises `TopologyError` if the chain is empty, or if it mixes `aggregate` and
        `partition_aggregate`.
        """
        if len(self._verbs) != 1:
            raise TopologyError(
                f"a chain has {' and '.join(sorted(self._verbs)) or 'no aggregators'}: add at "
                "least one aggregator, and all of them with the same method"
            )
        aggregate = getattr(self._stream, *self._verbs)
        outputs = Fields(*(name for part in self._parts for name in part.outputs))
        if not all(isinstance(part.aggregator, CombinerAggregator) for part in self._parts):
            found: Stream = aggregate(ChainedAggregator(self._parts), outputs)
            return found
        for part in self._parts:
            check_outputs(part.aggregator, part.outputs)
        combined: Stream = aggregate(ChainedCombiner(self._parts), "values")
        return combined._step(
            f"chain({', '.join(outputs)})", "chain", lambda fields: spread(outputs, fields)
        )

    def _with(self, verb: str, given: Sequence[Any]) -> "Chain":
        inputs, aggregator, outputs = aggregation_of((*given,))
        self._parts.append(ChainedPart(aggregator, inputs, outputs))
        self._verbs.add(verb)
        return self


class Assembly:
    """Several operations under one name (Storm's `Assembly`)."""

    def apply(self, stream: Stream) -> Stream:
        """Apply the operations to a stream and return the result."""
        raise NotImplementedError(f"{type(self).__name__} does not define apply")


def merged(nodes: list[Node], *streams: Stream) -> Stream:
    """Merge streams. The fields have the names of the first one."""
    node = MergeNode("merge", [stream._node for stream in streams])
    nodes.append(node)
    return Stream(nodes, node)
