"""`kstorm logs NAME [COMPONENT…]`: print the services' logs, prefixed with the pods' names.

kstorm logs wordcount split --follow
"""

import sys
import threading
from typing import Annotated

import typer

from kstorm.cli.target_options import Context, Name, Namespace, find_components, find_topology
from kstorm.errors import ControlError
from kstorm.operations.kubernetes.cluster import Cluster, open_cluster
from kstorm.operations.kubernetes.workloads import Pod


def logs(
    name: Name,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[COMPONENT…]", help="Components. Default: all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the pods end, or Ctrl-C.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(min=0, metavar="LINES", help="Print only the last LINES of each pod."),
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Print the logs of the topology's current pods."""
    cluster = open_cluster(namespace, context)
    pods = [
        pod
        for workload in find_components(find_topology(cluster, name), names or [])
        for pod in cluster.pods(workload)
    ]
    if not follow:
        for pod in pods:
            _print_log(cluster, pod, False, tail)
        return
    threads = [
        threading.Thread(target=_print_log, args=(cluster, pod, True, tail), daemon=True)
        for pod in pods
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        return


def _print_log(cluster: Cluster, pod: Pod, follow: bool, tail: int | None) -> None:
    """Print a pod's log. An error does not stop the logs of other pods."""
    try:
        for line in cluster.logs(pod, follow, tail):
            # A single call, so that lines of several pods do not mix.
            sys.stdout.write(f"[{pod.name}] {line}\n")
            sys.stdout.flush()
    except ControlError as error:
        print(f"kstorm: {pod.name}: {error}", file=sys.stderr)
