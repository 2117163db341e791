"""Wires spouts and bolts (Storm's `TopologyBuilder`).

    builder = TopologyBuilder("wordcount")
    builder.set_spout("sentences", SentenceSpout(), 2)
    builder.set_bolt("split", SplitSentence(), 4).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), 4).fields_grouping("split", Fields("word"))
    topology = builder.build()

`build` checks the whole wiring. For an invalid one, it raises a `TopologyError` that names the
cause and the remedy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kstorm.errors import ConfigError, TopologyError
from kstorm.fitting import Text, checked
from kstorm.topology.component import Wrapped, configuration_of
from kstorm.topology.components import BasicBolt, Bolt, CustomStreamGrouping, Spout
from kstorm.topology.config import Config
from kstorm.topology.declarer import OutputFieldsDeclarer
from kstorm.topology.fields import Fields
from kstorm.topology.groupings import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)
from kstorm.topology.topology import ComponentSpec, Input, Topology
from kstorm.topology.tuple import DEFAULT_STREAM
from kstorm.topology.validate import check_count, check_id, check_tasks, check_wiring


class TopologyBuilder:
    """Collects components, then builds the topology. `name` prefixes all its topics."""

    @checked("name")
    def __init__(self, name: str, config: Config | None = None) -> None:
        check_id("topology", name)
        self.name = name
        self.config = config or Config()
        self._declared: dict[str, _Declared] = {}

    def set_spout(self, id: str, spout: Spout, parallelism: int = 1) -> "SpoutDeclarer":
        """Add a spout with `parallelism` executors (processes).

        The number of tasks is the same, unless `set_num_tasks` sets more.
        """
        if not isinstance(spout, Spout):
            raise TopologyError(
                f"spout {id!r} is a {type(spout).__name__}: give set_spout an instance of a Spout "
                "subclass"
            )
        return SpoutDeclarer(self._add(id, spout, parallelism), self.config)

    def set_bolt(
        self, id: str, bolt: Bolt | BasicBolt | Wrapped, parallelism: int = 1
    ) -> "BoltDeclarer":
        """Add a bolt. The returned declarer takes its groupings."""
        if isinstance(bolt, Wrapped):
            bolt = _executor(id, bolt)
        if not isinstance(bolt, Bolt | BasicBolt):
            raise TopologyError(
                f"bolt {id!r} is a {type(bolt).__name__}: give set_bolt an instance of a Bolt or "
                "BasicBolt subclass"
            )
        return BoltDeclarer(self._add(id, bolt, parallelism), self.config)

    def build(self) -> Topology:
        """Check the wiring and return the topology. Raises `TopologyError`."""
        components = {
            declared.id: declared.spec(self.config) for declared in self._declared.values()
        }
        for spec in components.values():
            check_tasks(spec)
        topology = Topology(self.name, self.config, components)
        check_wiring(topology)
        return topology

    def _add(self, id: str, component: Spout | Bolt | BasicBolt, parallelism: int) -> "_Declared":
        check_id("component", id)
        if id in self._declared:
            raise TopologyError(f"there are two components {id!r}: give each its own id")
        check_count("parallelism", id, parallelism)
        declared = _Declared(id, component, parallelism)
        self._declared[id] = declared
        return declared


def _executor(id: str, bolt: Wrapped) -> Any:
    try:
        return bolt.executor()
    except TopologyError as error:
        raise TopologyError(f"bolt {id!r}: {error}") from None


@dataclass(slots=True)
class _Declared:
    id: str
    component: Spout | Bolt | BasicBolt
    parallelism: int
    num_tasks: int | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)

    def spec(self, config: Config) -> ComponentSpec:
        declarer = OutputFieldsDeclarer(self.id)
        self.component.declare_output_fields(declarer)
        own = _configuration(self.id, config, configuration_of(self.component), self.overrides)
        return ComponentSpec(
            id=self.id,
            kind="spout" if isinstance(self.component, Spout) else "bolt",
            component=self.component,
            parallelism=self.parallelism,
            num_tasks=self.parallelism if self.num_tasks is None else self.num_tasks,
            streams=declarer.streams,
            inputs=tuple(self.inputs),
            config=own,
        )


def _configuration(id: str, config: Config, *overrides: Mapping[str, Any]) -> Config:
    """Return a component's settings. Raises `TopologyError` if one of them is invalid."""
    try:
        for each in overrides:
            config = config.override(**each)
    except ConfigError as error:
        raise TopologyError(f"the configuration of {id!r}: {error}") from None
    return config


class _Declarer:
    """Declarations common to all components."""

    def __init__(self, declared: _Declared, config: Config) -> None:
        self._declared, self._config = declared, config

    def set_num_tasks(self, tasks: int) -> Self:
        """Fix the number of tasks, at least the parallelism.

        The number cannot change while the topology exists.
        """
        check_count("number of tasks", self._declared.id, tasks)
        self._declared.num_tasks = tasks
        return self

    def add_configurations(self, **settings: Any) -> Self:
        """Override settings of `Config` for this component, or add settings of its own.

        The component reads its own settings as `config["name"]`.
        """
        overrides = {**self._declared.overrides, **settings}
        _configuration(self._declared.id, self._config, overrides)
        self._declared.overrides = overrides
        return self

    @checked()
    def add_configuration(self, name: Text, value: Any) -> Self:
        """Set one setting. The name may be any string: `add_configuration("my.limit", 5)`."""
        return self.add_configurations(**{name: value})


class SpoutDeclarer(_Declarer):
    """Further declarations of a spout."""

    def set_max_spout_pending(self, limit: int) -> Self:
        """Set the maximum number of tuples in flight per task of this spout."""
        return self.add_configurations(topology_max_spout_pending=limit)


class BoltDeclarer(_Declarer):
    """Declares a bolt's subscriptions. Every method takes a component and one of its streams."""

    @checked()
    def grouping(self, component: Text, grouping: Grouping, stream: Text = DEFAULT_STREAM) -> Self:
        """Subscribe with a grouping object.

        Raises `TopologyError` if the bolt already subscribes to the stream.
        """
        for known in self._declared.inputs:
            if (known.component, known.stream) == (component, stream):
                raise TopologyError(
                    f"bolt {self._declared.id!r} subscribes twice to the stream {stream!r} of "
                    f"{component!r}: keep one grouping"
                )
        self._declared.inputs.append(Input(component, stream, grouping))
        return self

    @checked()
    def shuffle_grouping(self, component: Text, stream: Text = DEFAULT_STREAM) -> Self:
        """Send to each task in turn."""
        return self.grouping(component, ShuffleGrouping(), stream)

    @checked()
    def local_or_shuffle_grouping(self, component: Text, stream: Text = DEFAULT_STREAM) -> Self:
        """Same as shuffle: all tuples go through Kafka, so no task is more local than another."""
        return self.shuffle_grouping(component, stream)

    @checked()
    def none_grouping(self, component: Text, stream: Text = DEFAULT_STREAM) -> Self:
        """Same as shuffle, as in Storm."""
        return self.grouping(component, NoneGrouping(), stream)

    @checked()
    def fields_grouping(
        self, component: Text, fields: Iterable[str] | str, stream: Text = DEFAULT_STREAM
    ) -> Self:
        """Send tuples with equal values of `fields` to the same task:
        `fields_grouping("split", Fields("word"))`."""
        return self.grouping(component, FieldsGrouping(Fields(fields)), stream)

    @checked()
    def partial_key_grouping(
        self, component: Text, fields: Iterable[str] | str, stream: Text = DEFAULT_STREAM
    ) -> Self:
        """Send each key's tuples to the less loaded of two tasks."""
        return self.grouping(component, PartialKeyGrouping(Fields(fields)), stream)

    @checked()
    def all_grouping(self, component: Text, stream: Text = DEFAULT_STREAM) -> Self:
        """Send every tuple to every task."""
        return self.grouping(component, AllGrouping(), stream)

    @checked()
    def global_grouping(self, component: Text, stream: Text = DEFAULT_STREAM) -> Self:
        """Send every tuple to the task with the lowest id."""
        return self.grouping(component, GlobalGrouping(), stream)

    @checked()
    def direct_grouping(self, component: Text, stream: Text = DEFAULT_STREAM) -> Self:
        """Send to the task that the emitter names. The stream must be declared direct."""
        return self.grouping(component, DirectGrouping(), stream)

    @checked()
    def custom_grouping(
        self, component: Text, grouping: CustomStreamGrouping, stream: Text = DEFAULT_STREAM
    ) -> Self:
        """Send to the tasks that the given object chooses."""
        return self.grouping(component, CustomGrouping(grouping), stream)
