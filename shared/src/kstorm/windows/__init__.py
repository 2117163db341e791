"""Windows over tuples, by count, time or session (Storm's windowed bolts)."""

from kstorm.windows.bolt import StatefulWindowedBolt, WindowedBolt
from kstorm.windows.collector import WindowCollector
from kstorm.windows.join import JoinBolt
from kstorm.windows.settings import LATE_TUPLE
from kstorm.windows.window import TupleWindow
from kstorm.windows.window_spec import Count, Duration
from kstorm.windows.windowed import Windowed

__all__ = [
    "LATE_TUPLE",
    "Count",
    "Duration",
    "JoinBolt",
    "StatefulWindowedBolt",
    "TupleWindow",
    "WindowCollector",
    "Windowed",
    "WindowedBolt",
]
