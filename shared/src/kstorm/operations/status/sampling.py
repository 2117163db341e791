"""Take two snapshots of a topology for `kstorm causes`, on this machine or on Kubernetes.

The lag of consumer groups comes from Kafka: directly if it can be reached from here, otherwise by a
pod.
"""

import io
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import msgspec

from kstorm.errors import ControlError, KstormError, NoBrokerError
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.topologies import find_topology as find_workloads
from kstorm.operations.kubernetes.workloads import Pod, Workload
from kstorm.operations.status.backlogs import Backlogs, backlogs_of, decode
from kstorm.operations.status.snapshots import (
    ComponentChange,
    ProcessSnapshot,
    TopologySnapshot,
    compare,
)
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.local_silence import why_silent
from kstorm.runtime.run_files import RunningTopology, find
from kstorm.runtime.status_client import fetch_status_of_all

_AT_ONCE: Final = 8
_log: Final = logging.getLogger(__name__)


class TopologySampler(Protocol):
    """A topology that can be inspected. Methods raise `ControlError` if it does not exist."""

    def look(self) -> TopologySnapshot:
        """Take a snapshot of the processes, without lags from Kafka."""

    def backlogs(self, components: Sequence[str], window: float) -> Sequence[Backlogs]:
        """Return the components' backlogs twice, `window` seconds apart.

        Raises `KstormError` if they are not available.
        """


class TopologySample(msgspec.Struct, frozen=True):
    """Result of two snapshots."""

    components: Sequence[ComponentChange]
    no_broker: str = ""
    """The error if no broker responds."""


def sample_twice(watched: TopologySampler, window: float) -> TopologySample:
    """Take two snapshots, `window` seconds apart.

    If the lag is not available, the reason is logged.
    """
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
        except KstormError as error:
            first, second = {}, {}
            _log.warning("the lag of the consumer groups is unknown: %s", error)
    replace = msgspec.structs.replace
    return TopologySample(
        compare(replace(before, backlogs=first), replace(after, backlogs=second)), no_broker
    )


class LocalSampler:
    """A topology run by `./run topology` or `./run demo`.

    `place` is the folder of one run or of several.
    """

    def __init__(self, place: Path, name: str) -> None:
        self._place, self._name = place, name

    def look(self) -> TopologySnapshot:
        found = self._find()
        answers = fetch_status_of_all([worker.url for worker in found.workers])
        processes: dict[str, list[ProcessSnapshot]] = {}
        for worker, page in zip(found.workers, answers, strict=True):
            trouble = "" if page is not None else why_silent(found, worker)
            snapshot = ProcessSnapshot(worker.name, page, trouble)
            processes.setdefault(worker.component, []).append(snapshot)
        return TopologySnapshot(time.monotonic(), found.wanted_by_component, processes)

    def backlogs(self, components: Sequence[str], window: float) -> Sequence[Backlogs]:
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
        names = ", ".join(sorted(each.name for each in there)) or "none"
        raise ControlError(
            f"no topology {self._name!r} runs from {self._place} (running there: {names})"
        )


class KubernetesSampler:
    """A topology in a namespace.

    `settings` are those of a Kafka that can be reached from here. None: a pod of the topology
    queries Kafka. `other` is a second client of the same cluster. It is needed because the official
    client, while it opens a session in a pod, sends all other requests to that pod too.
    """

    def __init__(
        self, cluster: Cluster, other: Cluster, name: str, settings: Settings | None = None
    ) -> None:
        self._cluster, self._other, self._name, self._settings = cluster, other, name, settings

    def look(self) -> TopologySnapshot:
        workloads = find_workloads(self._cluster, self._name)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            pods = list(pool.map(self._cluster.pods, workloads))
            asked = [pool.map(self._process, of_it) for of_it in pods]
            found = [list(of_it) for of_it in asked]
        wanted = {workload.id: (workload.kind, workload.replicas) for workload in workloads}
        return TopologySnapshot(time.monotonic(), wanted, _by_component(workloads, found))

    def backlogs(self, components: Sequence[str], window: float) -> Sequence[Backlogs]:
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
            raise ControlError(f"{pod} did not print it (exit code {code})") from None
        return first, second

    def _process(self, pod: Pod) -> ProcessSnapshot:
        page = self._cluster.status(pod)
        return ProcessSnapshot(pod.name, page, "" if page is not None else pod.silence, pod.since)


def _by_component(
    workloads: Sequence[Workload], found: Sequence[Sequence[ProcessSnapshot]]
) -> Mapping[str, Sequence[ProcessSnapshot]]:
    return {workload.id: processes for workload, processes in zip(workloads, found, strict=True)}


def _twice(
    settings: Settings, name: str, components: Sequence[str], window: float
) -> Sequence[Backlogs]:
    first = backlogs_of(settings, name, components)
    time.sleep(window)
    return first, backlogs_of(settings, name, components)
