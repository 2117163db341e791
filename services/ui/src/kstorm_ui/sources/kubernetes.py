"""Topologies on Kubernetes: a namespace's workloads by the chart's labels, and the `/status` of
their pods."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kstorm.errors import AbsentError, ControlError
from kstorm.introspection.outline import Outline, parse_outline
from kstorm.operations.kubernetes.cluster import WEB_PORT, Cluster
from kstorm.operations.kubernetes.workloads import Pod, Workload
from kstorm.runtime.status_client import fetch_page
from kstorm_ui.sources.process_logs import MOST_LINES, LogLife, last_of
from kstorm_ui.sources.report import ComponentReport, ProcessReport, TopologyReport

_AT_ONCE: Final = 16
_MOST_FETCHED: Final = 16_000_000
"""Maximum number of bytes of a log, because lines may be long."""


class KubernetesSource:
    """One namespace.

    It needs the verb list on deployments, statefulsets and pods. Logs need get on pods/log. From
    outside the cluster it also needs get on pods/proxy. With `inside`, it queries pods by their
    addresses, which needs neither that right nor a NetworkPolicy that admits the API server.
    """

    def __init__(self, cluster: Cluster, *, inside: bool) -> None:
        self.cluster, self._inside = cluster, inside
        self._told: dict[str, tuple[str, object, Outline]] = {}
        """By topology: the outline, and the name and start time of the process that reported it."""
        self._pods: dict[str, Mapping[str, Pod]] = {}
        """Pods by topology and name, from the last poll."""

    def __str__(self) -> str:
        return str(self.cluster)

    def log(self, topology: str, process: str) -> Sequence[LogLife]:
        """Fetch the log from the API server. Needs the verb get on pods/log."""
        pod = self._pods.get(topology, {}).get(process)
        if pod is None:
            raise AbsentError(f"the pod {process} of {topology} does not exist any more")
        found = [self._life(pod, previous=False)]
        if pod.restarts:
            found.append(self._life(pod, previous=True))
        if all(each.problem for each in found):
            raise ControlError(found[0].problem)
        return found

    def _life(self, pod: Pod, *, previous: bool) -> LogLife:
        name = f"before restart {pod.restarts}" if previous else "current container"
        try:
            lines = self.cluster.logs(
                pod, False, MOST_LINES + 1, previous=previous, most_bytes=_MOST_FETCHED
            )
            return last_of(name, lines)
        except ControlError as error:
            return LogLife(name, [], False, str(error))

    def look(self) -> Sequence[TopologyReport]:
        """Query the pods, some in parallel. Raises `ControlError` if Kubernetes does not respond."""
        by_topology: dict[str, list[Workload]] = {}
        for workload in self.cluster.workloads():
            by_topology.setdefault(workload.topology, []).append(workload)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [self._report(name, found, pool) for name, found in by_topology.items()]

    def _report(
        self, name: str, workloads: Sequence[Workload], pool: ThreadPoolExecutor
    ) -> TopologyReport:
        pods = [(workload, pod) for workload in workloads for pod in self.cluster.pods(workload)]
        self._pods[name] = {pod.name: pod for _, pod in pods}
        pages = pool.map(self._page, (pod for _, pod in pods))
        processes = [
            _process(workload, pod, page) for (workload, pod), page in zip(pods, pages, strict=True)
        ]
        components = [
            ComponentReport(each.id, each.kind, each.replicas, each.image, each.revision)
            for each in workloads
        ]
        outline = self._outline(
            name, {pod: each.status for (_, pod), each in zip(pods, processes, strict=True)}
        )
        return TopologyReport(
            name, f"namespace {self.cluster.namespace}", components, processes, outline
        )

    def _outline(
        self, name: str, statuses: Mapping[Pod, Mapping[str, object] | None]
    ) -> Outline | None:
        """Query the outline once. Query it again if the process that reported it is gone, because
        the code may have changed."""
        lives = {
            pod: (pod.name, status.get("begun_at"))
            for pod, status in statuses.items()
            if status is not None
        }
        told = self._told.get(name)
        if told is not None and (told[:2] in lives.values() or not lives):
            return told[2]
        for pod, life in lives.items():
            page = self._page(pod, "topology")
            found = None if page is None else parse_outline(page)
            if found is not None:
                self._told[name] = *life, found
            return found
        return None

    def _page(self, pod: Pod, page: str = "status") -> Mapping[str, object] | None:
        if not self._inside:
            return self.cluster.page(pod, page)
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        return fetch_page(f"http://{host}:{WEB_PORT}", page) if host else None


def _process(workload: Workload, pod: Pod, page: Mapping[str, object] | None) -> ProcessReport:
    trouble = "" if page is not None else pod.silence
    return ProcessReport(pod.name, workload.id, page, trouble, pod.node, pod.since)
