"""Says how windows are to be, call by call."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from typing import Any, Self

from kstorm.topology import Fields, Tuple
from kstorm.windows.extents import Count, Duration, Extent, duration, extent
from kstorm.windows.settings import WindowSettings

Time = Duration | timedelta


class Windowed:
    """What has windows. Each call returns the object itself."""

    def with_window(
        self, length: Extent | timedelta, slide: Extent | timedelta | None = None
    ) -> Self:
        """Windows of a length, each of which begins a slide behind the one before; without a slide, with each tuple (Storm's
        `withWindow`)."""
        slide = Count(1) if slide is None else extent(slide)
        return self._with(length=extent(length), slide=slide, gap=None, key=Fields())

    def with_tumbling_window(self, length: Extent | timedelta) -> Self:
        """Windows that begin where the one before ends."""
        return self.with_window(length, length)

    def with_session_window(self, gap: Time, key: str | Iterable[str]) -> Self:
        """Sessions: of each key the tuples between two pauses. Tuples that are a gap apart or less are of one session, which is
        shown when no other can come that belongs to it. `key`: the fields that say whose it is, which each input must have, and
        which its inputs are to be grouped by; `()` for sessions of all that comes to the task. Not in Storm."""
        return self._with(length=None, slide=None, gap=duration(gap), key=Fields(key))

    def with_timestamp_field(self, field: str) -> Self:
        """The field with a tuple's time, Unix milliseconds; without, tuples have the time at which they come."""
        return self.with_timestamp_extractor(itemgetter(field))

    def with_timestamp_extractor(self, extractor: Callable[[Tuple], int]) -> Self:
        """The same by a function of the tuple."""
        return self._with(timestamp=extractor)

    def with_lag(self, lag: Time) -> Self:
        """By how much a tuple may come behind ones with a higher time: the watermark is so much behind."""
        return self._with(lag=duration(lag))

    def with_watermark_interval(self, interval: Time) -> Self:
        """Between two watermarks: a second if not said."""
        return self._with(interval=duration(interval))

    def with_idle_timeout(self, idle: Time) -> Self:
        """After which a task of an input that sends nothing is not waited for; without, the watermark stands still with it. Not in
        Storm."""
        return self._with(idle=duration(idle))

    def with_late_tuple_stream(self, stream: str) -> Self:
        """The stream of tuples whose time is not behind the watermark when they come: one field `late_tuple`, a map with
        `component`, `stream` and `values` by field. Without, they are dropped, and counted as `late_total`."""
        return self._with(late=stream)

    def _with(self, **changed: Any) -> Self:
        self.__dict__["window_settings"] = replace(self.window_settings, **changed)
        return self

    def _like(self, other: "Windowed") -> None:
        self.__dict__["window_settings"] = other.window_settings

    @property
    def window_settings(self) -> WindowSettings:
        """What was said of its windows."""
        found: WindowSettings = self.__dict__.get("window_settings", WindowSettings())
        return found
