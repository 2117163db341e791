"""Compile streams to spouts and bolts (Storm's `GraphGrouper`). Consecutive operations share a bolt
until the next repartitioning."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kstorm.errors import TopologyError
from kstorm.topology import (
    DEFAULT_STREAM,
    BoltDeclarer,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
)
from kstorm.topology.groupings import FieldsGrouping, GlobalGrouping, Grouping, ShuffleGrouping
from kstorm.trident.batches import FieldSelection
from kstorm.trident.bolts import ExternalStateBolt, StateBolt, StepsBolt
from kstorm.trident.join import (
    JoinOutFieldsMode,
    JoinSide,
    JoinSides,
    JoinType,
    KeyedJoinBolt,
    WindowJoinBolt,
)
from kstorm.trident.plan import (
    BoltNode,
    JoinNode,
    MergeNode,
    Node,
    QueryNode,
    RepartitionNode,
    SpoutNode,
    StateNode,
    StepNode,
    WindowNode,
    add_fields,
    rename_fields,
    select_fields,
)
from kstorm.trident.spouts import _TridentKafkaSpout
from kstorm.trident.steps import Step
from kstorm.trident.updates import StateQuery
from kstorm.trident.windows import window_bolt
from kstorm.windows import WindowedBolt


class OutputStream(NamedTuple):
    """The component and stream on which an operation's tuples are emitted."""

    component: str
    stream: str
    fields: Fields


@dataclass
class CompiledTopology:
    """A topology, and the user's operations in each of its components."""

    topology: Topology
    operations: dict[str, list[str]] = field(default_factory=dict)
    """By component, the titles of its operations."""


def compile_streams(name: str, config: Config, nodes: Sequence[Node]) -> CompiledTopology:
    """Compile a topology. Raises `TopologyError` with all problems, each with its line in the
    user's code."""
    return _StreamCompiler(name, config, nodes).plan()


class _StreamCompiler:
    def __init__(self, name: str, config: Config, nodes: Sequence[Node]) -> None:
        self._name, self._nodes = name, nodes
        self._builder = TopologyBuilder(name, config)
        self._children: defaultdict[Node, list[Node]] = defaultdict(list)
        for node in nodes:
            for parent in node.parents:
                self._children[parent].append(node)
        self._fields: dict[Node, Fields] = {}
        self._steps: dict[Node, Step] = {}
        self._outputs: dict[Node, OutputStream] = {}
        self._states: dict[Node, StateBolt] = {}
        self._declarers: dict[str, BoltDeclarer] = {}
        self._problems: list[str] = []
        self._operations: dict[str, list[str]] = {}
        self._taken = {node.name for node in nodes if node.name} | {
            node.id for node in nodes if isinstance(node, SpoutNode)
        }

    def plan(self) -> CompiledTopology:
        for node in self._nodes:  # parents come first
            if any(parent not in self._fields for parent in node.parents):
                # Reporting the parent's problem is enough.
                continue
            try:
                self._fields[node] = self._fields_of(node)
            except TopologyError as error:
                self._problems.append(f"{node.where}: {node.title}: {error}")
        if self._problems:
            raise TopologyError(f"topology {self._name!r}: " + "\n  ".join(self._problems))
        for node in self._nodes:
            self._build(node)
        return CompiledTopology(self._builder.build(), self._operations)

    # Fields.

    def _fields_of(self, node: Node) -> Fields:
        """Return the output fields of an operation. Raises `TopologyError`."""
        before = self._fields[node.parents[0]] if node.parents else Fields()
        match node:
            case SpoutNode():
                return self._spout(node)
            case StepNode(make=make) if make is not None:
                if node.is_optional and not self._is_in_a_row(node):
                    # It would gain nothing in a bolt of its own.
                    return before
                if node.make_of_parts is not None and self._has_parts(node):
                    make = node.make_of_parts
                found, self._steps[node] = make(before)
                return found
            case WindowNode(make=make) if make is not None:
                found, self._steps[node] = make(before)
                return found
            case JoinNode():
                return self._check_join(node)
            case RepartitionNode(names=names):
                select_fields(names or Fields(), before)
                return before
            case MergeNode():
                self._check_merge(node, before)
                return before
            case StateNode(make=make) if make is not None:
                update = make(before, self._has_parts(node))
                self._states[node] = (
                    StateBolt(update) if update.map_factory is None else ExternalStateBolt(update)
                )
                return update.output
            case QueryNode(state=state) if state is not None:
                self._check_key(node, state)
                select_fields(node.inputs, before)
                return add_fields(node.added, before)
        return before

    def _spout(self, node: SpoutNode) -> Fields:
        if isinstance(node.spout, _TridentKafkaSpout):
            node.spout = node.spout.spout(self._name, node.id)
        declarer = OutputFieldsDeclarer(node.id)
        node.spout.declare_output_fields(declarer)
        if len(declarer.streams) != 1:
            raise TopologyError(
                f"the spout declares {len(declarer.streams)} streams: it must declare exactly one"
            )
        (stream,) = declarer.streams.values()
        self._outputs[node] = OutputStream(node.id, stream.id, stream.fields)
        return stream.fields

    def _check_merge(self, node: MergeNode, fields: Fields) -> None:
        for parent in node.parents[1:]:
            other = self._fields[parent]
            if len(other) != len(fields):
                raise TopologyError(
                    f"one stream has the fields {', '.join(fields)}, another {', '.join(other)}: "
                    "use project to give both the same number of fields"
                )

    def _check_join(self, node: JoinNode) -> Fields:
        sides = [self._fields[parent] for parent in node.parents]
        for keys, fields in zip(node.keys, sides, strict=True):
            select_fields(keys, fields)
        lengths = [len(keys) for keys in node.keys]
        if len(set(lengths)) > 1 or not lengths[0]:
            raise TopologyError(
                f"the keys have {' and '.join(map(str, lengths))} fields: name the same number for "
                f"{'both' if len(lengths) == 2 else 'all'}, at least one"
            )
        if node.window is None and node.optional:
            kind = next((each for each in JoinType if each.optional == node.optional), "outer")
            raise TopologyError(
                f"{'an' if kind == 'outer' else 'a'} {kind} join over the whole history cannot know that a tuple has no "
                "partner, because one may still arrive: give it a window=, such as "
                "Window(Duration.minutes(1))"
            )
        if node.window is not None and node.window.window_settings.gap is not None:
            raise TopologyError(
                "streams cannot be joined within sessions: give the join a window=Window(length, "
                "slide)"
            )
        preserve = node.mode == JoinOutFieldsMode.PRESERVE
        wanted = sum(map(len, sides)) - (0 if preserve else sum(lengths[1:]))
        if len(node.outputs) != wanted:
            whole, rest = ("all", "all") if preserve else ("the key, the other", "the other")
            one, other = ("left", "right one") if len(sides) == 2 else ("first", "next ones")
            what = f"{whole} fields of the {one} stream and {rest} fields of the {other}"
            raise TopologyError(
                f"the join names {len(node.outputs)} output fields, but it has {wanted}: {what}"
            )
        return node.outputs

    def _check_key(self, node: QueryNode, state: StateNode) -> None:
        if not state.can_be_asked:
            raise TopologyError(
                "the state is of your own class, which only its updater can access: query a state "
                "of new_static_state, or kstorm_state()"
            )
        assert node.query is not None
        if node.query.asks_for_all and state.in_database:
            raise TopologyError(
                f"{type(node.query).__name__} cannot query a state in a database, which does not "
                "list the keys of a task: query the database, or use kstorm_state()"
            )
        if not node.query.asks_by_key:
            return
        if state.groups is not None and len(state.groups) != len(node.inputs):
            raise TopologyError(
                f"the state's key has {len(state.groups)} fields "
                f"({', '.join(state.groups) or 'none'}), but the query has {len(node.inputs)}"
            )

    def _has_parts(self, node: Node) -> bool:
        """Return True if the node's input was combined upstream."""
        return any(
            isinstance(each, StepNode) and each.is_partial and each in self._steps
            for each in node.parents[0].parents
        )

    # Components.

    def _build(self, node: Node) -> None:
        match node:
            case SpoutNode():
                self._operations[node.id] = [node.title]
                spout = self._builder.set_spout(node.id, node.spout, node.hint or 1)
                if node.tasks is not None:
                    spout.set_num_tasks(node.tasks)
            case StepNode() if node in self._steps and not self._goes_on(node):
                self._build_steps(node)
            case WindowNode():
                window = window_bolt(node.window, self._steps[node], self._fields[node])
                self._put(window, [node], node.short, self._inputs(node.parents[0]))
            case JoinNode():
                self._build_join(node)
            case StateNode():
                self._put(self._states[node], [node], node.short, self._inputs(node.parents[0]))
            case QueryNode(state=state) if state is not None:
                self._build_query(node, state)
            case BoltNode():
                self._put(node.bolt, [node], node.short, self._inputs(node.parents[0]))

    def _build_steps(self, last: StepNode) -> None:
        chain = [last]
        while self._is_in_a_row(chain[0]):
            before = chain[0].parents[0]
            assert isinstance(before, StepNode)
            chain.insert(0, before)
        bolt = StepsBolt([self._steps[node] for node in chain], self._fields[last])
        self._put(bolt, chain, chain[0].short, self._inputs(chain[0].parents[0]))

    def _build_join(self, node: JoinNode) -> None:
        sides: list[JoinSide] = []
        inputs: list[tuple[OutputStream, Grouping]] = []
        for parent, keys in zip(node.parents, node.keys, strict=True):
            fields = self._fields[parent]
            found = [
                (output, FieldsGrouping(rename_fields(keys, fields, output.fields)))
                for output, _ in self._inputs(parent)
            ]
            others = Fields(name for name in fields if name not in keys)
            places = {(output.component, output.stream) for output, _ in found}
            sides.append(
                JoinSide(
                    places, FieldSelection(keys, fields), FieldSelection(others, fields), fields
                )
            )
            inputs += found
        joined = JoinSides(sides, JoinOutFieldsMode(node.mode), node.optional)
        bolt: KeyedJoinBolt | WindowJoinBolt = KeyedJoinBolt(joined, node.outputs)
        if node.window is not None:
            bolt = WindowJoinBolt(joined, node.window, node.outputs)
        self._put(bolt, [node], "join", inputs)

    def _build_query(self, node: QueryNode, state: StateNode) -> None:
        before = node.parents[0]
        inputs = self._inputs(before)
        fields = self._fields[before]
        assert node.query is not None
        if not isinstance(before, RepartitionNode) and node.query.asks_by_key:
            if len(node.inputs):
                inputs = [
                    (output, FieldsGrouping(rename_fields(node.inputs, fields, output.fields)))
                    for output, _ in inputs
                ]
            elif state.groups is not None:
                # Send the query to the task that has the only value.
                inputs = [(output, GlobalGrouping()) for output, _ in inputs]
        query = StateQuery(
            node.query, FieldSelection(node.inputs, fields), len(node.added), self._fields[node]
        )
        id = self._outputs[state].component
        stream = self._states[state].add_query(
            query, [(output.component, output.stream) for output, _ in inputs]
        )
        self._subscribe(id, inputs)
        self._operations[id].append(node.title)
        self._outputs[node] = OutputStream(id, stream, self._fields[node])

    def _goes_on(self, node: StepNode) -> bool:
        """Return True if the next operation runs in the same bolt."""
        children = self._children[node]
        return len(children) == 1 and isinstance(children[0], StepNode)

    def _is_in_a_row(self, node: StepNode) -> bool:
        """Return True if the previous operation runs in the same bolt."""
        before = node.parents[0]
        return isinstance(before, StepNode) and self._goes_on(before)

    def _inputs(self, node: Node) -> list[tuple[OutputStream, Grouping]]:
        """Return the outputs that an operation's tuples come from, with their groupings."""
        if isinstance(node, StepNode) and node not in self._steps:
            return self._inputs(node.parents[0])
        if isinstance(node, MergeNode):
            return [each for parent in node.parents for each in self._inputs(parent)]
        if isinstance(node, RepartitionNode):
            assert node.grouping is not None
            names, merged = node.names or Fields(), self._fields[node]
            found = [output for output, _ in self._inputs(node.parents[0])]
            return [
                (output, node.grouping(rename_fields(names, merged, output.fields)))
                for output in found
            ]
        return [(self._outputs[node], ShuffleGrouping())]

    def _subscribe(self, id: str, inputs: Iterable[tuple[OutputStream, Grouping]]) -> None:
        for output, grouping in inputs:
            self._declarers[id].grouping(output.component, grouping, output.stream)

    def _put(
        self,
        bolt: StepsBolt | StateBolt | WindowedBolt | KeyedJoinBolt,
        nodes: Sequence[Node],
        short: str,
        inputs: Iterable[tuple[OutputStream, Grouping]],
    ) -> None:
        """Add a component for a chain of operations. Its output is that of the last one."""
        wanted = [node.name for node in nodes if node.name]
        id = wanted[-1] if wanted else self._spare(short)
        hints = [node for node in nodes if node.hint is not None]
        declarer = self._builder.set_bolt(
            id, bolt, max((node.hint or 1 for node in hints), default=1)
        )
        tasks = [node.tasks for node in hints if node.tasks is not None]
        if tasks:
            declarer.set_num_tasks(max(tasks))
        self._declarers[id] = declarer
        self._operations[id] = [node.title for node in nodes]
        self._subscribe(id, inputs)
        self._outputs[nodes[-1]] = OutputStream(id, DEFAULT_STREAM, self._fields[nodes[-1]])

    def _spare(self, short: str) -> str:
        """Return an unused component ID, made of an operation's name."""
        plain = (
            re.sub(r"[^A-Za-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", short))
            .strip("-")
            .lower()
            or "step"
        )
        number, id = 1, plain
        while id in self._taken:
            number += 1
            id = f"{plain}-{number}"
        self._taken.add(id)
        return id
