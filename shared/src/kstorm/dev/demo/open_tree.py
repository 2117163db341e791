"""The trace of a message whose tree was open when a process was killed. It shows what the process
held, and when the tree continued."""

from collections.abc import Sequence
from typing import Final

from kstorm.dev.demo.kills import Kill
from kstorm.errors import KstormError
from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.traces.slowest_trees import slowest_trees
from kstorm.operations.traces.topic_log import ReadBudget, TopicLog
from kstorm.operations.traces.tracer import Tracer
from kstorm.operations.trees.drawing import draw
from kstorm.runtime.base.settings import Settings
from kstorm.topology import Topology

_BEFORE_SECS: Final = 10.0
"""A tree may have started this long before the kill, because all trees waited after an acker was
killed earlier."""
_MOST_BYTES: Final = 400_000_000
_MOST_SECS: Final = 10.0
_MOST_LINES: Final = 14


def trace_of_open_tree(topology: Topology, settings: Settings, kills: Sequence[Kill]) -> list[str]:
    """Draw the slowest of the trees that were open at the last kill. Without such a tree, one line gives the reason. An error here
    does not fail the demo."""
    if not kills:
        return []
    kill, shape = kills[-1], outline_of(topology)
    try:
        with TopicLog(settings, ReadBudget(_MOST_BYTES, _MOST_SECS)) as log:
            killed_at = int(kill.killed_at * 1000)
            found = slowest_trees(
                shape, log, killed_at - int(_BEFORE_SECS * 1000), 1, open_at=killed_at
            )
            if not found:
                return [f"no tree was open when {kill.worker.name} was killed"]
            lines = list(draw(Tracer(shape, log).tree(*found[0]), shape))
    except KstormError as error:
        return [f"the trace of a message that {kill.worker.name} held cannot be shown: {error}"]
    head = (
        f"A message that was in flight when {kill.worker.name} was killed (`kstorm trace` shows any message of the last"
        " day):"
    )
    left = len(lines) - _MOST_LINES
    return [head, *lines[:_MOST_LINES], *([f"… and {left} more lines"] if left > 0 else [])]
