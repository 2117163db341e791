"""The topologies that run on this machine, each in a file in its run's folder. The web UI reads
these files.

A file exists as long as its run. It is replaced atomically, so readers see it either complete or
not at all. The process ID shows whether a run was killed and left its file behind.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from kstorm.introspection.outline import Outline

if TYPE_CHECKING:
    from kstorm.topology import Topology

FILE: Final = "running.json"


def runs_folder() -> Path:
    """Return the folder of the runs, unless another one is configured."""
    return Path(os.environ.get("KSTORM_HOME", ".kstorm")) / "runs"


class RunningWorker(msgspec.Struct, frozen=True):
    name: str
    component: str
    url: str
    """Base URL of its pages, such as `http://127.0.0.1:40123`."""
    log: str = ""
    """Path of its log."""


class RunCode(msgspec.Struct, frozen=True):
    """The code of a run, for commands that need more than its outline."""

    reference: str = ""
    """`package.module:attribute`, or a YAML file. Empty: unknown."""
    folder: str = ""
    """The folder in which the reference is resolved."""
    properties: str = ""
    """The properties file of the YAML file, or ""."""


_UNKNOWN: Final = RunCode()


class RunningTopology(msgspec.Struct, frozen=True):
    """A topology that runs on this machine."""

    topology: Outline
    pid: int
    """Process ID of the command that runs it."""
    bootstrap: str
    zookeeper: str
    workers: Sequence[RunningWorker]
    code: RunCode = _UNKNOWN

    @property
    def name(self) -> str:
        return self.topology.name

    @property
    def wanted_by_component(self) -> dict[str, tuple[str, int]]:
        """The kind and the wanted number of processes of each component, including the ackers."""
        from kstorm.topology.topology import ACKER_COMPONENT

        kinds = {each.id: each.kind for each in self.topology.components}
        if self.topology.acker_tasks:
            kinds[ACKER_COMPONENT] = "acker"
        return {component: (kind, self.wanted(component)) for component, kind in kinds.items()}

    def wanted(self, component: str) -> int:
        return sum(worker.component == component for worker in self.workers)


def describe(
    topology: "Topology",
    bootstrap: str,
    zookeeper: str,
    workers: Iterable[RunningWorker],
    code: RunCode = _UNKNOWN,
) -> RunningTopology:
    """Return the description of a topology. `workers` are its wanted processes."""
    # Commands read these files without loading the code of spouts and bolts.
    from kstorm.introspection.outline_builder import outline_of

    return RunningTopology(
        topology=outline_of(topology),
        pid=os.getpid(),
        bootstrap=bootstrap,
        zookeeper=zookeeper,
        workers=list(workers),
        code=code,
    )


def write(folder: Path, running: RunningTopology) -> None:
    """Replace the file in a run's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{FILE}"
    beside.write_bytes(msgspec.json.encode(running))
    beside.replace(folder / FILE)


def remove(folder: Path) -> None:
    (folder / FILE).unlink(missing_ok=True)


def find(place: Path) -> Iterator[RunningTopology]:
    """Yield the running topologies. `place` is the folder of one run, or a folder of several."""
    for _, running in find_runs(place):
        yield running


def find_runs(place: Path) -> Iterator[tuple[Path, RunningTopology]]:
    """Like `find`, and also yield the folder of each run."""
    for file in [place / FILE, *sorted(place.glob(f"*/{FILE}"))]:
        try:
            found = msgspec.json.decode(file.read_bytes(), type=RunningTopology)
        except (OSError, msgspec.DecodeError):
            continue
        if is_alive(found.pid):
            yield file.parent, found


def is_alive(pid: int) -> bool:
    """Return True if a process with this ID exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
