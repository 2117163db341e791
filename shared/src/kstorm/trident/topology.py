"""`TridentTopology`: streams that are compiled to spouts and bolts (Storm's Trident).

topology = TridentTopology("wordcount")
counts = (
    topology.new_stream("sentences", OpaqueTridentKafkaSpout(config))
    .each(Fields("sentence"), Split(), Fields("word"))
    .group_by(Fields("word"))
    .persistent_aggregate(kstorm_state(), Count(), Fields("count"))
    .parallelism_hint(6)
)
counts.new_values_stream().to_kafka("counts", key="word")
built = topology.build()
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any

from kstorm.errors import TopologyError
from kstorm.fitting import checked
from kstorm.texts import graphviz
from kstorm.topology import ComponentSpec, Config, Fields, Input, Spout, Topology
from kstorm.topology.config import EXACTLY_ONCE
from kstorm.topology.groupings import KeyedGrouping
from kstorm.topology.validate import check_id
from kstorm.trident.compile import CompiledTopology, compile_streams
from kstorm.trident.custom_state import StateFactory
from kstorm.trident.join import JoinOutFieldsMode, JoinType
from kstorm.trident.operations import name_of
from kstorm.trident.plan import JoinNode, Node, SpoutNode
from kstorm.trident.spouts import _TridentKafkaSpout
from kstorm.trident.stream import Stream, merged
from kstorm.trident.tuple_stream import Names
from kstorm.trident.windows import Window


class TridentTopology:
    """Collects streams and builds an ordinary `Topology` with exactly-once processing. A batch is
    an epoch of a task."""

    @checked("name")
    def __init__(self, name: str, config: Config | None = None) -> None:
        """`config` must set exactly-once processing, otherwise `TopologyError` is raised."""
        check_id("topology", name)
        self.name = name
        self.config = config or Config(topology_processing_guarantee=EXACTLY_ONCE)
        if not self.config.exactly_once:
            raise TopologyError(
                f"the configuration of {name!r}: topology_processing_guarantee is "
                f"{self.config.topology_processing_guarantee!r}, but Trident needs "
                "'exactly_once': set that"
            )
        self.nodes: list[Node] = []
        """The operations, in the order in which they were added."""

    def new_stream(self, id: str, spout: Any) -> Stream:
        """Start a stream.

        `id` names the spout's component and its stored offset (Storm's `txId`), so do not change it
        later. `spout` is an `OpaqueTridentKafkaSpout`, a `TransactionalTridentKafkaSpout`, or any
        spout that supports exactly-once processing.
        """
        if not isinstance(spout, Spout | _TridentKafkaSpout):
            raise TopologyError(
                f"the spout of the stream {id!r} is a {type(spout).__name__}: give an "
                "OpaqueTridentKafkaSpout, or a Spout"
            )
        title = (
            f"{name_of(spout)}({spout.topic!r})"
            if isinstance(spout, _TridentKafkaSpout)
            else name_of(spout)
        )
        node = SpoutNode(title, [], id=id, spout=spout)
        self.nodes.append(node)
        return Stream(self.nodes, node)

    @checked()
    def merge(self, *streams: Stream) -> Stream:
        """Merge several streams with the same number of fields. The fields have the names of the
        first stream."""
        return merged(self.nodes, *streams)

    @checked()
    def join(
        self,
        left: Stream,
        left_key: Names,
        right: Stream,
        right_key: Names,
        outputs: Names,
        kind: JoinType | str = JoinType.INNER,
        *,
        window: Window | None = None,
        mode: JoinOutFieldsMode | str = JoinOutFieldsMode.COMPACT,
    ) -> Stream:
        """Join each tuple with every tuple of the other stream that has the same key. Storm joins
        within a batch.

        With `window`, each window is joined when it ends. Without it, the whole history is joined,
        so the state grows without limit. `kind` selects the streams whose tuples are emitted
        without a partner, which needs a window. `outputs` names the output fields. With the default
        `mode` these are the key, the other fields of the left stream, and those of the right one.
        Raises `TopologyError` for an unknown kind or mode.
        """
        optional = JoinType(_one_of(JoinType, kind)).optional
        what = "" if kind == JoinType.INNER else f"{kind} "
        return self._join(
            what, (left, right), (left_key, right_key), outputs, optional, window, mode
        )

    @checked()
    def join_all(
        self,
        streams: Sequence[Stream],
        keys: Sequence[Names],
        outputs: Names,
        optional: Collection[int] = (),
        *,
        window: Window | None = None,
        mode: JoinOutFieldsMode | str = JoinOutFieldsMode.COMPACT,
    ) -> Stream:
        """Join several streams at once: each combination of tuples that have the same key, one of
        each stream.

        `keys` are the key fields of each stream. `optional` are the numbers of the streams, from 0,
        that may lack a tuple, which needs a window: Storm's `mixed(INNER, OUTER, OUTER)` is `(1,
        2)`. For the rest see `join`. Raises `TopologyError` if the arguments do not fit together.
        """
        if len(streams) < 2 or len(keys) != len(streams):
            raise TopologyError(
                f"a join of {len(streams)} streams with {len(keys)} keys: give at least two "
                "streams, and the key fields of each"
            )
        unknown = sorted(set(optional) - set(range(len(streams))))
        if unknown:
            raise TopologyError(
                f"optional has {', '.join(map(str, unknown))}: the streams of this join are 0 to "
                f"{len(streams) - 1}"
            )
        what = "outer " if optional else ""
        return self._join(what, streams, keys, outputs, frozenset(optional), window, mode)

    def _join(
        self,
        what: str,
        streams: Sequence[Stream],
        keys: Sequence[Names],
        outputs: Names,
        optional: frozenset[int],
        window: Window | None,
        mode: str,
    ) -> Stream:
        parents, fields = [each._node for each in streams], tuple(map(Fields, keys))
        title = f"{what}join({', '.join(fields[0])})"
        node = JoinNode(title, parents, keys=fields, outputs=Fields(outputs), window=window)
        node.optional, node.mode = optional, _one_of(JoinOutFieldsMode, mode)
        self.nodes.append(node)
        return Stream(self.nodes, node)

    @checked()
    def new_static_state(self, factory: StateFactory) -> StateFactory:
        """Return a state for `state_query` that no stream changes (Storm's `newStaticState`). Each
        task has its own."""
        return factory

    def build(self) -> Topology:
        """Validate the streams and return the topology. Raises `TopologyError`. Problems with
        fields include the line of code."""
        return compile_streams(self.name, self.config, self.nodes).topology

    def describe(self) -> str:
        """Return the plan as text: each component with its operations and inputs. Raises the same
        errors as `build`."""
        return _as_text(compile_streams(self.name, self.config, self.nodes))

    def dot(self) -> str:
        """Return the plan as a Graphviz graph. Raises the same errors as `build`."""
        return _as_dot(compile_streams(self.name, self.config, self.nodes))


def _one_of(kinds: type[StrEnum], given: str) -> str:
    if given not in list(kinds):
        raise TopologyError(f"{given!r} is not a {kinds.__name__}: give {', '.join(kinds)}")
    return given


def _as_text(plan: CompiledTopology) -> str:
    """Return a paragraph for each component: its ID, parallelism, inputs and operations."""
    lines = [
        (
            f"{plan.topology.name}, "
            f"{plan.topology.config.topology_processing_guarantee.replace('_', ' ')}"
        )
    ]
    for id, spec in plan.topology.components.items():
        lines.append(f"  {id} ×{spec.parallelism}{_fields(spec)}")
        lines += [f"    from {_input(each)}" for each in spec.inputs]
        lines += [f"    {title}" for title in plan.operations[id]]
    return "\n".join(lines)


def _as_dot(plan: CompiledTopology) -> str:
    """Return the graph in Graphviz's DOT language."""
    lines = [f"digraph {graphviz(plan.topology.name)} {{", "  rankdir=LR; node [shape=box];"]
    for id in plan.topology.components:
        label = "\n".join([id, *plan.operations[id]])
        lines.append(f"  {graphviz(id)} [label={graphviz(label)}];")
    lines += [
        f"  {graphviz(each.component)} -> {graphviz(id)} [label={graphviz(_grouping(each))}];"
        for id, spec in plan.topology.components.items()
        for each in spec.inputs
    ]
    return "\n".join([*lines, "}"])


def _fields(spec: ComponentSpec) -> str:
    streams = [", ".join(stream.fields) for stream in spec.streams.values() if len(stream.fields)]
    return f" → {' | '.join(streams)}" if streams else ""


def _input(each: Input) -> str:
    stream = "" if each.stream == "default" else f" ({each.stream})"
    return f"{each.component}{stream}, {_grouping(each)}"


def _grouping(each: Input) -> str:
    if isinstance(each.grouping, KeyedGrouping):
        return f"by {', '.join(each.grouping.fields)}"
    return str(each.grouping)
