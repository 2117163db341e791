"""What users subclass for windows: `WindowedBolt` and `StatefulWindowedBolt` (Storm's `BaseWindowedBolt` and
`BaseStatefulWindowedBolt`).

    class Mean(WindowedBolt):
        def declare_output_fields(self, declarer):
            declarer.declare("mean")

        def execute(self, window):
            self.collector.emit([fmean(tuple["price"] for tuple in window)])

    builder.set_bolt("mean", Mean().with_window(Duration.minutes(5), Duration.minutes(1))).shuffle_grouping("prices")
"""

from kstorm.topology import Config, KeyValueState, TopologyContext
from kstorm.topology.component import Wrapped
from kstorm.windows.collector import WindowCollector
from kstorm.windows.executor import WindowedBoltExecutor
from kstorm.windows.kept import Kept
from kstorm.windows.manager import Manager, WindowManager
from kstorm.windows.sessions import SessionManager
from kstorm.windows.window import TupleWindow
from kstorm.windows.windowed import Windowed


class WindowedBolt(Windowed, Wrapped):
    """Processes windows of tuples, which are done as soon as they are in the bolt's state: a window survives its process, and
    nothing of it is replayed. In a topology that is processed exactly once each tuple is in its windows once."""

    collector: WindowCollector
    context: TopologyContext
    config: Config

    def __init__(self) -> None:
        """A subclass with an `__init__` of its own need not call this."""

    def prepare(self, config: Config, context: TopologyContext, collector: WindowCollector) -> None:
        """Called once before anything else; by default keeps its arguments as attributes."""
        self.config, self.context, self.collector = config, context, collector

    def execute(self, window: TupleWindow) -> None:
        """Processes a window, and emits by `self.collector`. If it raises, the window is shown again."""
        raise NotImplementedError(f"{type(self).__name__} does not define execute")

    def cleanup(self) -> None:
        """Called when the task leaves this process in an orderly way."""

    def make_manager(self, state: KeyValueState, kept: Kept) -> Manager:
        """What keeps its windows, in the executor's state: here their tuples."""
        settings = self.window_settings
        if settings.gap is not None:
            return SessionManager(state, kept, settings.gap.ms, settings.key)
        length, slide = settings.length, settings.slide
        assert length is not None
        assert slide is not None
        return WindowManager(kept, length, slide)

    def executor(self) -> WindowedBoltExecutor:
        """See `Wrapped.executor`."""
        return WindowedBoltExecutor(self, self.window_settings)


class StatefulWindowedBolt(WindowedBolt):
    """A `WindowedBolt` with a state of its own beside its windows."""

    state: KeyValueState

    def init_state(self, state: KeyValueState) -> None:
        """Called after `prepare` with the recovered state; by default keeps it as `self.state`."""
        self.state = state
