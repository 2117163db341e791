"""The parts of a `Topology`: what `spec` returns, and how a bolt names its inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kstorm.errors import TopologyError
from kstorm.fitting import Positive, Text, checked
from kstorm.streamparse.streams import Grouping, JavaGrouping, Stream, streams_of
from kstorm.topology import DEFAULT_STREAM, BasicBolt, Bolt, OutputFieldsDeclarer, Spout
from kstorm.topology.component import Wrapped
from kstorm.topology.groupings import Grouping as KstormGrouping


@dataclass(frozen=True)
class JavaClass:
    """A class of a Java component."""

    name: str


@dataclass(eq=False)
class ComponentSpec:
    """A spout or bolt of a `Topology`. `spec["errors"]` is its stream of that name."""

    kind: Literal["spout", "bolt"]
    runs: Any
    """A class of streamparse's, a component of kstorm's, or a `JavaClass`."""
    title: str
    """The class in errors."""
    streams: Mapping[str, Stream]
    name: str | None
    """The component's ID. None: the name of the topology's attribute."""
    par: int
    config: Mapping[str, Any]
    inputs: "dict[StreamId, KstormGrouping | JavaGrouping]" = field(default_factory=dict)

    def __getitem__(self, stream: str) -> "StreamId":
        """Return a stream. Raises `TopologyError` if the component does not declare it."""
        if stream not in self.streams:
            raise TopologyError(
                f"{self.title} has no stream {stream!r}: its streams are "
                f"{', '.join(map(repr, self.streams)) or 'none; set outputs'}"
            )
        return StreamId(self, stream)


@dataclass(frozen=True)
class StreamId:
    """One stream of a component."""

    component: ComponentSpec
    stream: str


Source = ComponentSpec | StreamId
Inputs = Source | Sequence[Source] | Mapping[Any, KstormGrouping | JavaGrouping] | None


def spec_of_class(
    kind: Literal["spout", "bolt"],
    runs: Any,
    name: str | None,
    inputs: Inputs,
    par: int | Mapping[str, int] | None,
    config: Mapping[str, Any] | None,
) -> ComponentSpec:
    """Return the spec of a class with `outputs`, `par` and `config`."""
    return spec_of(
        kind,
        runs,
        runs.__name__,
        outputs=runs.outputs,
        name=name,
        inputs=inputs,
        par=runs.par if par is None else par,
        config=runs.config if config is None else config,
    )


def spec_of(
    kind: Literal["spout", "bolt"],
    runs: Any,
    title: str,
    *,
    outputs: object,
    name: str | None,
    inputs: Inputs,
    par: int | Mapping[str, int] | None,
    config: Mapping[str, Any] | None,
) -> ComponentSpec:
    """Return the spec of a component whose outputs are given with it."""
    return ComponentSpec(
        kind,
        runs,
        title,
        streams_of(title, outputs),
        name,
        _parallelism(title, par),
        dict(config or {}),
        inputs_of(title, inputs),
    )


@checked("inputs")
def kstorm_spec(
    component: Spout | Bolt | BasicBolt | Wrapped,
    name: Text | None = None,
    inputs: Inputs = None,
    par: Positive = 1,
    config: Mapping[str, Any] | None = None,
) -> ComponentSpec:
    """Put a kstorm spout or bolt into a streamparse `Topology`, such as a `KafkaSpout`.

    `name` defaults to the topology's attribute. The other arguments are those of `Bolt.spec`.
    """
    title = type(component).__name__
    declarer = OutputFieldsDeclarer(name or title)
    runs = component.executor() if isinstance(component, Wrapped) else component
    runs.declare_output_fields(declarer)
    return ComponentSpec(
        "spout" if isinstance(component, Spout) else "bolt",
        runs,
        title,
        {
            each.id: Stream(list(each.fields), each.id, each.direct)
            for each in declarer.streams.values()
        },
        name,
        par,
        dict(config or {}),
        inputs_of(title, inputs),
    )


def _parallelism(title: str, par: object) -> int:
    """Return a number of processes.

    The largest one of several environments counts, because the number of tasks cannot grow later.
    """
    numbers: list[Any] = (
        list(par.values()) if isinstance(par, Mapping) else [1 if par is None else par]
    )
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise TopologyError(f"par of {title} is {par!r}: give a whole number of at least 1")
    if not numbers:
        raise TopologyError(f"par of {title} names no environment: give a whole number")
    largest: int = max(numbers)
    return largest


def inputs_of(title: str, inputs: Inputs) -> dict[StreamId, KstormGrouping | JavaGrouping]:
    """Return a bolt's inputs with their groupings. Raises `TopologyError` for other objects."""
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        found = {_stream(title, key): grouping for key, grouping in inputs.items()}
    else:
        several = inputs if isinstance(inputs, list | tuple) else [inputs]
        found = {(stream := _stream(title, each)): _usual(stream) for each in several}
    for stream, grouping in found.items():
        if not isinstance(grouping, KstormGrouping | JavaGrouping):
            raise TopologyError(
                f"{title} subscribes to {stream.component.title} with {grouping!r}: give a "
                "Grouping, such as Grouping.SHUFFLE"
            )
    return found


def _stream(title: str, key: object) -> StreamId:
    if isinstance(key, StreamId):
        return key
    if isinstance(key, ComponentSpec):
        return key[DEFAULT_STREAM]
    raise TopologyError(
        f"{title} has the input {key!r}: give what spec() returned, or one of its streams"
    )


def _usual(stream: StreamId) -> KstormGrouping:
    direct = stream.component.streams[stream.stream].direct
    return Grouping.DIRECT if direct else Grouping.SHUFFLE
