"""What runs on this machine: a file in the folder of each run, from which the page knows which processes to ask.

The rule: the file is there while the run is, and is replaced as a whole, so a reader finds all of it or none. What a run left that
was killed is told by its process id.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kstorm.kafka import KafkaSpout
from kstorm.topology import Topology
from kstorm.topology.groupings import FieldsGrouping, Grouping, PartialKeyGrouping
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


class RunningComponent(msgspec.Struct, frozen=True):
    """A component as the topology declares it."""

    component: str
    kind: str
    """`spout`, `bolt` or `acker`."""
    tasks: int
    topic: str = ""
    """The source topic of a KafkaSpout."""
    offsets: str = ""
    """Where ZooKeeper has that spout's offsets, `<zk_root>/<id>`."""


class RunningEdge(msgspec.Struct, frozen=True):
    """Who reads what of whom."""

    source: str
    stream: str
    target: str
    grouping: str
    """In words, `fields word`."""


class RunningTopology(msgspec.Struct, frozen=True):
    """A topology of this machine."""

    name: str
    pid: int
    """Of the command that runs it."""
    bootstrap: str
    zookeeper: str
    components: Sequence[RunningComponent]
    edges: Sequence[RunningEdge]
    workers: Sequence[RunningWorker]

    def wanted(self, component: str) -> int:
        """How many processes of a component there should be."""
        return sum(worker.component == component for worker in self.workers)


def describe(topology: Topology, bootstrap: str, zookeeper: str, workers: Iterable[RunningWorker]) -> RunningTopology:
    """What to write of a topology, with those of its processes that should run."""
    return RunningTopology(
        name=topology.name,
        pid=os.getpid(),
        bootstrap=bootstrap,
        zookeeper=zookeeper,
        components=list(_components(topology)),
        edges=list(_edges(topology)),
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


def _components(topology: Topology) -> Iterator[RunningComponent]:
    for spec in [*topology.spouts, *topology.bolts]:
        topic = offsets = ""
        config = spec.component.spout_config if isinstance(spec.component, KafkaSpout) else None
        if config is not None and not config.kafka_topic_wildcard_match:  # else each topic has a path of its own
            topic, offsets = config.topic, config.zk_path
        yield RunningComponent(spec.id, spec.kind, spec.num_tasks, topic, offsets)
    if topology.config.acker_tasks:
        yield RunningComponent(ACKER_COMPONENT, "acker", topology.config.acker_tasks)


def _edges(topology: Topology) -> Iterator[RunningEdge]:
    for bolt in topology.bolts:
        for each in bolt.inputs:
            yield RunningEdge(each.component, each.stream, bolt.id, in_words(each.grouping))


def in_words(grouping: Grouping) -> str:
    """`shuffle`, `fields word, day`."""
    kind = type(grouping).__name__.removesuffix("Grouping")
    words = "partial key" if kind == "PartialKey" else kind.lower()
    if isinstance(grouping, FieldsGrouping | PartialKeyGrouping):
        return f"{words} {', '.join(grouping.fields)}"
    return words
