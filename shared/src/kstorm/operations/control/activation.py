"""Activate, deactivate and drain a topology, following the spouts' reports in ZooKeeper."""

from collections.abc import Callable, Sequence
from typing import Final

from kstorm.errors import ControlError, OverdueError
from kstorm.operations.formatting import counted
from kstorm.runtime.zookeeper.topology_nodes import SpoutReport, Topologies

Wait = Callable[[Callable[[], str], float], str]
"""Polls a function until it returns "" or the time limit has passed. Returns the last result."""
LOOK_SECS: Final = 0.2
"""Interval between two polls."""
_OBEY_SECS: Final = 15.0
_END_SECS: Final = 120.0
_ROTATION: Final = 1.5
"""A tree may be in flight for this multiple of the message timeout."""
_SLACK_SECS: Final = 5.0


def activate(topologies: Topologies, name: str, wait: Wait) -> str:
    """Activate the spouts of a topology and return a summary. Raises the errors of `await_state`."""
    changed = topologies.activate(name)
    spouts = await_state(topologies, name, True, wait)
    return f"{name} {'is active again' if changed else 'was already active'}: {describe_processes(spouts)}"


def deactivate(topologies: Topologies, name: str, who: str, wait: Wait) -> str:
    """Deactivate the spouts of a topology and return a summary. Raises the errors of `await_state`."""
    changed = topologies.deactivate(name, who)
    spouts = await_state(topologies, name, False, wait)
    said = "is deactivated" if changed else "was already deactivated"
    return f"{name} {said}: {describe_processes(spouts)}, {describe_in_flight(spouts) or 'nothing in flight'}"


def drain(topologies: Topologies, name: str, timeout: float | None, who: str, wait: Wait) -> str:
    """Deactivate a topology, wait until nothing is in flight, and return a summary.

    `timeout` is in seconds, by default as long as a tree can be in flight. After that time this
    raises `OverdueError`, and the topology stays deactivated. Raises `ControlError` if an operator
    activates the topology in the meantime.
    """
    topologies.deactivate(name, who)
    spouts = await_state(topologies, name, False, wait)
    if timeout is None:
        timeout = (
            max((spout.message_timeout_secs for spout in spouts), default=0.0) * _ROTATION
            + _SLACK_SECS
        )

    def look() -> str:
        if topologies.deactivation(name) is None:
            raise ControlError(f"{name!r} is not drained: an operator has activated it meanwhile")
        return describe_in_flight(topologies.spouts(name))

    if left := wait(look, timeout):
        raise OverdueError(
            f"{name!r} still has {left} after {timeout:.0f} s; it stays deactivated: drain it "
            "again, or activate it"
        )
    spouts = topologies.spouts(name)
    return f"{name} is drained: {describe_processes(spouts)}, nothing in flight{describe_retries(spouts)}"


def await_state(
    topologies: Topologies, name: str, active: bool, wait: Wait
) -> Sequence[SpoutReport]:
    """Wait until every spout process has changed its state, and return their reports.

    Raises `OverdueError` naming the processes that have not done so within 15 s.
    """

    def look() -> str:
        others = [spout for spout in topologies.spouts(name) if spout.active is not active]
        return f"no response yet from {_names(others)}" if others else ""

    if left := wait(look, _OBEY_SECS):
        raise OverdueError(
            f"{name!r}: {left} after {_OBEY_SECS:.0f} s; their /status shows the problem"
        )
    return topologies.spouts(name)


def forget(topologies: Topologies, name: str, wait: Wait) -> None:
    """Wait until the topology's spouts have ended, then remove the topology from ZooKeeper.

    If the topology were removed earlier, it would count as active, and a spout would emit again.
    Raises `OverdueError` naming the spouts that have not ended within 120 s.
    """

    def look() -> str:
        spouts = topologies.spouts(name)
        return f"waiting for {_names(spouts)} to end" if spouts else ""

    if left := wait(look, _END_SECS):
        raise OverdueError(
            f"still {left} after {_END_SECS:.0f} s: {name!r} stays deactivated; activate it once "
            "they have ended"
        )
    topologies.forget(name)


def describe_in_flight(spouts: Sequence[SpoutReport]) -> str:
    """Return the number of trees in flight and their spouts as text, or "" if there are none."""
    busy = [spout for spout in spouts if spout.pending]
    if not busy:
        return ""
    return f"{counted(sum(spout.pending for spout in busy), 'tree')} in flight ({_names(busy)})"


def describe_retries(spouts: Sequence[SpoutReport]) -> str:
    """Return the number of messages to retry as text, or "" if there are none."""
    messages = sum(spout.waiting for spout in spouts)
    return (
        f"; {counted(messages, 'failed message')} will be emitted again once it is active"
        if messages
        else ""
    )


def describe_processes(spouts: Sequence[SpoutReport]) -> str:
    """Return the number of spout processes as text."""
    return (
        f"{len(spouts)} spout process{'' if len(spouts) == 1 else 'es'}"
        if spouts
        else "no spout process runs"
    )


def _names(spouts: Sequence[SpoutReport]) -> str:
    return ", ".join(f"{spout.component} at {spout.instance}" for spout in spouts)


def timeout_option(seconds: float | None) -> list[str]:
    """Return the option that passes a timeout to `kstorm drain` in a pod."""
    return [] if seconds is None else [f"--timeout={seconds:g}"]
