"""Windows of a stream, each of which an aggregator makes something of (Storm's `WindowConfig` and `TridentProcessor`s)."""

from datetime import timedelta
from typing import Any

from kstorm.topology import (
    Config,
    Fields,
    KeyValueState,
    OutputFieldsDeclarer,
    TopologyContext,
    Tuple,
)
from kstorm.trident.aggregators import CombinerAggregator
from kstorm.trident.batches import Batch, Picked, Row
from kstorm.trident.state import text_of
from kstorm.trident.steps import AggregateStep, Step
from kstorm.windows import Duration, TupleWindow, WindowCollector, Windowed, WindowedBolt
from kstorm.windows.chains import manager_of_sums
from kstorm.windows.extents import Extent
from kstorm.windows.kept import Kept
from kstorm.windows.manager import Manager
from kstorm.windows.panes import PaneWindow
from kstorm.windows.sessions import SessionSums


class Window(Windowed):
    """Which windows: `Window(Duration.minutes(1))` one after the other, `Window(Duration.hours(1), Duration.minutes(5))` sliding;
    event time by `with_timestamp_field` and the others."""

    def __init__(self, length: Extent | timedelta, slide: Extent | timedelta | None = None) -> None:
        self.with_window(length, length if slide is None else slide)


class Sessions(Window):
    """Sessions of each group: its tuples between two pauses, `Sessions(Duration.minutes(5))` (`with_session_window`)."""

    def __init__(self, gap: Duration | timedelta) -> None:
        self.with_session_window(gap, ())


class AggregatingBolt(WindowedBolt):
    """Has a step work on the tuples of each window, as if they were a batch."""

    def __init__(self, window: Window, step: Step, fields: Fields) -> None:
        self._step, self._fields = step, fields
        self._like(window)
        if window.window_settings.gap is not None and isinstance(step, AggregateStep):
            self._with(key=step.groups.fields)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """What the step gives."""
        declarer.declare(self._fields)

    def prepare(self, config: Config, context: TopologyContext, collector: WindowCollector) -> None:
        """Prepares the operation."""
        super().prepare(config, context, collector)
        self._step.prepare(config, context)

    def cleanup(self) -> None:
        """Ends it."""
        self._step.cleanup()

    def execute(self, window: TupleWindow) -> None:
        """Emits what it makes of a window."""
        given = [(*tuple.values,) for tuple in window]
        if given:
            found = self._step.run(Batch.of_rows(given))
            for row in zip(*found.columns(), strict=True):
                self.collector.emit(row)


class CombiningBolt(WindowedBolt):
    """Keeps a value for each group and pane of time, in place of tuples."""

    def __init__(
        self,
        window: Window,
        aggregator: CombinerAggregator,
        groups: Picked,
        picked: Picked,
        fields: Fields,
    ) -> None:
        self._aggregator, self._groups, self._picked, self._fields = (
            aggregator,
            groups,
            picked,
            fields,
        )
        self._like(window)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Group and value."""
        declarer.declare(self._fields)

    def prepare(self, config: Config, context: TopologyContext, collector: WindowCollector) -> None:
        """Prepares the aggregator."""
        super().prepare(config, context, collector)
        self._aggregator.prepare(config, context)

    def cleanup(self) -> None:
        """Ends it."""
        self._aggregator.cleanup()

    def make_manager(self, state: KeyValueState, kept: Kept) -> Manager:
        """See `WindowedBolt.make_manager`."""
        settings = self.window_settings
        if settings.gap is not None:
            return SessionSums(state, settings.gap.ms, self._fold, self._aggregator.combine)
        length, slide = settings.length, settings.slide
        assert isinstance(length, Duration)
        assert isinstance(slide, Duration)
        return manager_of_sums(state, length.ms, slide.ms, self._fold, self._aggregator.combine)

    def execute(self, window: Any) -> None:
        """Emits a tuple for each group."""
        found: PaneWindow = window
        for group, value in found.values:
            self.collector.emit([*group, self._aggregator.result(value)])

    def _fold(self, tuple: Tuple) -> tuple[str, Row, Any]:
        row = (*tuple.values,)
        group = self._groups.values(row)
        return text_of(group), group, self._aggregator.init(self._picked.tuple(row))


def window_bolt(window: Window, step: Step, fields: Fields) -> WindowedBolt:
    """What makes something of windows: a combiner needs no tuples where they end by time."""
    settings = window.window_settings
    by_time = settings.gap is not None or (
        isinstance(settings.length, Duration) and isinstance(settings.slide, Duration)
    )
    if (
        by_time
        and isinstance(step, AggregateStep)
        and isinstance(step.operation, CombinerAggregator)
    ):
        return CombiningBolt(window, step.operation, step.groups, step.picked, fields)
    return AggregatingBolt(window, step, fields)
