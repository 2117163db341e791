"""The status line on top of each page of a topology."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kstorm.operations.status.bottlenecks import describe
from kstorm_ui.desk_counts import DeskCounts
from kstorm_ui.grouped_troubles import grouped_causes, troubles_of
from kstorm_ui.timeline import TimelineMark
from kstorm_ui.topology_state import TopologyState

_HELD: Final = 0.3
"""A cause of at least this weight changes the word for the topology's health."""

_NOT_SLOW: Final = frozenset({"failing message", "late tuples", "event time"})
"""Kinds of causes that concern single messages, while the others flow."""


_SAID_BY_HEALTH: Final = frozenset({"not there", "processes missing", "cannot work"})
"""Kinds of causes that the sentence about the processes contains, with the reason."""


class StatusLine(msgspec.Struct, frozen=True):
    word: str
    """Healthy, Slow, Attention, Degraded, Down, Deactivated, Not found."""
    level: str
    """`good`, `warn` or `bad`."""
    completed: float
    """Trees per second."""
    failed: float
    """Failed trees per second."""
    p99: float | None
    """Seconds from a message's emission to its completion, over the last seconds."""
    lag: int | None
    """Messages of the sources that are not done. None if no source reports it."""
    late: float | None
    """Share of late tuples in the last ten minutes, from 0 to 1. None without windows."""
    cause: str
    """The most significant bottleneck, apart from missing processes, or empty."""
    more: int
    """Number of further causes."""
    counts: DeskCounts
    last: TimelineMark | None
    """The newest event, of an operator or of a process."""


def status_line(
    state: TopologyState, counts: DeskCounts, marks: Sequence[TimelineMark], p99: float | None
) -> StatusLine:
    """Sum up a topology. `marks` are in order of time."""
    word, level = _health(state)
    spouts = [each for each in state.components if each.kind == "spout"]
    causes = [each for each in grouped_causes(state.causes) if each.kind not in _SAID_BY_HEALTH]
    lags = [each.lag for each in spouts if each.lag is not None]
    return StatusLine(
        word=word,
        level=level,
        completed=sum(each.ack_rate for each in spouts),
        failed=sum(each.fail_rate for each in spouts),
        p99=p99,
        lag=sum(lags) if lags else None,
        late=state.late,
        cause=describe(causes[0], state.looked) if causes else "",
        more=max(0, len(causes) - 1),
        counts=counts,
        last=marks[-1] if marks else None,
    )


def _health(state: TopologyState) -> tuple[str, str]:
    if not state.answered:
        return "Not found", "bad"
    total = sum(map(len, state.processes.values()))
    waiting = sum(len(each.names) for each in troubles_of(state))
    if waiting and waiting == total:
        return "Down", "bad"
    if waiting or state.missing:
        return "Degraded", "bad"
    if not state.active:
        return "Deactivated", "warn"
    kinds = {cause.kind for cause in state.causes if cause.weight >= _HELD}
    if kinds - _NOT_SLOW:
        return "Slow", "warn"
    if kinds:
        return "Attention", "warn"
    return "Healthy", "good"
