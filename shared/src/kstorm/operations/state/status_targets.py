"""Send HTTP requests to a topology's processes, on this machine or in a Kubernetes namespace."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from kstorm.errors import ControlError
from kstorm.introspection.outline import Outline, parse_outline
from kstorm.operations.kubernetes.cluster import WEB_PORT, Cluster
from kstorm.operations.kubernetes.topologies import find_topology as find_workloads
from kstorm.operations.kubernetes.workloads import Pod
from kstorm.operations.places import LocalRun, OnKubernetes, PlaceChoice, find_place
from kstorm.runtime.run_files import RunningTopology, find
from kstorm.runtime.status_client import PageAnswer, query_page

AT_ONCE: Final = 16


class StatusProcess(Protocol):
    """A process of a topology."""

    def ask(
        self, page: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> PageAnswer | None:
        """Send a request and return the response, or None if there was none.

        Raises `ControlError` if access is denied.
        """


class StatusTarget(Protocol):
    """A topology. Its methods raise `ControlError` if it does not exist."""

    def outline(self) -> Outline:
        """Return the outline of the topology. Raises `ControlError` if no process returns one."""

    def processes(self, component: str) -> Sequence[StatusProcess]:
        """Return the current processes of a component."""


def open_target(
    name: str, place: Path | None, namespace: str | None, context: str | None
) -> StatusTarget:
    """Find a topology by name.

    `place` is the folder of a run. Raises the errors of `find_place`.
    """
    found = find_place(name, PlaceChoice(place, namespace=namespace, context=context))
    if isinstance(found, LocalRun):
        return LocalTarget(found.folder, name)
    assert isinstance(found, OnKubernetes)
    return KubernetesTarget(found.open(), name)


class _DirectProcess(NamedTuple):
    url: str

    def ask(
        self, page: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> PageAnswer | None:
        return query_page(self.url, page, query, headers)


class _ProxiedProcess(NamedTuple):
    """Sends requests through the API server, so it works wherever the API server can be reached."""

    cluster: Cluster
    pod: Pod

    def ask(
        self, page: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> PageAnswer | None:
        return self.cluster.question(self.pod, page, query, headers)


class LocalTarget:
    """A topology run by `./run topology` or `./run demo`.

    `place` is the folder of one run or of several.
    """

    def __init__(self, place: Path, name: str) -> None:
        self._place, self._name = place, name

    def outline(self) -> Outline:
        return self._find().topology

    def processes(self, component: str) -> Sequence[StatusProcess]:
        return [
            _DirectProcess(worker.url)
            for worker in self._find().workers
            if worker.component == component
        ]

    def _find(self) -> RunningTopology:
        for each in find(self._place):
            if each.name == self._name:
                return each
        raise ControlError(
            f"no topology {self._name!r} runs from {self._place} ({_names(self._place)})"
        )


class KubernetesTarget:
    """A topology in a namespace.

    In a pod of the cluster, requests go to the topology's pods directly. Elsewhere they go through
    the API server.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self._name = cluster, name

    def outline(self) -> Outline:
        workloads = find_workloads(self._cluster, self._name)
        for workload in workloads:
            for process in map(self._process, self._cluster.pods(workload)):
                answer = process.ask("topology", {}, {})
                found = None if answer is None else parse_outline(answer[1])
                if found is not None:
                    return found
        raise ControlError(
            f"no pod of {self._name!r} returned its wiring: "
            f"see `kstorm topology status {self._name}`"
        )

    def processes(self, component: str) -> Sequence[StatusProcess]:
        workloads = [
            each for each in find_workloads(self._cluster, self._name) if each.id == component
        ]
        return [
            self._process(pod) for workload in workloads for pod in self._cluster.pods(workload)
        ]

    def _process(self, pod: Pod) -> StatusProcess:
        if self._cluster.context or not pod.address:
            return _ProxiedProcess(self._cluster, pod)
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        return _DirectProcess(f"http://{host}:{WEB_PORT}")


def ask_each(processes: Sequence[StatusProcess], page: str) -> Sequence[dict[str, Any] | None]:
    """Request a page from several processes in parallel. The result has None for a missing
    response."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda process: process.ask(page, {}, {}), processes))
    return [None if answer is None else answer[1] for answer in answers]


def _names(place: Path) -> str:
    names = ", ".join(sorted(each.name for each in find(place)))
    return f"running there: {names or 'none'}"
