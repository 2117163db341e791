"""`kstorm scale` and `kstorm restart`: change the number of pods, and replace pods.

    kstorm scale wordcount split=4 count=2
    kstorm restart wordcount split

Kafka's consumer groups move the tasks. The next `helm upgrade` restores Helm's numbers.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from kstorm.cli.target_options import (
    Context,
    Name,
    Namespace,
    find_component,
    find_components,
    find_topology,
)
from kstorm.errors import ControlError
from kstorm.operations.events.remote_audit_log import recorded_by_pod
from kstorm.operations.kubernetes.cluster import Cluster, open_cluster
from kstorm.operations.kubernetes.component_status import num_tasks
from kstorm.operations.kubernetes.workloads import Workload


def scale(
    name: Name,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMPONENT=PODS…", help="New number of pods of each component."),
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Change the number of pods of all the named components, or of none."""
    cluster = open_cluster(namespace, context)
    wanted = dict(map(_pair, pairs or []))
    found = _chosen(find_topology(cluster, name), name, wanted)
    done = list[str]()
    with recorded_by_pod(
        cluster, name, "scale", " ".join(f"{id}={pods}" for id, pods in wanted.items())
    ) as told:
        _check(cluster, found)
        for workload, pods in found.items():
            _warn(cluster, workload, pods)
            cluster.scale(workload, pods)
            done.append(scaled(workload, pods))
            print(done[-1])
        told.outcome = ", ".join(done)


def changes(cluster: Cluster, name: str, wanted: Mapping[str, int]) -> Mapping[Workload, int]:
    """Return the named components' workloads and their new numbers of pods.

    Raises `ControlError` if a component must not be scaled or none is named.
    """
    chosen = _chosen(find_topology(cluster, name), name, wanted)
    _check(cluster, chosen)
    return chosen


def scaled(workload: Workload, pods: int) -> str:
    """Describe the change."""
    return f"{workload.component}: {workload.replicas} → {pods}"


def restart(
    name: Name,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[COMPONENT…]", help="Components. Default: all.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Replace the pods of a topology or of some components one by one, without losing messages."""
    cluster = open_cluster(namespace, context)
    for workload in find_components(find_topology(cluster, name), names or []):
        cluster.restart(workload)
        print(f"{workload.component}: {workload} restarts")


def _pair(text: str) -> tuple[str, int]:
    if not re.fullmatch("[^=]+=[0-9]{1,5}", text):
        raise ControlError(f"{text}: give COMPONENT=PODS, such as split=4")
    component, _, pods = text.partition("=")
    return component, int(pods)


def _chosen(
    found: Sequence[Workload], name: str, wanted: Mapping[str, int]
) -> Mapping[Workload, int]:
    if not wanted:
        names = ", ".join(workload.component for workload in found)
        raise ControlError(
            f"{name}: which components? Give COMPONENT=PODS, such as split=4, for some of {names}"
        )
    return {find_component(found, id): pods for id, pods in wanted.items()}


def _check(cluster: Cluster, chosen: Iterable[Workload]) -> None:
    for workload in chosen:
        _check_nobody_else_scales(cluster, workload)


def _check_nobody_else_scales(cluster: Cluster, workload: Workload) -> None:
    """Raise `ControlError` if an autoscaler would undo the change.

    A HorizontalPodAutoscaler ignores a workload at 0, for example after `kill`. Then scaling it is
    allowed.
    """
    scaler = cluster.autoscaler(workload)
    if scaler is not None and (workload.replicas or scaler.scaled_object):
        raise ControlError(
            f"{workload.component!r} is scaled by {scaler}, which would undo the change; nothing "
            "was changed. Change its bounds in the chart's values, or turn it off there"
        )


def _warn(cluster: Cluster, workload: Workload, pods: int) -> None:
    if pods == 0:
        print(
            f"kstorm: {workload.component!r} will have no pod: its tuples will wait, or time out",
            file=sys.stderr,
        )
        return
    tasks = num_tasks(cluster, workload)
    if tasks is not None and pods > tasks:
        surplus = pods - tasks
        stand = f"{surplus} pods stand" if surplus > 1 else "1 pod stands"
        print(
            f"kstorm: {workload.component!r} has {tasks} tasks: {stand} by until another dies",
            file=sys.stderr,
        )
