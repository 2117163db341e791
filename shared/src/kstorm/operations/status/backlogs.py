"""The lag of components as Kafka reports it, and the format in which a pod prints it."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kstorm.operations.status.snapshots import Backlog
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.broker_reachability import check_reachable
from kstorm.runtime.kafka.lag import LagReader

_PATIENCE_SECS: Final = 5.0
Backlogs = Mapping[str, Backlog]
"""Backlogs by component."""


def backlogs_of(settings: Settings, topology: str, components: Sequence[str]) -> Backlogs:
    """Return the backlogs of components whose topics exist.

    Raises `BrokerError`, and its subclass `NoBrokerError` if no broker responds within 5 s.
    """
    check_reachable(settings)
    there = Admin(settings).partition_counts(_PATIENCE_SECS)
    tasks = {
        name: there[f"{topology}.{name}"] for name in components if f"{topology}.{name}" in there
    }
    found = LagReader(settings).of(topology, tasks)
    return {name: Backlog(time.time(), behind) for name, behind in found.items()}


def encode(backlogs: Backlogs) -> str:
    """Encode backlogs as one line of JSON."""
    return msgspec.json.encode(backlogs).decode()


def decode(line: str) -> Backlogs:
    """Decode a line. Raises `msgspec.DecodeError` if it has another format."""
    return msgspec.json.decode(line, type=dict[str, Backlog])
