"""Where a command of ZooKeeper and Kafka is run: here, or in a pod of the topology, which alone can reach them in many a cluster.

It is run here where ZooKeeper is named, by `--zookeeper` or KSTORM_ZOOKEEPER; so it is in every pod of the chart. Else it is run in
a pod, if there is a kubeconfig. The pod has addresses, logins and code, and none of it leaves the pod. Only the command goes there,
and only what it prints comes back. So questions are asked here, and no file is read or written there.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO

import typer

from kstorm.cli.cluster import Cluster, is_named, open_cluster
from kstorm.cli.finding import find
from kstorm.cli.who import VARIABLE, operator
from kstorm.cli.workloads import Pod, Workload
from kstorm.errors import ConfigError, ControlError

OVERDUE: Final = 3
"""The exit code of an `OverdueError`."""
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
    """Runs `kstorm COMMAND NAME` in a pod of the topology and ends with its exit code; returns if it is to be run here."""
    if not _is_far(zookeeper, namespace, context):
        return
    cluster = open_cluster(namespace, context)
    workloads = find_or_hint(cluster, name)
    raise typer.Exit(PodCommand(cluster, workloads, "spout", "acker").run(*command, "--", name))


def find_or_hint(cluster: Cluster, name: str) -> Sequence[Workload]:
    """As `find`; the error says too what to do for a topology that is not on Kubernetes."""
    try:
        return find(cluster, name)
    except ControlError as error:
        raise ControlError(
            f"{error}. For one that is not on Kubernetes, give --zookeeper HOST:PORT"
        ) from None


def names_zookeeper(zookeeper: str | None) -> bool:
    """Whether an option or the environment names one, which is asked directly then."""
    return zookeeper is not None or _ZOOKEEPER in os.environ


class PodCommand:
    """A ready pod of a topology that has the command `kstorm`, as spouts' and ackers' have.

    Raises `ControlError` if there is none, saying what to do.
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
        """Runs `kstorm WORDS` there, and returns its exit code. Raises `ControlError` if it could not, or its end was not seen.

        `given` is on its standard input, which has no end; `out` takes what it prints, in place of standard output, `errors` what
        it prints as errors; `quiet`: nothing is said of where that is; `who`: for whom, else for who gives this command."""
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
            print(f"kstorm: what was begun in {self} goes on there", file=sys.stderr)
            raise typer.Exit(_INTERRUPTED) from None
        if code == _NO_COMMAND:
            raise ControlError(
                f"{self} has no command kstorm: its image {self._workload.image} is older than this. Give ZooKeeper by "
                "--zookeeper, or upgrade the release"
            )
        return code


def _is_far(zookeeper: str | None, namespace: str | None, context: str | None) -> bool:
    chosen = namespace is not None or context is not None
    if chosen and zookeeper is not None:
        raise ConfigError(
            "--zookeeper is for a ZooKeeper that can be reached from here, --namespace and --context are for a topology on "
            "Kubernetes, whose pod is asked: give the one or the other"
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
        f"no {' or '.join(kinds)} of {workloads[0].topology!r} has a pod that is ready, to run this in: `kstorm topology status "
        f"{name}` says why{start}. If ZooKeeper can be reached from here, give --zookeeper"
    )
