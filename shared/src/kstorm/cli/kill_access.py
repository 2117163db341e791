"""ZooKeeper access of `kstorm kill`: through a ZooKeeper named by the user, or an acker's pod.

`kill` stops the acker last, so its pod still exists after the spouts have ended.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from kstorm.cli.activation import open_zookeeper
from kstorm.cli.pod_choice import names_zookeeper
from kstorm.cli.wait_display import on_screen
from kstorm.errors import ConfigError, ControlError, OverdueError
from kstorm.operations.control import activation
from kstorm.operations.control.activation import timeout_option
from kstorm.operations.events.audit_log import recorded
from kstorm.operations.events.operator_identity import operator
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.pod_command import OVERDUE, PodCommand
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.runtime.zookeeper.topologies import Topologies


class ZooKeeperAccess(Protocol):
    """Access to a topology's ZooKeeper."""

    def where(self, pods: Sequence[str]) -> str:
        """Describe the ZooKeeper.

        `pods` are the spouts' pods in the cluster. Raises `ControlError` if other spouts are
        registered in ZooKeeper.
        """

    def drain(self, wait: float | None) -> None:
        """Drain the topology and print the result.

        Raises `OverdueError` if something is still in flight after `wait` seconds.
        """

    def forget(self) -> None:
        """Remove the topology once its spouts have ended."""


@contextmanager
def open_access(
    zookeeper: str | None, cluster: Cluster, workloads: Sequence[Workload]
) -> Iterator[ZooKeeperAccess]:
    """Open the topology's ZooKeeper.

    Raises `ConfigError` if a ZooKeeper named by the user does not know the topology. Raises
    `ControlError` if no pod is available.
    """
    name = workloads[0].topology
    if not names_zookeeper(zookeeper):
        yield _PodAccess(PodCommand(cluster, workloads, "acker"), name)
        return
    with open_zookeeper(zookeeper) as topologies:
        _check_known(topologies, cluster, name)
        yield _DirectAccess(topologies, cluster, name)


class _DirectAccess:
    def __init__(self, topologies: Topologies, cluster: Cluster, name: str) -> None:
        self._topologies, self._cluster, self._name = topologies, cluster, name

    def where(self, pods: Sequence[str]) -> str:
        nodes = [spout.instance for spout in self._topologies.spouts(self._name)]
        # ZooKeeper registers each spout process under the name of its pod. If no name occurs in
        # both, there are two deployments with the same topology name.
        if pods and nodes and not {*pods} & {*nodes}:
            raise ControlError(
                f"{self._name!r} in ZooKeeper at {self._topologies.connect}, with the spouts "
                f"{', '.join(nodes)}, is not the deployment in {self._cluster}, with the spouts "
                f"{', '.join(pods)}. Nothing was changed; give the ZooKeeper of these pods with "
                "--zookeeper"
            )
        return f"{self._topologies.connect}; spouts: {', '.join(nodes) or 'none'}"

    def drain(self, wait: float | None) -> None:
        with recorded(self._name, "drain"):
            said = activation.drain(self._topologies, self._name, wait, operator(), on_screen())
        print(said)

    def forget(self) -> None:
        with recorded(self._name, "kill"):
            activation.forget(self._topologies, self._name, on_screen())


class _PodAccess:
    """Uses the pod's own ZooKeeper, which cannot be the wrong one."""

    def __init__(self, pod: PodCommand, name: str) -> None:
        self._pod, self._name = pod, name

    def where(self, pods: Sequence[str]) -> str:
        return f"that of {self._pod}"

    def drain(self, wait: float | None) -> None:
        code = self._pod.run("drain", *timeout_option(wait), "--", self._name)
        if code == OVERDUE:
            raise OverdueError(f"{self._name!r} is not drained")
        if code:
            raise ConfigError(
                f"{self._pod} could not drain {self._name!r}, for the reason above; nothing was "
                "scaled"
            )

    def forget(self) -> None:
        if self._pod.run("forget", "--", self._name):
            raise ControlError(
                f"{self._name!r} stays deactivated, because of the error of {self._pod} above: "
                "activate it once it is started again"
            )


def _check_known(topologies: Topologies, cluster: Cluster, name: str) -> None:
    """Raise `ConfigError` if the topology is unknown.

    A topology is unknown if the ZooKeeper belongs to another cluster, or if its spouts have never
    run.
    """
    try:
        topologies.check(name)
    except ConfigError as error:
        raise ConfigError(
            f"{error}. Nothing was changed. Give the ZooKeeper of the topology in {cluster} with "
            "--zookeeper; if its spouts have never run, there is nothing to drain, and `kstorm "
            "scale` or `helm uninstall` is enough"
        ) from None
