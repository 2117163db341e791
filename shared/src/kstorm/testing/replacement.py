"""Replaces components of a topology, so that a test can feed and read those that need a server.

tested = replace_components(
    topology, {"sentences": FeederSpout("sentence"), "sink": TupleCaptureBolt()}
)
"""

from collections.abc import Mapping
from dataclasses import replace

from kstorm.errors import TopologyError
from kstorm.fitting import checked
from kstorm.topology import BasicBolt, Bolt, Positioned, Spout, Topology


@checked()
def replace_components(
    topology: Topology, components: Mapping[str, Spout | Bolt | BasicBolt]
) -> Topology:
    """Return a copy of the topology with these components by id (Storm's `MockedSources`, for bolts
    too).

    Wiring, tasks, settings, streams and the spouts' event time stay the same. A replacement emits
    on the streams that the original declared. Raises `TopologyError` for an unknown id, for a spout
    in place of a bolt or the reverse, and for a spout without positions in an exactly-once
    topology.
    """
    replaced = dict(topology.components)
    for name, component in components.items():
        spec = topology.component(name)
        if isinstance(component, Spout) != (spec.kind == "spout"):
            raise TopologyError(
                f"{name!r} is a {spec.kind}: a {type(component).__name__} cannot replace it"
            )
        if (
            topology.config.exactly_once
            and isinstance(component, Spout)
            and not isinstance(component, Positioned)
        ):
            raise TopologyError(
                f"{topology.name!r} uses exactly_once, but the {type(component).__name__} that "
                f"replaces {name!r} has no position: use a FeederSpout, or make it Positioned"
            )
        if isinstance(component, Spout) and isinstance(spec.component, Spout):
            _keep_event_time(spec.component, component)
        replaced[name] = replace(spec, component=component)
    return Topology(topology.name, topology.config, replaced)


def _keep_event_time(original: Spout, component: Spout) -> None:
    """Give a replacement the event time of the original, unless it has its own."""
    found = original.event_time()
    if found is not None and component.event_time() is None:
        component.event_time = lambda: found  # type: ignore[method-assign]
