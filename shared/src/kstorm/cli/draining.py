"""Deactivating a topology, and waiting until its spouts have obeyed and nothing is in flight, as they tell ZooKeeper."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from kstorm.cli.waiting import wait_until
from kstorm.cli.who import operator
from kstorm.errors import OverdueError
from kstorm.runtime.zookeeper.topologies import SpoutReport, Topologies

_OBEY_SECS: Final = 15.0
_END_SECS: Final = 120.0
_ROTATION: Final = 1.5
"""A tree may be in flight for so many message timeouts."""
_SLACK_SECS: Final = 5.0


def obey(topologies: Topologies, name: str, active: bool, console: Console) -> Sequence[SpoutReport]:
    """Waits until every spout process does what was asked; what they say then. Raises `OverdueError` naming those that do
    not within 15 s."""

    def look() -> str:
        others = [spout for spout in topologies.spouts(name) if spout.active is not active]
        return f"not heard yet by {_names(others)}" if others else ""

    if left := wait_until(look, _OBEY_SECS, console):
        raise OverdueError(f"{name!r}: {left}, after {_OBEY_SECS:.0f} s; their /status says what is wrong")
    return topologies.spouts(name)


def drain(topologies: Topologies, name: str, timeout: float | None, console: Console) -> Sequence[SpoutReport]:
    """Deactivates, and waits until nothing is in flight; what the spouts say then.

    `timeout` is in seconds, by default as long as a tree can be in flight. Raises `OverdueError` after it; the topology
    stays deactivated then.
    """
    topologies.deactivate(name, operator())
    spouts = obey(topologies, name, False, console)
    if timeout is None:
        timeout = max((spout.message_timeout_secs for spout in spouts), default=0.0) * _ROTATION + _SLACK_SECS
    if left := wait_until(lambda: in_flight(topologies.spouts(name)), timeout, console):
        raise OverdueError(
            f"{name!r} still has {left}, after {timeout:.0f} s; it stays deactivated, so drain it again or activate it"
        )
    return topologies.spouts(name)


def forget(topologies: Topologies, name: str, console: Console) -> None:
    """Once its spouts have ended, removes the mark that it is deactivated, and the topology from those that ZooKeeper knows.

    Not before: a spout would hear that it may emit. Raises `OverdueError` naming those that have not ended within 120 s.
    """

    def look() -> str:
        spouts = topologies.spouts(name)
        return f"waiting for {_names(spouts)} to end" if spouts else ""

    if left := wait_until(look, _END_SECS, console):
        raise OverdueError(
            f"{left}, after {_END_SECS:.0f} s: {name!r} stays deactivated; activate it once they have ended"
        )
    topologies.forget(name)


def in_flight(spouts: Sequence[SpoutReport]) -> str:
    """How many trees are in flight and whose, in words; empty if none."""
    busy = [spout for spout in spouts if spout.pending]
    if not busy:
        return ""
    return f"{sum(spout.pending for spout in busy):,} trees in flight ({_names(busy)})"


def waiting(spouts: Sequence[SpoutReport]) -> str:
    """What will be emitted again, in words; empty if nothing."""
    messages = sum(spout.waiting for spout in spouts)
    return f"; {messages:,} messages that failed are emitted again once it is active" if messages else ""


def processes(spouts: Sequence[SpoutReport]) -> str:
    """The number of spout processes, in words."""
    return f"{len(spouts)} spout process{'' if len(spouts) == 1 else 'es'}" if spouts else "no spout process runs"


def _names(spouts: Sequence[SpoutReport]) -> str:
    return ", ".join(f"{spout.component} at {spout.instance}" for spout in spouts)
