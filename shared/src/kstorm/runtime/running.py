"""What runs on this machine: a file in the folder of each run, from which the page knows which processes to ask.

The rule: the file is there while the run is, and is replaced as a whole, so a reader finds all of it or none. What a run left that
was killed is told by its process id.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kstorm.inspect.outline import Outline
from kstorm.runtime.tracing.outlines import outline
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

FILE: Final = "running.json"


def runs() -> Path:
    """Where runs have their folders if nobody says another place."""
    return Path(os.environ.get("KSTORM_HOME", ".kstorm")) / "runs"


class RunningWorker(msgspec.Struct, frozen=True):
    """One service process."""

    name: str
    component: str
    url: str
    """Where its pages are, such as `http://127.0.0.1:40123`."""
    log: str = ""
    """The file of what it says."""


class RunningTopology(msgspec.Struct, frozen=True):
    """A topology of this machine."""

    topology: Outline
    pid: int
    """Of the command that runs it."""
    bootstrap: str
    zookeeper: str
    workers: Sequence[RunningWorker]

    @property
    def name(self) -> str:
        """The topology's."""
        return self.topology.name

    @property
    def wanted_by_component(self) -> dict[str, tuple[str, int]]:
        """Kind of each component, the ackers' among them, and how many processes there should be."""
        kinds = {each.id: each.kind for each in self.topology.components}
        if self.topology.acker_tasks:
            kinds[ACKER_COMPONENT] = "acker"
        return {component: (kind, self.wanted(component)) for component, kind in kinds.items()}

    def wanted(self, component: str) -> int:
        """How many processes of a component there should be."""
        return sum(worker.component == component for worker in self.workers)


def describe(
    topology: Topology, bootstrap: str, zookeeper: str, workers: Iterable[RunningWorker]
) -> RunningTopology:
    """What to write of a topology, with those of its processes that should run."""
    return RunningTopology(
        topology=outline(topology),
        pid=os.getpid(),
        bootstrap=bootstrap,
        zookeeper=zookeeper,
        workers=list(workers),
    )


def write(folder: Path, running: RunningTopology) -> None:
    """Replace the file of a run's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{FILE}"
    beside.write_bytes(msgspec.json.encode(running))
    beside.replace(folder / FILE)


def remove(folder: Path) -> None:
    """Nothing runs there any more."""
    (folder / FILE).unlink(missing_ok=True)


def find(place: Path) -> Iterator[RunningTopology]:
    """What runs now: `place` is the folder of one run, or one with the folders of several."""
    for file in [place / FILE, *sorted(place.glob(f"*/{FILE}"))]:
        try:
            found = msgspec.json.decode(file.read_bytes(), type=RunningTopology)
        except (OSError, msgspec.DecodeError):
            continue
        if _alive(found.pid):
            yield found


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
