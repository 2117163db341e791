"""Build a topology with the user's function that the file names (Storm's `topologySource`)."""

import inspect
from typing import Any, Final

from kstorm.errors import ConfigError, TopologyError
from kstorm.flux.calls import find_at
from kstorm.flux.objects import Objects
from kstorm.flux.wiring import Wiring
from kstorm.references import ExpectedKind
from kstorm.topology import Config, Topology

_FUNCTION: Final = ExpectedKind(
    "function",
    lambda module, value: inspect.isfunction(value) and value.__module__ == module.__name__,
)


def build_from_source(wiring: Wiring, objects: Objects, config: Config) -> Topology:
    """Call the user's function. It receives the file's name and config if it has parameters for
    them."""
    source = wiring.source
    assert source is not None
    for what in ("spouts", "bolts", "streams"):
        if there := getattr(wiring, what):
            first = next(iter(there.values()))
            raise TopologyError(
                f"{first.at()}: there are {what} and a topology_source, which wires the topology: "
                "keep one of them"
            )
    at = source.at("function")
    function = find_at(source.value.function, _FUNCTION, at)
    if not callable(function):
        raise ConfigError(
            f"{at}: {source.value.function!r} is a {type(function).__name__}, not a function"
        )
    asked = inspect.signature(function).parameters
    given: dict[str, Any] = {}
    if "name" in asked and wiring.name is not None:
        given["name"] = wiring.name.value
    if "config" in asked:
        given["config"] = config
    elif wiring.config:
        first = next(iter(wiring.config.values()))
        raise ConfigError(
            f"{first.at()}: {source.value.function} has no parameter config: add one, or leave "
            "out this section"
        )
    topology = objects.call(function, source, (), source.value.function, given)
    if not isinstance(topology, Topology):
        raise TopologyError(
            f"{at}: {source.value.function} returned a {type(topology).__name__}, not a Topology"
        )
    if wiring.name is not None and topology.name != wiring.name.value:
        raise TopologyError(
            f"{wiring.name.at()}: the name is {wiring.name.value!r}, but {source.value.function} "
            f"returned the topology {topology.name!r}: give the function a parameter name, or "
            "leave out this name"
        )
    return topology
