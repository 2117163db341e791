"""Looks twice at a topology, for `kstorm causes`: at what runs on this machine, or at pods on Kubernetes.

How far groups are behind is asked of Kafka: here where it can be reached, else in a pod.
"""

import io
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import msgspec
import typer

from kstorm.cli.cluster import Cluster
from kstorm.cli.finding import find as find_workloads
from kstorm.cli.in_pod import PodCommand
from kstorm.cli.lag import Backlogs, backlogs_of, decode
from kstorm.cli.workloads import Pod, Workload
from kstorm.errors import ControlError, KstormError, NoBrokerError
from kstorm.inspect.looks import Component, Process, Snapshot, between
from kstorm.runtime.asking import ask_all
from kstorm.runtime.running import RunningTopology, find
from kstorm.runtime.service.settings import Settings

_AT_ONCE: Final = 8


class Watched(Protocol):
    """A topology that can be looked at. Raises `ControlError` if it is not there."""

    def look(self) -> Snapshot:
        """At its processes, without Kafka."""
        ...

    def backlogs(self, components: Sequence[str], window: float) -> Sequence[Backlogs]:
        """How far these components are behind, and again so many seconds later. Raises `KstormError` if it cannot be said."""
        ...


class Seen(msgspec.Struct, frozen=True):
    """What two looks have seen."""

    components: Sequence[Component]
    no_broker: str = ""
    """Why no broker answers, if none does."""


def look_twice(watched: Watched, window: float) -> Seen:
    """Looks, and again so many seconds later. Says on standard error why the lag is not known, if so."""
    before = watched.look()
    reading = [name for name, (kind, _) in before.wanted.items() if kind != "spout"]
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(watched.backlogs, reading, window)
        time.sleep(window)
        after = watched.look()
        no_broker = ""
        try:
            first, second = asking.result()
        except NoBrokerError as error:
            first, second, no_broker = {}, {}, str(error)
        except (KstormError, typer.Exit) as error:
            first, second = {}, {}
            print(f"kstorm: how far groups are behind is not known: {error}", file=sys.stderr)
    replace = msgspec.structs.replace
    return Seen(
        between(replace(before, backlogs=first), replace(after, backlogs=second)), no_broker
    )


class OnThisMachine:
    """What `./run topology` or `./run demo` run; `place` is the folder of a run, or of several."""

    def __init__(self, place: Path, name: str) -> None:
        self._place, self._name = place, name

    def look(self) -> Snapshot:
        """See `Watched`."""
        found = self._find()
        answers = ask_all([worker.url for worker in found.workers])
        processes: dict[str, list[Process]] = {}
        for worker, page in zip(found.workers, answers, strict=True):
            processes.setdefault(worker.component, []).append(Process(worker.name, page))
        return Snapshot(time.monotonic(), found.wanted_by_component, processes)

    def backlogs(self, components: Sequence[str], window: float) -> Sequence[Backlogs]:
        """See `Watched`."""
        found = self._find()
        settings = Settings(
            topology="", bootstrap_servers=found.bootstrap, zookeeper=found.zookeeper
        )
        return _twice(settings, self._name, components, window)

    def _find(self) -> RunningTopology:
        there = list(find(self._place))
        for each in there:
            if each.name == self._name:
                return each
        names = ", ".join(sorted(each.name for each in there))
        said = f"those there are: {names}" if names else "nor any other"
        raise ControlError(
            f"there is no topology {self._name!r} that runs from {self._place}; {said}"
        )


class OnKubernetes:
    """A topology of a namespace. `settings`: of the Kafka that can be reached from here; None: a pod asks.

    `other` is the same cluster by another client: while the official one opens a session in a pod, whatever else it is asked goes
    there too."""

    def __init__(
        self, cluster: Cluster, other: Cluster, name: str, settings: Settings | None = None
    ) -> None:
        self._cluster, self._other, self._name, self._settings = cluster, other, name, settings

    def look(self) -> Snapshot:
        """See `Watched`. Asks all pods, some side by side."""
        workloads = find_workloads(self._cluster, self._name)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            pods = list(pool.map(self._cluster.pods, workloads))
            found = [list(pool.map(self._process, of_it)) for of_it in pods]
        wanted = {workload.id: (workload.kind, workload.replicas) for workload in workloads}
        return Snapshot(time.monotonic(), wanted, _by_component(workloads, found))

    def backlogs(self, components: Sequence[str], window: float) -> Sequence[Backlogs]:
        """See `Watched`."""
        if self._settings is not None:
            return _twice(self._settings, self._name, components, window)
        shown = io.StringIO()
        pod = PodCommand(self._other, find_workloads(self._other, self._name), "spout", "acker")
        code = pod.run(
            "lag", f"--topology={self._name}", f"--window={window:g}", "--", *components, out=shown
        )
        try:
            first, second = map(decode, shown.getvalue().splitlines())
        except (ValueError, msgspec.DecodeError):
            raise ControlError(f"{pod} did not say it (exit code {code})") from None
        return first, second

    def _process(self, pod: Pod) -> Process:
        page = self._cluster.status(pod)
        return Process(pod.name, page, "" if page is not None else pod.silence, pod.since)


def _by_component(
    workloads: Sequence[Workload], found: Sequence[Sequence[Process]]
) -> Mapping[str, Sequence[Process]]:
    return {workload.id: processes for workload, processes in zip(workloads, found, strict=True)}


def _twice(
    settings: Settings, name: str, components: Sequence[str], window: float
) -> Sequence[Backlogs]:
    first = backlogs_of(settings, name, components)
    time.sleep(window)
    return first, backlogs_of(settings, name, components)
