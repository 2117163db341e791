"""Status of a topology: its workloads on Kubernetes or its processes on this machine, and the sums
of their `/status`.

Counters start at 0 when a pod starts. The counters of a replaced pod are lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any, Final

import msgspec

from kstorm.errors import ControlError
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.workloads import Pod, Workload
from kstorm.runtime.local_silence import why_silent
from kstorm.runtime.run_files import RunningTopology
from kstorm.runtime.service.status_counters import StatusCounters, last_error
from kstorm.runtime.status_client import fetch_status_of_all

_AT_ONCE: Final = 8

StatusPages = Sequence[tuple[Pod, Mapping[str, Any] | None]]
"""Pods of a component with their `/status`. None for a pod that does not respond."""


class ComponentStatus(msgspec.Struct, frozen=True):
    """Status of one component, summed over its pods."""

    component: str
    kind: str
    workload: str
    """Type and name, such as `statefulset/wordcount-count`. Empty on this machine."""
    pods: int
    """Desired number of pods, or of processes on this machine."""
    pods_ready: int
    tasks: int | None
    """None while no pod responds."""
    tasks_assigned: int
    """Tasks that run in the responding pods."""
    emitted: int
    executed: int
    acked: int
    failed: int
    pending: int
    """Trees in flight of a spout, tuples in progress of a bolt, open trees of an acker."""
    latency_p50: float | None
    """Median latency in seconds, accurate to 30 %. None if nothing was measured.

    For a spout, the time from emit to ack. For a bolt, the time from a frame's emit to its
    execution.
    """
    latency_p99: float | None
    errors: int
    last_error: str
    """Type and task of the latest error in the current pods. Empty if no pod has reported an error."""
    last_error_age: float | None
    """Seconds since the last error."""
    remarks: Mapping[str, str]
    """Remarks by pod that do not count as failures.

    Examples are a deactivated topology, an ignored control node, an input that waits for an open
    transaction, and a spout that cannot read its topic.
    """
    not_ready: Mapping[str, str]
    """The reason why a pod is not ready, by pod."""
    kafka_away_since: float | None = None
    """Unix time since which its pods have not reached Kafka. None if Kafka responds."""


def component_statuses(
    cluster: Cluster, workloads: Sequence[Workload]
) -> Sequence[ComponentStatus]:
    """Request the status of every pod, several at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        pods = list(pool.map(cluster.pods, workloads))
        asked = [[(pod, pool.submit(cluster.status, pod)) for pod in of_it] for of_it in pods]
    pages = [[(pod, page.result()) for pod, page in of_it] for of_it in asked]
    return [_of_workload(workload, found) for workload, found in zip(workloads, pages, strict=True)]


def local_statuses(run: RunningTopology) -> Sequence[ComponentStatus]:
    """Request the status of every process of a run on this machine."""
    pages = fetch_status_of_all([worker.url for worker in run.workers])
    found = []
    for component, (kind, wanted) in run.wanted_by_component.items():
        of_it = {
            worker.name: page
            for worker, page in zip(run.workers, pages, strict=True)
            if worker.component == component
        }
        not_ready = {
            worker.name: str(page.get("not_ready", ""))
            if (page := of_it[worker.name]) is not None
            else why_silent(run, worker)
            for worker in run.workers
            if worker.component == component
        }
        not_ready = {name: why for name, why in not_ready.items() if why}
        found.append(
            _status(
                component,
                kind,
                "",
                (wanted, len(of_it) - len(not_ready)),
                {name: page for name, page in of_it.items() if page is not None},
                not_ready,
            )
        )
    return found


def num_tasks(cluster: Cluster, workload: Workload) -> int | None:
    """Return a component's number of tasks.

    None if no pod responds or the user may not connect to pods.
    """
    try:
        pages = [cluster.status(pod) for pod in cluster.pods(workload)]
    except ControlError:
        return None
    return next(
        (int(page["num_tasks"]) for page in pages if page is not None and "num_tasks" in page), None
    )


def _of_workload(workload: Workload, pages: StatusPages) -> ComponentStatus:
    return _status(
        workload.component,
        workload.kind,
        str(workload),
        (workload.replicas, sum(pod.ready for pod, _ in pages)),
        {pod.name: status for pod, status in pages if status is not None},
        {pod.name: why for pod, status in pages if (why := _why_not_ready(pod, status))},
    )


def _status(
    component: str,
    kind: str,
    workload: str,
    pods: tuple[int, int],
    answers: Mapping[str, Mapping[str, Any]],
    not_ready: Mapping[str, str],
) -> ComponentStatus:
    """Sum the answers of a component's processes. `pods` contains the wanted and the ready ones."""
    figures = sum((StatusCounters.of(status) for status in answers.values()), StatusCounters())
    error, age = _last_error(answers.values())
    remarks = {name: _remark(status) for name, status in answers.items() if _remark(status)}
    return ComponentStatus(
        component=component,
        kind=kind,
        workload=workload,
        pods=pods[0],
        pods_ready=pods[1],
        tasks=next(
            (status["num_tasks"] for status in answers.values() if "num_tasks" in status), None
        ),
        tasks_assigned=sum(len(status.get("tasks", ())) for status in answers.values()),
        emitted=figures.emitted,
        executed=figures.executed,
        acked=figures.acked,
        failed=figures.failed,
        pending=figures.pending,
        latency_p50=figures.latency(0.5),
        latency_p99=figures.latency(0.99),
        errors=figures.errors,
        last_error=error,
        last_error_age=age,
        remarks=remarks,
        not_ready=not_ready,
        kafka_away_since=min(
            (
                float(page["kafka_away_since"])
                for page in answers.values()
                if "kafka_away_since" in page
            ),
            default=None,
        ),
    )


def _last_error(answers: Iterable[Mapping[str, Any]]) -> tuple[str, float | None]:
    """Return the newest error and its age in seconds. Older services do not report the age, so it
    may be None."""
    errors = [
        (last_error(status), status.get("last_error_age"))
        for status in answers
        if status.get("last_error")
    ]
    return min(errors, key=lambda error: inf if error[1] is None else error[1], default=("", None))


def _remark(status: Mapping[str, Any]) -> str:
    said = ["remark", "control_problem", "input_waits", "recovered"]
    unread = status.get("unread") and f"reads nothing: {status['unread']}"
    return "; ".join(filter(None, [*map(status.get, said), unread]))


def _why_not_ready(pod: Pod, status: Mapping[str, Any] | None) -> str:
    if status is not None:
        return str(status.get("not_ready", ""))
    return pod.silence
