"""`TridentTopology`: streams instead of spouts and bolts, which they become (Storm's Trident).

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

from enum import StrEnum
from typing import Any

from kstorm.errors import TopologyError
from kstorm.topology import Config, Fields, Spout, Topology
from kstorm.topology.config import EXACTLY_ONCE
from kstorm.topology.validate import check_id
from kstorm.trident.compile import compiled
from kstorm.trident.describe import drawn, told
from kstorm.trident.join import JoinOutFieldsMode, JoinType
from kstorm.trident.operations import name_of
from kstorm.trident.own_state import StateFactory
from kstorm.trident.plan import JoinNode, MergeNode, Node, SpoutNode
from kstorm.trident.spouts import _TridentKafkaSpout
from kstorm.trident.stream import Names, Stream
from kstorm.trident.windows import Window


class TridentTopology:
    """Collects streams, then builds an ordinary `Topology`, which is processed exactly once: an epoch of a task is the batch."""

    def __init__(self, name: str, config: Config | None = None) -> None:
        """`config` must ask for exactly once. Raises `TopologyError` if it does not."""
        check_id("topology", name)
        self.name = name
        self.config = config or Config(topology_processing_guarantee=EXACTLY_ONCE)
        if not self.config.exactly_once:
            raise TopologyError(
                f"the configuration of {name!r}: topology_processing_guarantee is "
                f"{self.config.topology_processing_guarantee!r}, and Trident stands on 'exactly_once': set that"
            )
        self.nodes: list[Node] = []
        """The operations, in the order in which they were written."""

    def new_stream(self, id: str, spout: Any) -> Stream:
        """Begins a stream. `id` names the spout's component and the position that it keeps (Storm's `txId`): keep it. `spout` is an
        `OpaqueTridentKafkaSpout`, a `TransactionalTridentKafkaSpout`, or any spout that can be processed exactly once."""
        if not isinstance(spout, Spout | _TridentKafkaSpout):
            raise TopologyError(
                f"the spout of the stream {id!r} is a {type(spout).__name__}: give an OpaqueTridentKafkaSpout, or a Spout"
            )
        title = (
            f"{name_of(spout)}({spout.topic!r})"
            if isinstance(spout, _TridentKafkaSpout)
            else name_of(spout)
        )
        node = SpoutNode(title, [], id=id, spout=spout)
        self.nodes.append(node)
        return Stream(self, node)

    def merge(self, *streams: Stream) -> Stream:
        """Several streams with as many fields as one, under the first one's names."""
        node = MergeNode("merge", [stream._node for stream in streams])
        self.nodes.append(node)
        return Stream(self, node)

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
        """Each tuple with every tuple of the other stream whose key is the same. Storm joins within a batch.

        `window`: of each window, when it ends; without one of all that ever came, which is kept in the state, without an end.
        `kind`: whose tuples come out without a partner, which takes a window. `outputs`: names for what comes out, by default (as
        `mode` says) the key, the other fields of the left stream, those of the right one. Raises `TopologyError` on a kind or a
        mode that there is not.
        """
        keys = Fields(left_key), Fields(right_key)
        parents = [left._node, right._node]
        title = f"{'' if kind == JoinType.INNER else f'{kind} '}join({', '.join(keys[0])})"
        node = JoinNode(title, parents, keys=keys, outputs=Fields(outputs), window=window)
        node.kind, node.mode = _one_of(JoinType, kind), _one_of(JoinOutFieldsMode, mode)
        self.nodes.append(node)
        return Stream(self, node)

    def new_static_state(self, factory: StateFactory) -> StateFactory:
        """A state that no stream changes, of which each task has its own, to be given to `state_query` (Storm's
        `newStaticState`)."""
        return factory

    def build(self) -> Topology:
        """Checks it and returns the topology. Raises `TopologyError`, for fields with the lines that name them."""
        return compiled(self.name, self.config, self.nodes).topology

    def describe(self) -> str:
        """The plan: a line for each component, what it does, and where its tuples come from. Raises as `build` does."""
        return told(compiled(self.name, self.config, self.nodes))

    def dot(self) -> str:
        """The plan as a graph for Graphviz. Raises as `build` does."""
        return drawn(compiled(self.name, self.config, self.nodes))


def _one_of(kinds: type[StrEnum], given: str) -> str:
    if given not in list(kinds):
        raise TopologyError(f"{given!r} is no {kinds.__name__}: give {', '.join(kinds)}")
    return given
