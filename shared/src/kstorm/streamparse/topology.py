"""streamparse's `Topology`: a class whose attributes are spouts and bolts. A call builds it."""

import logging
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from kstorm.errors import TopologyError
from kstorm.multilang.handshake import sort_settings
from kstorm.streamparse.component import Component
from kstorm.streamparse.foreign import refuse_java
from kstorm.streamparse.hosts import StreamparseBolt, StreamparseSpout
from kstorm.streamparse.specs import ComponentSpec, JavaClass
from kstorm.streamparse.streams import JavaGrouping
from kstorm.topology import Config, TopologyBuilder
from kstorm.topology import Topology as KstormTopology

_LOG = logging.getLogger(__name__)


class TopologyType(type):
    """The type of topologies. It finds the components among a class's attributes."""

    builds_topology: ClassVar[bool] = True
    """A call of the class returns a topology of kstorm."""
    specs: list[ComponentSpec]
    config: Mapping[str, Any]

    def __new__(mcs, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> Any:
        """Name the components after their attributes."""
        specs: dict[str, ComponentSpec] = {}
        for attribute, value in attributes.items():
            if isinstance(value, Component) or (
                isinstance(value, type) and issubclass(value, Component)
            ):
                raise TopologyError(
                    f"{name}.{attribute} is {value!r:.200}, not a spec: write "
                    f"{attribute} = {getattr(value, '__name__', type(value).__name__)}.spec(…)"
                )
            if isinstance(value, ComponentSpec):
                value.name = value.name or attribute
                if value.name in specs:
                    raise TopologyError(
                        f"{name} has two components {value.name!r}: give each its own name"
                    )
                specs[value.name] = value
        config = attributes.setdefault("config", {})
        if not isinstance(config, Mapping):
            raise TopologyError(f"{name}.config is {config!r:.200}: give a dict of settings")
        return super().__new__(mcs, name, bases, {**attributes, "specs": list(specs.values())})

    def __call__(cls) -> KstormTopology:
        """Build the topology. Raises `TopologyError` for one that kstorm cannot run."""
        settings = sort_settings(cls.config)
        ignored = list(settings.ignored)
        config = Config().override(**settings.known, **settings.own)
        builder = TopologyBuilder(cls._name(), config)
        for spec in cls.specs:
            ignored += sort_settings(spec.config).ignored
            cls._add(builder, spec, config)
        if ignored:
            _LOG.warning(
                "%s: these settings of Storm have no effect in kstorm: %s",
                cls.__name__,
                ", ".join(dict.fromkeys(ignored)),
            )
        return builder.build()

    def _name(cls) -> str:
        name = vars(cls).get("name")
        return (
            name
            if isinstance(name, str)
            else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
        )

    def _add(cls, builder: TopologyBuilder, spec: ComponentSpec, config: Config) -> None:
        id, runs = str(spec.name), spec.runs
        if isinstance(runs, JavaClass):
            raise refuse_java(id, spec)
        if spec.kind == "spout":
            spout = StreamparseSpout(runs, spec.config) if isinstance(runs, type) else runs
            declarer: Any = builder.set_spout(id, spout, spec.par)
        else:
            bolt = runs
            if isinstance(runs, type):
                bolt = StreamparseBolt(runs, spec.config)
                bolt._may_tick = config.topology_tick_tuple_freq_secs is not None
            declarer = builder.set_bolt(id, bolt, spec.par)
        if not isinstance(runs, type):
            own = sort_settings(spec.config)
            declarer.add_configurations(**own.known, **own.own)
        for stream, grouping in spec.inputs.items():
            if isinstance(grouping, JavaGrouping):
                raise TopologyError(
                    f"the bolt {id!r} has a grouping of the Java class {grouping.java_class}: "
                    "write it as a kstorm.topology.CustomStreamGrouping, and connect the bolt with "
                    "a TopologyBuilder"
                )
            declarer.grouping(stream.component.name or "", grouping, stream.stream)


class Topology(metaclass=TopologyType):
    """Base class of streamparse's topologies.

    `WordCount()` builds the `kstorm.topology.Topology` of a subclass. Its name is the attribute
    `name`, or else the class's name in lower case with hyphens: `word-count`.
    """

    config: ClassVar[Mapping[str, Any]] = {}
    """Settings for all components, by Storm's or kstorm's names."""
    specs: ClassVar[list[ComponentSpec]]
    """The components, in the order of the attributes."""
