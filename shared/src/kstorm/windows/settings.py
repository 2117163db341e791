"""The settings of a bolt's windows, and their validation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kstorm.errors import TopologyError
from kstorm.topology import Fields, Tuple
from kstorm.windows.window_spec import Duration, Extent

_NO_FIELDS: Final = Fields()
LATE_TUPLE: Final = "late_tuple"
"""Field of the stream of late tuples (Storm's `LATE_TUPLE_FIELD`)."""


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """The window settings of one bolt."""

    length: Extent | None = None
    """Length of a window."""
    slide: Extent | None = None
    """Distance between the starts of two windows."""
    gap: Duration | None = None
    """Gap of session windows, which have no length and slide. Tuples of a key at most this far
    apart are in one session."""
    key: Fields = _NO_FIELDS
    """Fields that identify a session's owner."""
    timestamp: Callable[[Tuple], Any] | None = None
    """Returns a tuple's time in Unix milliseconds. None uses the time of arrival."""
    field: str = ""
    """The field with the time, if `timestamp` reads one."""
    lag: Duration | None = None
    """Allowed lateness: how far a tuple's time may be behind the highest time seen."""
    interval: Duration | None = None
    """Time between two watermarks. None uses `DEFAULT_INTERVAL`."""
    idle: Duration | None = None
    """Time after which the watermark ignores an input task that sends nothing. None waits for it
    forever."""
    late: str | None = None
    """Stream for late tuples. None drops and counts them."""

    @property
    def tick_secs(self) -> float:
        """Seconds between two ticks."""
        usual = (self.interval or DEFAULT_INTERVAL).ms
        if self.timestamp is None and isinstance(self.slide, Duration):
            return min(self.slide.ms, usual) / 1000
        if self.timestamp is None and self.gap is not None:
            return min(self.gap.ms, usual) / 1000
        return usual / 1000

    def __str__(self) -> str:
        return f"{self.length}" if self.gap is None else f"sessions {self.gap} apart"

    def refuses_inputs(self, inputs: Mapping[tuple[str, str], Fields]) -> str:
        """Return why an input lacks a field that the windows need, and what to do, or ""."""
        for (component, stream), fields in inputs.items():
            has = f"the stream {stream!r} of {component!r} has {', '.join(fields) or 'no fields'}"
            if self.field and self.field not in fields:
                return (
                    f"its tuples have their time in the field {self.field!r}, but {has}: add the "
                    "field there, name another one, or use with_timestamp_extractor"
                )
            for name in self.key:
                if name not in fields:
                    return (
                        f"the key of its sessions has the field {name!r}, but {has}: add the field "
                        "there, or name another one in with_session_window"
                    )
        return ""

    def check(self) -> None:
        """Raise `TopologyError` if a setting is missing or if settings contradict each other."""
        if self.gap is None and (self.length is None or self.slide is None):
            raise TopologyError(
                "it has no window: call with_window, with_tumbling_window or with_session_window"
            )
        if self.timestamp is None:
            for name in ("lag", "late", "idle"):
                if getattr(self, name) is not None:
                    raise TopologyError(
                        f"it has a setting for event time ({name}), but its tuples have no time: "
                        "call with_timestamp_field or with_timestamp_extractor"
                    )


DEFAULT_INTERVAL: Final = Duration(1000)
"""Storm's `topology.bolts.watermark.event.interval.ms`."""
