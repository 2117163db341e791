"""`kstorm kill NAME`: drain a topology on Kubernetes, then stop all its pods.

Storm's `kill` removes a topology. In kstorm, only Helm can remove the objects of a release. So this
command scales every workload to 0, does not delete anything, and prints the remaining steps. It
also removes the mark that the topology is deactivated from ZooKeeper, so that the topology emits
when it is started again.

A ZooKeeper named by the user may belong to another cluster. So the command refuses a topology that
is missing in this ZooKeeper or in Kubernetes. By default it uses the ZooKeeper of an acker's pod.
Before any change, the command prints both targets and asks for confirmation at a terminal.
"""

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from kstorm.cli.activation import ZooKeeper
from kstorm.cli.kill_access import ZooKeeperAccess, open_access
from kstorm.cli.target_options import Context, Name, Namespace
from kstorm.cli.wait_display import on_screen
from kstorm.errors import ControlError, KstormError, OverdueError
from kstorm.operations.kubernetes.cluster import Cluster, open_cluster
from kstorm.operations.kubernetes.topologies import find_topology
from kstorm.operations.kubernetes.workloads import Workload

_END_SECS: Final = 120.0


def kill(
    name: Name,
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECS",
            min=0,
            help="Longest wait for tuples in flight. Default: as long as a tree can be in flight.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    zookeeper: ZooKeeper = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Deactivate a topology, wait for tuples in flight, and scale it to 0. The command deletes
    nothing.
    """
    cluster = open_cluster(namespace, context)
    workloads = find_topology(cluster, name)
    autoscaled = [workload.component for workload in workloads if _is_autoscaled(cluster, workload)]
    with open_access(zookeeper, cluster, workloads) as way:
        print(_where(way, cluster, workloads), flush=True)
        _ask(name, yes)
        _drain(way, wait)
        _stop(way, cluster, workloads)
    print(f"{name} is killed; {_what_is_left(workloads[0], autoscaled)}")


def _is_autoscaled(cluster: Cluster, workload: Workload) -> bool:
    """Return True if a HorizontalPodAutoscaler scales the workload. It ignores a workload at 0.

    Raises `ControlError` if KEDA does, because KEDA would start the workload again.
    """
    scaler = cluster.autoscaler(workload)
    if scaler is not None and scaler.scaled_object:
        raise ControlError(
            f"{workload.component!r} is scaled by {scaler}, which would start it again; nothing "
            "was changed. Pause it first with its annotation autoscaling.keda.sh/paused, or "
            "remove the release with helm uninstall"
        )
    return scaler is not None


def _where(way: ZooKeeperAccess, cluster: Cluster, workloads: Sequence[Workload]) -> str:
    """Describe the topology that is about to be killed, and its clusters."""
    pods = [
        pod.name
        for workload in workloads
        if workload.kind == "spout"
        for pod in cluster.pods(workload)
    ]
    return "\n".join(
        (
            f"{workloads[0].topology}: {', '.join(workload.component for workload in workloads)}",
            f"  Kubernetes: {cluster}; spouts: {', '.join(pods) or 'none'}",
            f"  ZooKeeper: {way.where(pods)}",
        )
    )


def _ask(name: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ControlError(
            f"there is no terminal to ask whether to kill {name!r} there, and nothing was changed: "
            "give --yes to confirm"
        )
    if not typer.confirm(f"Kill {name} there?"):
        print("nothing was changed")
        raise typer.Exit(1)


def _drain(way: ZooKeeperAccess, wait: float | None) -> None:
    """Drain the topology. Messages still in flight after the wait are emitted again at restart."""
    try:
        way.drain(wait)
    except OverdueError as error:
        print(
            f"{error}. It is killed anyway; messages in flight will be emitted again when it is "
            "started again"
        )


def _stop(way: ZooKeeperAccess, cluster: Cluster, workloads: Sequence[Workload]) -> None:
    """Stop the spouts, then everything else, even if the spouts do not end or ZooKeeper fails."""
    spouts = [workload for workload in workloads if workload.kind == "spout"]
    others = [workload for workload in workloads if workload.kind != "spout"]
    _scale(cluster, spouts)
    try:
        _await_end(cluster, spouts)
        way.forget()
    except KstormError:
        _scale(cluster, others)
        raise
    _scale(cluster, others)


def _scale(cluster: Cluster, workloads: Sequence[Workload]) -> None:
    for workload in workloads:
        cluster.scale(workload, 0)
        print(f"{workload.component}: {workload.replicas} → 0", flush=True)


def _await_end(cluster: Cluster, spouts: Sequence[Workload]) -> None:
    def look() -> str:
        pods = [pod.name for workload in spouts for pod in cluster.pods(workload)]
        return f"waiting for {', '.join(pods)} to end" if pods else ""

    if left := on_screen()(look, _END_SECS):
        raise OverdueError(
            f"still {left} after {_END_SECS:.0f} s: {spouts[0].topology!r} stays deactivated. Once "
            "they have ended, kill it again, or activate it"
        )


def _what_is_left(workload: Workload, autoscaled: Sequence[str]) -> str:
    if not workload.release:
        return "its workloads are still there, without pods"
    where = f"{workload.release} --namespace {workload.namespace}"
    told = (
        f"its release is still there, without pods: `helm uninstall {where}` removes it, `helm "
        "upgrade` starts it again"
    )
    # The chart sets no replicas for these, and an autoscaler does nothing at 0.
    if autoscaled:
        pairs = " ".join(f"{component}=1" for component in autoscaled)
        told += f", except autoscaled components: `kstorm scale {workload.topology} {pairs}`"
    return told
