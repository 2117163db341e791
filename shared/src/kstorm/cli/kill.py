"""`kstorm kill NAME`: drains a topology on Kubernetes, and then stops all its pods.

Storm's `kill` removes a topology. What a Helm release installed is Helm's to remove, so this scales every workload to
0, deletes nothing, and says what is left to do. It also removes the mark in ZooKeeper that the topology is deactivated,
so that it emits when it is started again.

Cluster and ZooKeeper are named apart, so one may be another's: a topology that either does not know is refused, and before anything
is done both are said, and a person at a terminal is asked.
"""

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console

from kstorm.cli import draining
from kstorm.cli.activation import ZooKeeper, open_zookeeper
from kstorm.cli.cluster import Cluster, open_cluster
from kstorm.cli.finding import Context, Name, Namespace, find
from kstorm.cli.waiting import wait_until
from kstorm.cli.workloads import Workload
from kstorm.errors import ConfigError, ControlError
from kstorm.runtime.zookeeper.topologies import Topologies

_END_SECS: Final = 120.0


def kill(
    name: Name,
    wait: Annotated[
        float | None,
        typer.Option(metavar="SECS", min=0, help="Longest wait for what is in flight; else as long as it may be."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    zookeeper: ZooKeeper = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Deactivates a topology, waits for what is in flight, and scales all of it to 0. Nothing is deleted."""
    cluster = open_cluster(namespace, context)
    workloads = find(cluster, name)
    autoscaled = [workload.component for workload in workloads if _is_autoscaled(cluster, workload)]
    with open_zookeeper(zookeeper) as topologies:
        _check_known(topologies, cluster, name)
        print(_where(topologies, cluster, workloads), flush=True)
        _ask(name, yes)
        _drain(topologies, name, wait)
        for workload in workloads:
            cluster.scale(workload, 0)
            print(f"{workload.component}: {workload.replicas} → 0")
        _forget(topologies, cluster, workloads)
    print(f"{name} is killed; {_what_is_left(workloads[0], autoscaled)}")


def _is_autoscaled(cluster: Cluster, workload: Workload) -> bool:
    """A HorizontalPodAutoscaler leaves alone what was scaled to 0; KEDA does not, so that is a `ControlError`."""
    scaler = cluster.autoscaler(workload)
    if scaler is not None and scaler.scaled_object:
        raise ControlError(
            f"{workload.component!r} is scaled by {scaler}, which would start it again; nothing was changed. Pause it before, by "
            "its annotation autoscaling.keda.sh/paused, or remove the release by helm uninstall"
        )
    return scaler is not None


def _check_known(topologies: Topologies, cluster: Cluster, name: str) -> None:
    """A ZooKeeper that has never heard of it is another one's, or its spouts have never run."""
    try:
        topologies.check(name)
    except ConfigError as error:
        raise ConfigError(
            f"{error}. Nothing was changed. Give the ZooKeeper of the topology in {_of(cluster)} by --zookeeper; if its spouts "
            "have never run, there is nothing to drain, and `kstorm scale` or `helm uninstall` is enough"
        ) from None


def _of(cluster: Cluster) -> str:
    context = f"the context {cluster.context}" if cluster.context else "the cluster of this pod"
    return f"{context}, namespace {cluster.namespace}"


def _where(topologies: Topologies, cluster: Cluster, workloads: Sequence[Workload]) -> str:
    """What is killed and where. A spout's process has the name of its pod in ZooKeeper: where none is known to both, two
    deployments bear one name, and that is a `ControlError`."""
    pods = [pod.name for workload in workloads if workload.kind == "spout" for pod in cluster.pods(workload)]
    nodes = [spout.instance for spout in topologies.spouts(workloads[0].topology)]
    if pods and nodes and not {*pods} & {*nodes}:
        raise ControlError(
            f"{workloads[0].topology!r} is another deployment in ZooKeeper at {topologies.connect}, with the spouts "
            f"{', '.join(nodes)}, than in {_of(cluster)}, with {', '.join(pods)}. Nothing was changed; "
            "give the ZooKeeper of these pods by --zookeeper"
        )
    return "\n".join(
        (
            f"{workloads[0].topology}: {', '.join(workload.component for workload in workloads)}",
            f"  Kubernetes: {_of(cluster)}; spouts: {', '.join(pods) or 'none'}",
            f"  ZooKeeper: {topologies.connect}; spouts: {', '.join(nodes) or 'none'}",
        )
    )


def _ask(name: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ControlError(
            f"nobody can be asked whether to kill {name!r} there, and nothing was changed: give --yes if that is right"
        )
    if not typer.confirm(f"Kill {name} there?"):
        print("nothing was changed")
        raise typer.Exit(1)


def _drain(topologies: Topologies, name: str, wait: float | None) -> None:
    """What is still in flight after the wait is not lost: it is emitted again when the topology is started again."""
    try:
        spouts = draining.drain(topologies, name, wait, Console())
    except ControlError as error:
        print(f"{error}. It is killed all the same; what was in flight is emitted again when it is started again")
    else:
        print(f"{name} is drained: {draining.processes(spouts)}, nothing in flight{draining.waiting(spouts)}")


def _forget(topologies: Topologies, cluster: Cluster, workloads: Sequence[Workload]) -> None:
    """Not before the last spout has ended: it would hear that it may emit."""
    spouts = [workload for workload in workloads if workload.kind == "spout"]
    name = workloads[0].topology

    def look() -> str:
        pods = [pod.name for workload in spouts for pod in cluster.pods(workload)]
        nodes = [spout.instance for spout in topologies.spouts(name)]
        return f"waiting for {', '.join(sorted({*pods, *nodes}))} to end" if pods or nodes else ""

    if left := wait_until(look, _END_SECS, Console()):
        raise ControlError(
            f"{left}, after {_END_SECS:.0f} s: {name!r} stays deactivated. When it has ended, kill it again, or activate it"
        )
    topologies.forget(name)


def _what_is_left(workload: Workload, autoscaled: Sequence[str]) -> str:
    if not workload.release:
        return "its workloads are still there, without pods"
    where = f"{workload.release} --namespace {workload.namespace}"
    told = (
        f"its release is still there, without pods: `helm uninstall {where}` removes it, `helm upgrade` starts it again"
    )
    if autoscaled:  # the chart writes no number for those, and their autoscaler does nothing at 0
        pairs = " ".join(f"{component}=1" for component in autoscaled)
        told += f" but for what is scaled by itself: `kstorm scale {workload.topology} {pairs}`"
    return told
