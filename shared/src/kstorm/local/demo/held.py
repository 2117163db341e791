"""The trace of a message whose tree was open when a process was killed: what that process held, and when it went on."""

from collections.abc import Sequence
from typing import Final

from kstorm.errors import KstormError
from kstorm.inspect.drawing import draw
from kstorm.local.demo.breaking import Death
from kstorm.runtime.service.settings import Settings
from kstorm.runtime.tracing.log import Budget, TopicLog
from kstorm.runtime.tracing.outlines import outline
from kstorm.runtime.tracing.slowest import slowest
from kstorm.runtime.tracing.tracer import Tracer
from kstorm.topology import Topology

_BEFORE_SECS: Final = 10.0
"""So long before the death its tree may have begun: an acker that died before that had them all wait."""
_MOST_BYTES: Final = 400_000_000
_MOST_SECS: Final = 10.0
_MOST_LINES: Final = 14


def trace_of_held(topology: Topology, settings: Settings, deaths: Sequence[Death]) -> list[str]:
    """Of the trees that were open when the last of the dead was killed, the one that took longest, drawn; else one line that says
    why there is none. Nothing that goes wrong here is a fault of the demo."""
    if not deaths:
        return []
    death, shape = deaths[-1], outline(topology)
    try:
        with TopicLog(settings, Budget(_MOST_BYTES, _MOST_SECS)) as log:
            killed_at = int(death.killed_at * 1000)
            found = slowest(shape, log, killed_at - int(_BEFORE_SECS * 1000), 1, open_at=killed_at)
            if not found:
                return [f"no tree is found that was open when {death.worker.name} was killed"]
            lines = list(draw(Tracer(shape, log).tree(*found[0]), shape))
    except KstormError as error:
        return [f"the trace of what {death.worker.name} held cannot be shown: {error}"]
    head = f"A message that was under way when {death.worker.name} was killed (`kstorm trace` shows any of the last day):"
    left = len(lines) - _MOST_LINES
    return [head, *lines[:_MOST_LINES], *([f"… and {left} more lines"] if left > 0 else [])]
