"""Choose where a command runs that needs ZooKeeper and Kafka: here, or in a pod of the topology.

In many clusters only a pod can reach ZooKeeper and Kafka. A command runs here if `--zookeeper` or
KSTORM_ZOOKEEPER names a ZooKeeper, which the chart sets in every pod. Otherwise it runs in a pod if
there is a kubeconfig. Addresses, credentials and code stay in the pod. Only the command is sent,
and only its output comes back. So confirmations are asked here, and no files are used there.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO

import typer

from kstorm.cli.target_options import find_topology
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.events.operator_identity import VARIABLE, operator
from kstorm.operations.kubernetes.cluster import Cluster, is_named, open_cluster
from kstorm.operations.kubernetes.workloads import Pod, Workload

OVERDUE: Final = 3
"""Exit code of an `OverdueError`."""
_NO_COMMAND: Final = 127
_INTERRUPTED: Final = 130
_ZOOKEEPER: Final = "KSTORM_ZOOKEEPER"


def run_in_pod(
    name: str,
    zookeeper: str | None,
    namespace: str | None,
    context: str | None,
    command: Sequence[str],
) -> None:
    """Run `kstorm COMMAND NAME` in a pod of the topology and exit with its code.

    Returns if the command is to run here.
    """
    if not _is_far(zookeeper, namespace, context):
        return
    cluster = open_cluster(namespace, context)
    workloads = find_or_hint(cluster, name)
    raise typer.Exit(PodCommand(cluster, workloads, "spout", "acker").run(*command, "--", name))


def find_or_hint(cluster: Cluster, name: str) -> Sequence[Workload]:
    """Like `find`, with a hint in the error for topologies outside Kubernetes."""
    try:
        return find_topology(cluster, name)
    except ControlError as error:
        raise ControlError(
            f"{error}. For a topology outside Kubernetes, give --zookeeper HOST:PORT"
        ) from None


def names_zookeeper(zookeeper: str | None) -> bool:
    """Return True if an option or the environment names a ZooKeeper to connect to directly."""
    return zookeeper is not None or _ZOOKEEPER in os.environ


class PodCommand:
    """A ready pod of a topology with the `kstorm` command, such as those of spouts and ackers.

    The constructor raises `ControlError` with a remedy if no pod is ready.
    """

    def __init__(self, cluster: Cluster, workloads: Sequence[Workload], *kinds: str) -> None:
        self._cluster = cluster
        self._workload, self._pod = _ready(cluster, workloads, kinds)

    def __str__(self) -> str:
        return f"the pod {self._pod.namespace}/{self._pod.name}"

    def run(
        self,
        *words: str,
        given: bytes | None = None,
        out: TextIO | None = None,
        errors: TextIO | None = None,
        quiet: bool = False,
        who: str = "",
    ) -> int:
        """Run `kstorm WORDS` in the pod and return its exit code.

        `given` is the command's standard input, which never ends. `out` and `errors` receive its
        output instead of this process's streams. `quiet` does not print which pod it is. `who` is
        the operator to record, by default this command's.

        Raises `ControlError` if the command could not run or its exit code is unknown.
        """
        if not quiet:
            context = f", context {self._cluster.context}" if self._cluster.context else ""
            print(
                f"kstorm: in {self} ({self._workload.image}{context})", file=sys.stderr, flush=True
            )
        columns = [f"COLUMNS={shutil.get_terminal_size().columns}"] if sys.stdout.isatty() else []
        try:
            command = ["env", f"{VARIABLE}={who or operator()}", *columns, "kstorm", *words]
            code = self._cluster.execute(self._pod, command, given, out, errors)
        except KeyboardInterrupt:
            print(f"kstorm: the command continues in {self}", file=sys.stderr)
            raise typer.Exit(_INTERRUPTED) from None
        if code == _NO_COMMAND:
            raise ControlError(
                f"{self} has no kstorm command: its image {self._workload.image} is too old. Give "
                "ZooKeeper with --zookeeper, or upgrade the release"
            )
        return code


def _is_far(zookeeper: str | None, namespace: str | None, context: str | None) -> bool:
    chosen = namespace is not None or context is not None
    if chosen and zookeeper is not None:
        raise ConfigError(
            "--zookeeper is for a ZooKeeper that can be reached from here, --namespace and "
            "--context are for a topology on Kubernetes, whose pod runs the command: give one or "
            "the other"
        )
    return chosen or (not names_zookeeper(zookeeper) and is_named())


def _ready(
    cluster: Cluster, workloads: Sequence[Workload], kinds: Sequence[str]
) -> tuple[Workload, Pod]:
    for kind in kinds:
        for workload in workloads:
            for pod in cluster.pods(workload) if workload.kind == kind else ():
                if pod.ready and pod.phase == "Running":
                    return workload, pod
    name = f"{workloads[0].topology} --namespace {cluster.namespace}"
    ackers = [each.component for each in workloads if each.kind == "acker"]
    start = (
        f"; `kstorm scale {name} {ackers[0]}=1` starts one" if ackers and "acker" in kinds else ""
    )
    raise ControlError(
        f"no {' or '.join(kinds)} of {workloads[0].topology!r} has a ready pod to run this in: "
        f"`kstorm topology status {name}` shows why{start}. If ZooKeeper can be reached from here, "
        "give --zookeeper"
    )
