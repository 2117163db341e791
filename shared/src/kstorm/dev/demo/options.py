"""The options of a demo run."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kstorm.topology.config import EXACTLY_ONCE

_INSTALLED: Final = "kstorm.dev.demo.wordcount"
WORDCOUNT: Final = _INSTALLED if find_spec(_INSTALLED) else "examples.wordcount"
"""The package of the topology and its tables: the repository has it among its examples."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options that a user can give."""

    sentences: int
    """The number of sentences to produce."""
    guarantee: str = EXACTLY_ONCE
    """The topology's `topology_processing_guarantee`."""
    killing: bool = True
    """Kills an acker and a counting process halfway."""
    report: Path | None = None
    """A file for the result as JSON."""
    bootstrap: str | None = None
    """The user's own Kafka; None for an embedded one."""
    zookeeper: str | None = None
    """The user's own ZooKeeper; None for an embedded one."""
    workdir: Path | None = None
    """The folder in which a folder for this run is created; None for `.kstorm/runs`."""
    page: bool = True
    """Starts the web UI."""
