"""Fluent configuration of windows."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from typing import Any, Self

from kstorm.fitting import Text, checked
from kstorm.topology import Fields, Tuple
from kstorm.windows.settings import WindowSettings
from kstorm.windows.window_spec import Count, Duration, Extent, duration, extent

Time = Duration | timedelta


class Windowed:
    """Base of bolts and operations with windows. Each method returns the object itself."""

    @checked()
    def with_window(
        self, length: Extent | timedelta, slide: Extent | timedelta | None = None
    ) -> Self:
        """Use windows of a length, each of which starts a slide after the one before (Storm's
        `withWindow`).

        Without a slide, a window starts with each tuple.
        """
        slide = Count(1) if slide is None else extent(slide)
        return self._with(length=extent(length), slide=slide, gap=None, key=Fields())

    @checked()
    def with_tumbling_window(self, length: Extent | timedelta) -> Self:
        """Use windows that start where the one before ends (Storm's `withTumblingWindow`)."""
        return self.with_window(length, length)

    @checked()
    def with_session_window(self, gap: Time, key: str | Iterable[str]) -> Self:
        """Use sessions: the tuples of a key between two pauses. Not in Storm.

        Tuples at most `gap` apart are in one session. A session is shown when no more tuples can
        belong to it. `key` lists the fields that identify a session's owner. Each input must have
        these fields and be grouped by them. With `()`, all tuples of the task have a common key.
        """
        return self._with(length=None, slide=None, gap=duration(gap), key=Fields(key))

    @checked()
    def with_timestamp_field(self, field: Text) -> Self:
        """Take a tuple's time from a field, in Unix milliseconds. Without it, a tuple has the time
        of its arrival."""
        return self._with(timestamp=itemgetter(field), field=field)

    @checked()
    def with_timestamp_extractor(self, extractor: Callable[[Tuple], int]) -> Self:
        """Compute a tuple's time with a function, in Unix milliseconds."""
        return self._with(timestamp=extractor, field="")

    @checked()
    def with_lag(self, lag: Time) -> Self:
        """Allow a tuple's time to be this far behind the highest time seen. The watermark lags by
        it."""
        return self._with(lag=duration(lag))

    @checked()
    def with_watermark_interval(self, interval: Time) -> Self:
        """Set the time between two watermarks. The default is one second."""
        return self._with(interval=duration(interval))

    @checked()
    def with_idle_timeout(self, idle: Time) -> Self:
        """Set the time after which the watermark ignores an input task that sends nothing. Not in
        Storm.

        By default the watermark waits for every task.
        """
        return self._with(idle=duration(idle))

    @checked()
    def with_late_tuple_stream(self, stream: Text) -> Self:
        """Emit late tuples, whose time is not after the watermark on arrival, on this stream.

        The stream has one field `late_tuple`: a map with `component`, `stream` and `values` (by
        field). Without it, late tuples are dropped. In both cases `late_total` counts them.
        """
        return self._with(late=stream)

    def _with(self, **changed: Any) -> Self:
        self.__dict__["window_settings"] = replace(self.window_settings, **changed)
        return self

    def _like(self, other: "Windowed") -> None:
        self.__dict__["window_settings"] = other.window_settings

    @property
    def window_settings(self) -> WindowSettings:
        """The settings made so far."""
        found: WindowSettings = self.__dict__.get("window_settings", WindowSettings())
        return found
