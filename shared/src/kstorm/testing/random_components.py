"""Parts of random topologies: bolts for any tuple, and topologies with a readable `repr`."""

from typing import Any, Self

from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    ComponentSpec,
    OutputFieldsDeclarer,
    Topology,
    Tuple,
)

FIELDS = ("key", "value")


class _TwoFields:
    """Declares two fields. Its bolts emit the first and the last value of their input."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*FIELDS)


def _ends(tuple: Tuple) -> list[Any]:
    return [tuple[0], tuple[-1]] if len(tuple) else [None, None]


class PassOn(_TwoFields, BasicBolt):
    """Emits one tuple for each tuple."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(_ends(tuple))


class FanOut(_TwoFields, BasicBolt):
    """Emits two tuples for each tuple."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(_ends(tuple))
        collector.emit(_ends(tuple))


class Drop(_TwoFields, BasicBolt):
    """Acks tuples without emitting anything."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None: ...


class Hold(_TwoFields, Bolt):
    """Holds tuples until a tick, then emits one tuple that is anchored to all of them."""

    def __init__(self) -> None:
        self.held: list[Tuple] = []

    def get_component_configuration(self) -> dict[str, Any]:
        return {"topology_tick_tuple_freq_secs": 1.0}

    def execute(self, tuple: Tuple) -> None:
        if not tuple.is_tick:
            self.held.append(tuple)
            return
        if self.held:
            self.collector.emit(_ends(self.held[-1]), self.held)
        for held in self.held:
            self.collector.ack(held)
        self.held = []


class DrawnTopology(Topology):
    """A topology with a `repr` that is readable in Hypothesis's output."""

    @classmethod
    def of(cls, topology: Topology) -> Self:
        return cls(topology.name, topology.config, topology.components)

    def __repr__(self) -> str:
        ackers = (
            f"{self.config.topology_acker_executors} ackers with {self.config.acker_tasks} tasks"
        )
        return "; ".join([*map(_line, self.components.values()), ackers])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the `repr`. Hypothesis would otherwise print every field of the dataclass."""
        printer.text(repr(self))


def _line(spec: ComponentSpec) -> str:
    size = (
        f"{spec.id}: {type(spec.component).__name__} × {spec.parallelism} with {spec.num_tasks} "
        "tasks"
    )
    inputs = [f"{i.component}/{i.stream} by {i.grouping!r}" for i in spec.inputs]
    return f"{size} ← {', '.join(inputs)}" if inputs else size
