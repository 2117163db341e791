"""What random topologies are made of: bolts that take any tuples, and a topology that shows its wiring."""

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
    """Emits the first and the last value of its input, whatever that is."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and value."""
        declarer.declare(*FIELDS)


def _ends(tuple: Tuple) -> list[Any]:
    return [tuple[0], tuple[-1]] if len(tuple) else [None, None]


class PassOn(_TwoFields, BasicBolt):
    """One for one."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emits it."""
        collector.emit(_ends(tuple))


class FanOut(_TwoFields, BasicBolt):
    """Two for one."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emits it twice."""
        collector.emit(_ends(tuple))
        collector.emit(_ends(tuple))


class Drop(_TwoFields, BasicBolt):
    """None for one."""

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Acks it, and that is all."""


class Hold(_TwoFields, Bolt):
    """Holds tuples until a tick, then emits one tuple for all of them, anchored to each."""

    def __init__(self) -> None:
        self.held: list[Tuple] = []

    def get_component_configuration(self) -> dict[str, Any]:
        """A tick each second."""
        return {"topology_tick_tuple_freq_secs": 1.0}

    def execute(self, tuple: Tuple) -> None:
        """Holds, or lets go."""
        if not tuple.is_tick:
            self.held.append(tuple)
            return
        if self.held:
            self.collector.emit(_ends(self.held[-1]), self.held)
        for held in self.held:
            self.collector.ack(held)
        self.held = []


class DrawnTopology(Topology):
    """A topology whose `repr` can be read when Hypothesis prints it."""

    @classmethod
    def of(cls, topology: Topology) -> Self:
        """The same topology."""
        return cls(topology.name, topology.config, topology.components)

    def __repr__(self) -> str:
        ackers = (
            f"{self.config.topology_acker_executors} ackers with {self.config.acker_tasks} tasks"
        )
        return "; ".join([*map(_line, self.components.values()), ackers])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis prints; of a dataclass it would print every field otherwise."""
        printer.text(repr(self))


def _line(spec: ComponentSpec) -> str:
    size = f"{spec.id}: {type(spec.component).__name__} × {spec.parallelism} with {spec.num_tasks} tasks"
    inputs = [f"{i.component}/{i.stream} by {i.grouping!r}" for i in spec.inputs]
    return f"{size} ← {', '.join(inputs)}" if inputs else size
