"""Run a `kstorm` command in a pod of the topology.

In many clusters only a pod can reach ZooKeeper and Kafka. The addresses, the credentials and the
code stay in the pod. Only the command is sent to it, and only the output is returned.
"""

import logging
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from kstorm.errors import ControlError
from kstorm.operations.events.operator_identity import VARIABLE, operator
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.workloads import Pod, Workload

_NO_COMMAND: Final = 127
_log: Final = logging.getLogger(__name__)


class CommandInterruptedError(ControlError):
    """The user interrupted a command, but it continues in its pod."""

    exit_code = 130


class PodCommand:
    """A ready pod of a topology that can run `kstorm`. The images of spouts and ackers contain it.

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
        output instead of this process's streams. Unless `quiet`, the name of the pod is logged.
        `who` is the operator to record, by default that of this command.

        Raises `ControlError` if the command could not run or its exit code is unknown, and
        `CommandInterruptedError` on Ctrl-C.
        """
        if not quiet:
            context = f", context {self._cluster.context}" if self._cluster.context else ""
            _log.info("in %s (%s%s)", self, self._workload.image, context)
        columns = [f"COLUMNS={shutil.get_terminal_size().columns}"] if sys.stdout.isatty() else []
        try:
            command = ["env", f"{VARIABLE}={who or operator()}", *columns, "kstorm", *words]
            code = self._cluster.execute(self._pod, command, given, out, errors)
        except KeyboardInterrupt:
            raise CommandInterruptedError(f"the command continues in {self}") from None
        if code == _NO_COMMAND:
            raise ControlError(
                f"{self} has no kstorm command: its image {self._workload.image} is too old. Give "
                "ZooKeeper with --zookeeper, or upgrade the release"
            )
        return code


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
