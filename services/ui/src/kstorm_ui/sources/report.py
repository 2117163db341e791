"""A source's report on a topology at one moment, independent of the kind of source."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kstorm.introspection.outline import Outline
from kstorm_ui.sources.process_logs import LogLife


class ProcessReport(msgspec.Struct, frozen=True):
    """One process of a component."""

    name: str
    component: str
    status: Mapping[str, Any] | None
    """Its `/status`. None if it does not respond."""
    trouble: str = ""
    """Reason why it does not respond, if the source knows it."""
    place: str = ""
    """The Kubernetes node that it runs on, or ""."""
    since: float | None = None
    """Unix time at which it became unready, if the source knows it."""


class ComponentReport(msgspec.Struct, frozen=True):
    """A component, and the number of processes that it should have."""

    component: str
    kind: str
    """`spout`, `bolt` or `acker`."""
    processes: int
    image: str = ""
    """The image of its processes. Empty on this machine."""
    revision: str = ""
    """Changes when Kubernetes replaces all of its processes. Empty on this machine."""


class TopologyReport(msgspec.Struct, frozen=True):
    """A topology that is running, or should be."""

    name: str
    place: str
    """`this machine`, or the namespace."""
    components: Sequence[ComponentReport]
    processes: Sequence[ProcessReport]
    outline: Outline | None = None
    """Outline of the topology. None until a process has reported it."""
    bootstrap: str = ""
    """Kafka's bootstrap servers, if the source knows them. Otherwise the settings apply."""
    zookeeper: str = ""
    """ZooKeeper's address, in the same way."""


class ReportSource(Protocol):
    """A source of reports on topologies. `look` may block. It raises `KstormError` if it cannot
    report anything."""

    def look(self) -> Sequence[TopologyReport]:
        """Poll the current state of all topologies."""

    def log(self, topology: str, process: str) -> Sequence[LogLife]:
        """Return the last log lines of a process, its current run first. May block.

        Raises `AbsentError` if the process does not exist, `KstormError` if the log cannot be
        fetched.
        """

    def __str__(self) -> str:
        """Description of the source for users."""
