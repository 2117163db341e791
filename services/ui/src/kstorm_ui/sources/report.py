"""What a source says of a topology at one moment, whatever the source."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kstorm.inspect.outline import Outline
from kstorm_ui.sources.logs import Life


class ProcessReport(msgspec.Struct, frozen=True):
    """One process of a component."""

    name: str
    component: str
    status: Mapping[str, Any] | None
    """What its `/status` says; None if it does not answer."""
    trouble: str = ""
    """Why it does not answer, as far as the source knows."""
    place: str = ""
    """The node that it runs on; empty if that says nothing."""
    since: float | None = None
    """Unix time since when it is not ready, where the source knows."""


class ComponentReport(msgspec.Struct, frozen=True):
    """A component: how many processes there should be, and what was declared where that is known."""

    component: str
    kind: str
    """`spout`, `bolt` or `acker`."""
    processes: int


class TopologyReport(msgspec.Struct, frozen=True):
    """A topology that runs, or should."""

    name: str
    place: str
    """`this machine`, or the namespace."""
    components: Sequence[ComponentReport]
    processes: Sequence[ProcessReport]
    outline: Outline | None = None
    """What it declares; None where no process has told that yet."""
    bootstrap: str = ""
    """Kafka's bootstrap servers, where the source knows them; else those of the settings."""
    zookeeper: str = ""
    """ZooKeeper, in the same way."""


class Source(Protocol):
    """Something that knows topologies. `look` may wait, and raises `KstormError` if it can say nothing at all."""

    def look(self) -> Sequence[TopologyReport]:
        """How everything stands now."""
        ...

    def log(self, topology: str, process: str) -> Sequence[Life]:
        """What a process has said last, its present life first. May wait; raises `AbsentError` if there is no such process,
        `KstormError` if nobody says."""
        ...

    def __str__(self) -> str:
        """Where it looks, for people."""
        ...
