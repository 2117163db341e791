"""Build a topology from a YAML file that names the classes and wires them (Storm's Flux).

    topology = load_file(Path("topology.yaml"))

A service does this if KSTORM_TOPOLOGY is the path of a file.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from kstorm.errors import ConfigError, KstormError, TopologyError
from kstorm.fitting import checked
from kstorm.flux.calls import find_at
from kstorm.flux.document import FilePosition
from kstorm.flux.files import read_text
from kstorm.flux.model import GROUPING_TYPES, GroupingDef, VertexDef
from kstorm.flux.objects import Objects
from kstorm.flux.substitution import Replacements, parse_properties
from kstorm.flux.wiring import Located, Wiring, read_wiring
from kstorm.references import ExpectedKind
from kstorm.topology import BoltDeclarer, Config, SpoutDeclarer, Topology, TopologyBuilder
from kstorm.topology.groupings import KeyedGrouping

R = TypeVar("R")

_FUNCTION: Final = ExpectedKind(
    "function",
    lambda module, value: inspect.isfunction(value) and value.__module__ == module.__name__,
)


@checked()
def load_file(
    path: Path, *, environment: Mapping[str, str] | None = None, properties: Path | None = None
) -> Topology:
    """Build the topology of a YAML file.

    `environment` provides the values of `${ENV-NAME}` and defaults to the process's environment.
    `properties` is a file with the values of `${name}`. Raises `ConfigError` or `TopologyError`
    with file, line and column.
    """
    return build(read(path, environment=environment, properties=properties))


@checked()
def read(
    path: Path, *, environment: Mapping[str, str] | None = None, properties: Path | None = None
) -> Wiring:
    """Read the definitions of a file and of the files that it includes. This does not import any
    classes yet.

    Raises `ConfigError` with file, line and column.
    """
    found: Mapping[str, str] = {}
    if properties is not None:
        found = parse_properties(read_text(properties, "the properties file"), str(properties))
    environment = os.environ if environment is None else environment
    return read_wiring(path, Replacements(environment, found, str(properties or "")))


def build(wiring: Wiring) -> Topology:
    """Create the objects and connect them to a topology. Raises `ConfigError` or `TopologyError`."""
    objects = Objects(wiring.components)
    config = _config(wiring)
    if wiring.source is not None:
        return _build_from_source(wiring, objects, config)
    if wiring.name is None:
        raise ConfigError(f"{wiring.file}: the topology has no name: add name")
    builder = _at(wiring.name.at(), TopologyBuilder, wiring.name.value, config)
    for spout in wiring.spouts.values():
        made = objects.make(spout)
        _declare(
            spout, _at(spout.at(), builder.set_spout, spout.value.id, made, spout.value.parallelism)
        )
    bolts: dict[str, BoltDeclarer] = {}
    for id, bolt in wiring.bolts.items():
        made = objects.make(bolt)
        bolts[id] = _at(bolt.at(), builder.set_bolt, id, made, bolt.value.parallelism)
        _declare(bolt, bolts[id])
    for stream in wiring.streams.values():
        _subscribe(stream, wiring, bolts, objects)
    try:
        return builder.build()
    except KstormError as error:
        raise TopologyError(f"{_likely(wiring, str(error))}: {error}") from None


def _build_from_source(wiring: Wiring, objects: Objects, config: Config) -> Topology:
    """Call the function that `topology_source` names.

    It receives the file's name and config if it has parameters for them.
    """
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


def _config(wiring: Wiring) -> Config:
    try:
        return Config().override(**{name: setting.value for name, setting in wiring.config.items()})
    except ConfigError as error:
        named = [setting for name, setting in wiring.config.items() if name in str(error)]
        raise ConfigError(f"{named[0].at() if named else wiring.file}: {error}") from None


def _declare(vertex: Located[VertexDef], declarer: SpoutDeclarer | BoltDeclarer) -> None:
    if vertex.value.tasks is not None:
        _at(vertex.at(), declarer.set_num_tasks, vertex.value.tasks)
    if vertex.value.config:
        config = partial(declarer.add_configurations, **vertex.value.config)
        _at(vertex.at("config"), config)


def _subscribe(
    stream: Located[Any], wiring: Wiring, bolts: Mapping[str, BoltDeclarer], objects: Objects
) -> None:
    defined = stream.value
    if defined.to not in bolts:
        raise TopologyError(
            f"{stream.at('to')}: there is no bolt {defined.to!r}: the bolts are "
            f"{', '.join(map(repr, bolts)) or 'none'}"
        )
    emitters = [*wiring.spouts, *wiring.bolts]
    if defined.from_ not in emitters:
        raise TopologyError(
            f"{stream.at('from')}: there is no spout or bolt {defined.from_!r}: the spouts and "
            f"bolts are {', '.join(map(repr, emitters))}"
        )
    grouping: GroupingDef = defined.grouping
    keyed = [name for name, kind in GROUPING_TYPES.items() if issubclass(kind, KeyedGrouping)]
    takes_fields = grouping.type in keyed
    if takes_fields != bool(grouping.args):
        what = (
            "needs args: the names of its fields"
            if takes_fields
            else f"takes no args: only {' and '.join(keyed)} do"
        )
        raise TopologyError(f"{stream.at('grouping')}: a grouping of type {grouping.type} {what}")
    if (grouping.type == "CUSTOM") != (grouping.custom_class is not None):
        what = (
            "needs a custom_class"
            if grouping.type == "CUSTOM"
            else "takes no custom_class: only CUSTOM does"
        )
        raise TopologyError(f"{stream.at('grouping')}: a grouping of type {grouping.type} {what}")
    declare = getattr(bolts[defined.to], f"{grouping.type.lower()}_grouping")
    further = [grouping.args] if takes_fields else []
    if grouping.type == "CUSTOM":
        further = [objects.make(stream, "grouping", "custom_class")]
    _at(stream.at(), declare, defined.from_, *further, stream=grouping.stream_id)


def _at(place: FilePosition, function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    try:
        return function(*args, **kwargs)
    except KstormError as error:
        raise TopologyError(f"{place}: {error}") from None


def _likely(wiring: Wiring, message: str) -> FilePosition | str:
    """Return the likely position of an error about the whole wiring. The message of such an error
    names both ends of a stream, or one ID."""
    for (emitter, bolt, _), stream in wiring.streams.items():
        if f"bolt {bolt!r}" in message and repr(emitter) in message:
            return stream.at()
    vertices = {**wiring.spouts, **wiring.bolts}
    return next(
        (vertex.at() for id, vertex in vertices.items() if repr(id) in message), wiring.file
    )
