"""Check whether numbers of pods may be changed."""

from collections.abc import Iterable, Mapping, Sequence

from kstorm.errors import ControlError
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.component_status import num_tasks
from kstorm.operations.kubernetes.topologies import find_component, find_topology
from kstorm.operations.kubernetes.workloads import Workload


def changes(cluster: Cluster, name: str, wanted: Mapping[str, int]) -> Mapping[Workload, int]:
    """Return the named components' workloads and their new numbers of pods.

    Raises `ControlError` if a component must not be scaled, or if no component is named.
    """
    chosen = chosen_workloads(find_topology(cluster, name), name, wanted)
    check_scalable(cluster, chosen)
    return chosen


def scaled(workload: Workload, pods: int) -> str:
    """Describe the change."""
    return f"{workload.component}: {workload.replicas} → {pods}"


def chosen_workloads(
    found: Sequence[Workload], name: str, wanted: Mapping[str, int]
) -> Mapping[Workload, int]:
    if not wanted:
        names = ", ".join(workload.component for workload in found)
        raise ControlError(
            f"{name}: which components? Give COMPONENT=PODS, such as split=4, for some of {names}"
        )
    return {find_component(found, id): pods for id, pods in wanted.items()}


def check_scalable(cluster: Cluster, chosen: Iterable[Workload]) -> None:
    for workload in chosen:
        _check_not_autoscaled(cluster, workload)


def _check_not_autoscaled(cluster: Cluster, workload: Workload) -> None:
    """Raise `ControlError` if an autoscaler would undo the change.

    A HorizontalPodAutoscaler ignores a workload at 0, for example after `kill`. In that case
    scaling is allowed.
    """
    scaler = cluster.autoscaler(workload)
    if scaler is not None and (workload.replicas or scaler.scaled_object):
        raise ControlError(
            f"{workload.component!r} is scaled by {scaler}, which would undo the change; nothing "
            "was changed. Change its bounds in the chart's values, or turn it off there"
        )


def warning_of(cluster: Cluster, workload: Workload, pods: int) -> str:
    """Return a warning about a new number of pods, or "" if there is none."""
    if pods == 0:
        return f"{workload.component!r} will have no pod: its tuples will wait, or time out"
    tasks = num_tasks(cluster, workload)
    if tasks is not None and pods > tasks:
        surplus = pods - tasks
        stand = f"{surplus} pods stand" if surplus > 1 else "1 pod stands"
        return f"{workload.component!r} has {tasks} tasks: {stand} by until another dies"
    return ""
