"""The base classes of windowed bolts: `WindowedBolt` and `StatefulWindowedBolt` (Storm's
`BaseWindowedBolt` and `BaseStatefulWindowedBolt`).

    class Mean(WindowedBolt):
        def declare_output_fields(self, declarer):
            declarer.declare("mean")

        def execute(self, window):
            self.collector.emit([fmean(tuple["price"] for tuple in window)])

    mean = Mean().with_window(Duration.minutes(5), Duration.minutes(1))
    builder.set_bolt("mean", mean).shuffle_grouping("prices")
"""

from kstorm.topology import Config, KeyValueState, TopologyContext
from kstorm.topology.component import Maybe
from kstorm.windows.collector import WindowCollector
from kstorm.windows.executor import (
    StatefulWindowedBoltExecutor,
    StatefulWindowProcessor,
    WindowedBoltExecutor,
    WindowProcessor,
)
from kstorm.windows.manager import Windower, WindowManager
from kstorm.windows.sessions import SessionManager
from kstorm.windows.window import TupleWindow
from kstorm.windows.window_store import WindowStore
from kstorm.windows.windowed import Windowed


class WindowedBolt(Windowed, WindowProcessor):
    """Process windows of tuples. A tuple is acked as soon as it is stored in the bolt's state.

    So a window survives a restart of its process without any replay. Exactly-once processing puts
    each tuple into its windows exactly once.
    """

    collector: WindowCollector
    context: TopologyContext
    config: Config

    def __init__(self) -> None:
        """Subclasses with their own `__init__` need not call this one."""

    def prepare(self, config: Config, context: TopologyContext, collector: WindowCollector) -> None:
        """Called once and first. By default, store the arguments as attributes."""
        self.config, self.context, self.collector = config, context, collector

    def execute(self, window: TupleWindow) -> None:
        """Process a window and emit through `self.collector`. If this raises, the window is shown
        again."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")

    def cleanup(self) -> None:
        """Called when the task leaves this process in a shutdown or rebalance."""

    def make_manager(self, state: KeyValueState, kept: WindowStore) -> Windower:
        """Return the manager that keeps the windows in the executor's state. Here it keeps their
        tuples."""
        settings = self.window_settings
        if settings.gap is not None:
            return SessionManager(state, kept, settings.gap.ms, settings.key)
        length, slide = settings.length, settings.slide
        assert length is not None
        assert slide is not None
        return WindowManager(kept, length, slide)

    def executor(self) -> WindowedBoltExecutor:
        return WindowedBoltExecutor(self, self.window_settings)


class StatefulWindowedBolt(WindowedBolt, StatefulWindowProcessor):
    """A `WindowedBolt` that also has a state of its own."""

    state: KeyValueState

    def init_state(self, state: KeyValueState) -> None:
        """Receive the recovered state after `prepare`. By default, set `self.state`."""
        self.state = state

    def pre_prepare(self, checkpoint_id: int) -> Maybe:
        """Called when a checkpoint begins, before the changes of the state are taken.

        No window is shown during the call, so it cannot emit. See `Stateful.pre_prepare`.
        """
        return None

    def pre_commit(self, checkpoint_id: int) -> Maybe:
        """Called when the changes of that checkpoint are durable. See `Stateful.pre_commit`."""
        return None

    def pre_rollback(self) -> Maybe:
        """Called during recovery before `init_state`, if an earlier run of this task took a
        checkpoint. See `Stateful.pre_rollback`."""
        return None

    def executor(self) -> WindowedBoltExecutor:
        return StatefulWindowedBoltExecutor(self, self.window_settings)
