"""Stop a topology on Kubernetes: drain it, scale its workloads to 0, and forget it in ZooKeeper.

ZooKeeper is one that the user names, or that of an acker's pod. The acker is stopped last, so its
pod is still there after the spouts have ended.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kstorm.errors import ConfigError, ControlError, KstormError, OverdueError
from kstorm.operations.control import activation
from kstorm.operations.control.activation import Wait, timeout_option
from kstorm.operations.events.audit_log import recorded
from kstorm.operations.events.operator_identity import operator
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.runtime.zookeeper.topology_nodes import Topologies

_END_SECS: Final = 120.0


class ZooKeeperAccess(Protocol):
    """Access to a topology's ZooKeeper."""

    def where(self, pods: Sequence[str]) -> str:
        """Describe the ZooKeeper.

        `pods` are the spouts' pods in the cluster. Raises `ControlError` if ZooKeeper has others.
        """

    def drain(self, secs: float | None) -> str:
        """Drain the topology and return the result, or "" if the pod prints it.

        Raises `OverdueError` if something is still in flight after `secs`.
        """

    def forget(self) -> None:
        """Remove the topology once its spouts have ended."""


class DirectAccess:
    """Access to the ZooKeeper that the user names.

    Raises `ConfigError` if it does not know the topology.
    """

    def __init__(self, topologies: Topologies, cluster: Cluster, name: str, wait: Wait) -> None:
        self._topologies, self._cluster, self._name, self._wait = topologies, cluster, name, wait
        _check_known(topologies, cluster, name)

    def where(self, pods: Sequence[str]) -> str:
        nodes = [spout.instance for spout in self._topologies.spouts(self._name)]
        # ZooKeeper has each spout process by the name of its pod. Without a common name, these are
        # two deployments of the same name.
        if pods and nodes and not {*pods} & {*nodes}:
            raise ControlError(
                f"{self._name!r} in ZooKeeper at {self._topologies.connect}, with the spouts "
                f"{', '.join(nodes)}, is not the deployment in {self._cluster}, with the spouts "
                f"{', '.join(pods)}. Nothing was changed; give the ZooKeeper of these pods with "
                "--zookeeper"
            )
        return f"{self._topologies.connect}; spouts: {', '.join(nodes) or 'none'}"

    def drain(self, secs: float | None) -> str:
        with recorded(self._name, "drain"):
            return activation.drain(self._topologies, self._name, secs, operator(), self._wait)

    def forget(self) -> None:
        with recorded(self._name, "kill"):
            activation.forget(self._topologies, self._name, self._wait)


class PodAccess:
    """Uses the pod's own ZooKeeper, so there is nothing to compare."""

    def __init__(self, pod: PodCommand, name: str) -> None:
        self._pod, self._name = pod, name

    def where(self, pods: Sequence[str]) -> str:
        return f"that of {self._pod}"

    def drain(self, secs: float | None) -> str:
        code = self._pod.run("drain", *timeout_option(secs), "--", self._name)
        if code == OverdueError.exit_code:
            raise OverdueError(f"{self._name!r} is not drained")
        if code:
            raise ConfigError(
                f"{self._pod} could not drain {self._name!r}, for the reason above; nothing was "
                "scaled"
            )
        return ""

    def forget(self) -> None:
        if self._pod.run("forget", "--", self._name):
            raise ControlError(
                f"{self._name!r} stays deactivated, because of the error of {self._pod} above: "
                "activate it once it is started again"
            )


def _check_known(topologies: Topologies, cluster: Cluster, name: str) -> None:
    """Raise `ConfigError` if the topology is unknown.

    Either it is another cluster's ZooKeeper, or the topology's spouts have never run.
    """
    try:
        topologies.check(name)
    except ConfigError as error:
        raise ConfigError(
            f"{error}. Nothing was changed. Give the ZooKeeper of the topology in {cluster} with "
            "--zookeeper; if its spouts have never run, there is nothing to drain, and `kstorm "
            "scale` or `helm uninstall` is enough"
        ) from None


def autoscaled(cluster: Cluster, workloads: Sequence[Workload]) -> list[str]:
    """Return the components that a HorizontalPodAutoscaler scales: it ignores workloads at 0.

    Raises `ControlError` for KEDA, which would start the workload again.
    """
    found = []
    for workload in workloads:
        scaler = cluster.autoscaler(workload)
        if scaler is not None and scaler.scaled_object:
            raise ControlError(
                f"{workload.component!r} is scaled by {scaler}, which would start it again; "
                "nothing was changed. Pause it first with its annotation "
                "autoscaling.keda.sh/paused, or remove the release with helm uninstall"
            )
        if scaler is not None:
            found.append(workload.component)
    return found


def describe_target(
    access: ZooKeeperAccess, cluster: Cluster, workloads: Sequence[Workload]
) -> str:
    """Describe what is about to be killed, and where.

    Raises `ControlError` if ZooKeeper and Kubernetes have different deployments of the name.
    """
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
            f"  ZooKeeper: {access.where(pods)}",
        )
    )


def drain(access: ZooKeeperAccess, secs: float | None) -> str:
    """Drain the topology and return the result.

    Messages still in flight after `secs` are emitted again at restart.
    """
    try:
        return access.drain(secs)
    except OverdueError as error:
        return (
            f"{error}. It is killed anyway; messages in flight will be emitted again when it is "
            "started again"
        )


def stop(
    access: ZooKeeperAccess,
    cluster: Cluster,
    workloads: Sequence[Workload],
    wait: Wait,
    report: Callable[[str], None],
) -> None:
    """Stop the spouts, then everything else, even if the spouts do not end or ZooKeeper fails.

    `report` receives each change.
    """
    spouts = [workload for workload in workloads if workload.kind == "spout"]
    others = [workload for workload in workloads if workload.kind != "spout"]
    _scale_to_zero(cluster, spouts, report)
    try:
        _await_end(cluster, spouts, wait)
        access.forget()
    except KstormError:
        _scale_to_zero(cluster, others, report)
        raise
    _scale_to_zero(cluster, others, report)


def _scale_to_zero(
    cluster: Cluster, workloads: Sequence[Workload], report: Callable[[str], None]
) -> None:
    for workload in workloads:
        cluster.scale(workload, 0)
        report(f"{workload.component}: {workload.replicas} → 0")


def _await_end(cluster: Cluster, spouts: Sequence[Workload], wait: Wait) -> None:
    def look() -> str:
        pods = [pod.name for workload in spouts for pod in cluster.pods(workload)]
        return f"waiting for {', '.join(pods)} to end" if pods else ""

    if left := wait(look, _END_SECS):
        raise OverdueError(
            f"still {left} after {_END_SECS:.0f} s: {spouts[0].topology!r} stays deactivated. Once "
            "they have ended, kill it again, or activate it"
        )


def describe_remains(workload: Workload, autoscaled: Sequence[str]) -> str:
    """Describe what Helm has to remove, and how to start the topology again."""
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
