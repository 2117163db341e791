"""The state of a topology on Kubernetes: what its workloads want, and what their pods' `/status` pages say, added up.

Counts begin when a pod starts; those of a pod that was replaced are lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any, Final

import msgspec

from kstorm.cli.cluster import Cluster
from kstorm.cli.workloads import Pod, Workload
from kstorm.errors import ControlError
from kstorm.runtime.service.figures import Figures, last_error

_AT_ONCE: Final = 8

Pages = Sequence[tuple[Pod, Mapping[str, Any] | None]]
"""The pods of a component, each with its `/status`; None if it does not answer."""


class ComponentStatus(msgspec.Struct, frozen=True):
    """What the pods of one component report, added up."""

    component: str
    kind: str
    workload: str
    """`statefulset/wordcount-count`."""
    pods: int
    """That there should be."""
    pods_ready: int
    tasks: int | None
    """None while no pod answers."""
    tasks_assigned: int
    """Tasks that the pods which answer run."""
    emitted: int
    executed: int
    acked: int
    failed: int
    pending: int
    """Of a spout, trees in flight; of a bolt, tuples at work; of an acker, open trees."""
    latency_p50: float | None
    """Seconds, to 30 %: of a spout from emit to ack, of a bolt from a frame's emit to its execution; None if there was none."""
    latency_p99: float | None
    errors: int
    last_error: str
    """Of all pods that run now, its type and its task; empty if there was none."""
    last_error_age: float | None
    """Seconds since then."""
    remarks: Mapping[str, str]
    """By pod: what to know although nothing is wrong, such as that it is deactivated; why it would not hear of it; which open
    transactions its input waits for; and why a spout cannot read its topic."""
    not_ready: Mapping[str, str]
    """By pod: why it does not do its share."""


def look(cluster: Cluster, workloads: Sequence[Workload]) -> Sequence[ComponentStatus]:
    """Asks every pod, some side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        pods = [cluster.pods(workload) for workload in workloads]
        pages = [list(zip(of_it, pool.map(cluster.status, of_it), strict=True)) for of_it in pods]
    return [_status(workload, found) for workload, found in zip(workloads, pages, strict=True)]


def num_tasks(cluster: Cluster, workload: Workload) -> int | None:
    """How many tasks a component has; None if no pod answers, or if this user may not ask them."""
    try:
        pages = [cluster.status(pod) for pod in cluster.pods(workload)]
    except ControlError:
        return None
    return next(
        (int(page["num_tasks"]) for page in pages if page is not None and "num_tasks" in page), None
    )


def _status(workload: Workload, pages: Pages) -> ComponentStatus:
    answers = {pod.name: status for pod, status in pages if status is not None}
    figures = sum((Figures.of(status) for status in answers.values()), Figures())
    error, age = _last_error(answers.values())
    remarks = {name: _remark(status) for name, status in answers.items() if _remark(status)}
    return ComponentStatus(
        component=workload.component,
        kind=workload.kind,
        workload=str(workload),
        pods=workload.replicas,
        pods_ready=sum(pod.ready for pod, _ in pages),
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
        not_ready={pod.name: why for pod, status in pages if (why := _why_not_ready(pod, status))},
    )


def _last_error(answers: Iterable[Mapping[str, Any]]) -> tuple[str, float | None]:
    """The newest, and its age in seconds; services that are older than this command tell no age."""
    errors = [
        (last_error(status), status.get("last_error_age"))
        for status in answers
        if status.get("last_error")
    ]
    return min(errors, key=lambda error: inf if error[1] is None else error[1], default=("", None))


def _remark(status: Mapping[str, Any]) -> str:
    said = ["remark", "control_problem", "input_waits"]
    unread = status.get("unread") and f"reads nothing: {status['unread']}"
    return "; ".join(filter(None, [*map(status.get, said), unread]))


def _why_not_ready(pod: Pod, status: Mapping[str, Any] | None) -> str:
    if status is not None:
        return str(status.get("not_ready", ""))
    return pod.silence
