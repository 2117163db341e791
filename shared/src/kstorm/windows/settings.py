"""How a windowed bolt's windows are to be, and what cannot be."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kstorm.errors import TopologyError
from kstorm.topology import Fields, Tuple
from kstorm.windows.extents import Duration, Extent

_NO_FIELDS: Final = Fields()
LATE_TUPLE: Final = "late_tuple"
"""The field of the stream of late tuples (Storm's `LATE_TUPLE_FIELD`)."""


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """Of one bolt."""

    length: Extent | None = None
    """How long a window is."""
    slide: Extent | None = None
    """How far the next one begins."""
    gap: Duration | None = None
    """Of sessions, in place of length and slide: tuples of one key that are no further apart are of one."""
    key: Fields = _NO_FIELDS
    """Of sessions: whose they are."""
    timestamp: Callable[[Tuple], Any] | None = None
    """Gives a tuple's time, Unix milliseconds. None: when it comes."""
    lag: Duration | None = None
    """By how much tuples may come later than ones with a higher time."""
    interval: Duration | None = None
    """Between two watermarks."""
    idle: Duration | None = None
    """After which a task that sends nothing is not waited for. None: it is waited for."""
    late: str | None = None
    """The stream of tuples that come too late. None: these are dropped, and counted."""

    @property
    def tick_secs(self) -> float:
        """Between two looks at the time."""
        usual = (self.interval or DEFAULT_INTERVAL).ms
        if self.timestamp is None and isinstance(self.slide, Duration):
            return min(self.slide.ms, usual) / 1000
        if self.timestamp is None and self.gap is not None:
            return min(self.gap.ms, usual) / 1000
        return usual / 1000

    def __str__(self) -> str:
        return f"{self.length}" if self.gap is None else f"sessions {self.gap} apart"

    def check(self) -> None:
        """Raises `TopologyError` if they do not fit."""
        if self.gap is None and (self.length is None or self.slide is None):
            raise TopologyError(
                "it has no window: call with_window, with_tumbling_window or with_session_window"
            )
        if self.timestamp is None:
            for name in ("lag", "late", "idle"):
                if getattr(self, name) is not None:
                    raise TopologyError(
                        f"it has a setting for event time ({name}), and no tuple says its time: call with_timestamp_field or "
                        "with_timestamp_extractor"
                    )


DEFAULT_INTERVAL: Final = Duration(1000)
"""Storm's `topology.bolts.watermark.event.interval.ms`."""
