"""Windows of a stream, each of which an aggregator makes something of (Storm's `WindowConfig` and `TridentProcessor`s)."""

from datetime import timedelta

from kstorm.topology import Config, Fields, OutputFieldsDeclarer, TopologyContext
from kstorm.trident.steps import Step
from kstorm.windows import TupleWindow, Windowed, WindowedBolt
from kstorm.windows.extents import Extent


class Window(Windowed):
    """Which windows: `Window(Duration.minutes(1))` one after the other, `Window(Duration.hours(1), Duration.minutes(5))` sliding;
    event time by `with_timestamp_field` and the others."""

    def __init__(self, length: Extent | timedelta, slide: Extent | timedelta | None = None) -> None:
        self.with_window(length, length if slide is None else slide)


class AggregatingBolt(WindowedBolt):
    """Has a step work on the tuples of each window, as if they were a batch."""

    def __init__(self, window: Window, step: Step, fields: Fields) -> None:
        self._step, self._fields = step, fields
        self._with(
            **{name: getattr(window.window_settings, name) for name in window.window_settings.__dataclass_fields__}
        )

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """What the step gives."""
        declarer.declare(self._fields)

    def prepare(self, config: Config, context: TopologyContext, *more: object) -> None:
        """Prepares the operation."""
        super().prepare(config, context, *more)  # type: ignore[arg-type]
        self._step.prepare(config, context)

    def cleanup(self) -> None:
        """Ends it."""
        self._step.cleanup()

    def execute(self, window: TupleWindow) -> None:
        """Emits what it makes of a window."""
        rows, _ = self._step.run([(*tuple.values,) for tuple in window], [0] * len(window))
        for row in rows:
            self.collector.emit(row)
