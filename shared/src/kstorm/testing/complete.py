"""Run a topology on fixed input until it is finished (Storm's `Testing.completeTopology`)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kstorm.errors import ArgumentError, KstormError, TopologyError
from kstorm.fitting import checked
from kstorm.testing.cluster import LocalCluster
from kstorm.testing.replacement import replace_components
from kstorm.testing.spouts import FixedTuple, FixedTupleSpout
from kstorm.topology import Topology

if TYPE_CHECKING:
    from kstorm.testing.kafka import FakeKafka


@checked()
def complete_topology(
    topology: Topology,
    tuples: Mapping[str, Iterable[Sequence[Any] | FixedTuple]],
    seed: int = 0,
    resources: dict[str, Any] | None = None,
    kafka: "FakeKafka | None" = None,
) -> LocalCluster:
    """Run until every tuple given to the spouts is acked or failed, and return the closed cluster.

        result = complete_topology(topology, {"sentences": [["the cow"], ["the moon"]]})
        assert sorted(result.emitted("split")) == [["cow"], ["moon"], ["the"], ["the"]]
        assert result.acked("sentences") == [0, 1]

    `tuples` lists what each spout emits instead of its own tuples. Message ids are positions in
    that list. KafkaBolts write to `kafka`, if it is given. Raises `TopologyError` if `tuples` names
    a component that is not a spout, or omits a spout.
    """
    if kafka is not None and not hasattr(kafka, "cluster"):
        raise ArgumentError(
            f"complete_topology: kafka is {kafka!r}: it must be a FakeKafka or None"
        )
    check_names(topology, set(tuples))
    spouts = {}
    for name, given in tuples.items():
        streams = {stream.id: stream.fields for stream in topology.component(name).streams.values()}
        spouts[name] = FixedTupleSpout(given, streams)
    make = LocalCluster if kafka is None else kafka.cluster
    with make(replace_components(topology, spouts), seed, resources) as cluster:
        cluster.run_until_idle()
        for _ in range(_MOST_STRIDES):
            if not cluster.pending:
                return cluster
            cluster.advance_time(topology.config.topology_message_timeout_secs / 2)
        raise KstormError(
            f"{cluster.pending} tuples of {topology.name!r} are neither acked nor failed after "
            f"{cluster.now:g} virtual seconds: does a bolt call reset_timeout forever, or are "
            "message timeouts off?"
        )


_MOST_STRIDES = 200


def check_names(topology: Topology, given: set[str]) -> None:
    """Raise `TopologyError` unless tuples are given for every spout and for nothing else."""
    spouts = {spout.id for spout in topology.spouts}
    for name in sorted(given - spouts):
        raise TopologyError(
            f"tuples are given for {name!r}, which is not a spout of {topology.name!r}: its "
            f"spouts are {', '.join(sorted(spouts))}"
        )
    for name in sorted(spouts - given):
        raise TopologyError(
            f"no tuples are given for the spout {name!r}: give it a list, which may be empty"
        )
