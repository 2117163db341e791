"""Windows of a stream, aggregated one by one (Storm's `WindowConfig` and `TridentProcessor`s)."""

from datetime import timedelta
from typing import Any

from kstorm.fitting import checked
from kstorm.topology import (
    Config,
    Fields,
    KeyValueState,
    OutputFieldsDeclarer,
    TopologyContext,
    Tuple,
)
from kstorm.topology.keys import key_text
from kstorm.trident.aggregators import CombinerAggregator
from kstorm.trident.batches import Batch, FieldSelection, Row
from kstorm.trident.steps import AggregateStep, Step
from kstorm.windows import Duration, TupleWindow, WindowCollector, Windowed, WindowedBolt
from kstorm.windows.manager import Windower
from kstorm.windows.pane_aggregates import aggregate_manager
from kstorm.windows.panes import PaneWindow
from kstorm.windows.sessions import SessionAggregateManager
from kstorm.windows.window_spec import Extent
from kstorm.windows.window_store import WindowStore


class Window(Windowed):
    """Windows in sequence, `Window(Duration.minutes(1))`, or overlapping,
    `Window(Duration.hours(1), Duration.minutes(5))`.

    Set event time with `with_timestamp_field` and the related methods.
    """

    @checked()
    def __init__(self, length: Extent | timedelta, slide: Extent | timedelta | None = None) -> None:
        self.with_window(length, length if slide is None else slide)


class Sessions(Window):
    """The sessions of each group: its tuples between two pauses, `Sessions(Duration.minutes(5))`
    (see `with_session_window`)."""

    @checked()
    def __init__(self, gap: Duration | timedelta) -> None:
        self.with_session_window(gap, ())


class AggregatingBolt(WindowedBolt):
    """Runs a step on the tuples of each window as on a batch."""

    def __init__(self, window: Window, step: Step, fields: Fields) -> None:
        self._step, self._fields = step, fields
        self._like(window)
        if window.window_settings.gap is not None and isinstance(step, AggregateStep):
            self._with(key=step.groups.fields)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(self._fields)

    def prepare(self, config: Config, context: TopologyContext, collector: WindowCollector) -> None:
        super().prepare(config, context, collector)
        self._step.prepare(config, context)

    def cleanup(self) -> None:
        self._step.cleanup()

    def execute(self, window: TupleWindow) -> None:
        given = [(*tuple.values,) for tuple in window]
        if given:
            found = self._step.run(Batch.of_rows(given))
            for row in zip(*found.columns(), strict=True):
                self.collector.emit(row)


class CombiningBolt(WindowedBolt):
    """Stores one value per group and pane of time instead of tuples."""

    def __init__(
        self,
        window: Window,
        aggregator: CombinerAggregator,
        groups: FieldSelection,
        picked: FieldSelection,
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
        declarer.declare(self._fields)

    def prepare(self, config: Config, context: TopologyContext, collector: WindowCollector) -> None:
        super().prepare(config, context, collector)
        self._aggregator.prepare(config, context)

    def cleanup(self) -> None:
        self._aggregator.cleanup()

    def make_manager(self, state: KeyValueState, kept: WindowStore) -> Windower:
        settings = self.window_settings
        if settings.gap is not None:
            return SessionAggregateManager(
                state, settings.gap.ms, self._fold, self._aggregator.combine
            )
        length, slide = settings.length, settings.slide
        assert isinstance(length, Duration)
        assert isinstance(slide, Duration)
        return aggregate_manager(state, length.ms, slide.ms, self._fold, self._aggregator.combine)

    def execute(self, window: Any) -> None:
        found: PaneWindow = window
        for group, value in found.values:
            self.collector.emit([*group, self._aggregator.result(value)])

    def _fold(self, tuple: Tuple) -> tuple[str, Row, Any]:
        row = (*tuple.values,)
        group = self._groups.values(row)
        return key_text(group), group, self._aggregator.init(self._picked.tuple(row))


def window_bolt(window: Window, step: Step, fields: Fields) -> WindowedBolt:
    """Return the bolt for windows. Combiners need no stored tuples if windows end by time."""
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
