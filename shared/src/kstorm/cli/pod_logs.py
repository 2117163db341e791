"""`kstorm logs NAME [COMPONENT…]`: print the services' logs, prefixed with the processes' names.

kstorm logs wordcount split --follow
"""

import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Annotated, Final

import typer

from kstorm.cli.json_output import Json, print_json
from kstorm.cli.options import with_options
from kstorm.cli.place_options import RunOptions, workload_name
from kstorm.cli.target_options import Name
from kstorm.errors import ControlError
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.topologies import find_components, find_topology
from kstorm.operations.kubernetes.workloads import Pod
from kstorm.operations.places import LocalRun
from kstorm.runtime.run_files import RunningTopology, RunningWorker, is_alive

_LOOK_SECS: Final = 0.2


@with_options(RunOptions)
def logs(
    options: RunOptions,
    name: Name,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[COMPONENT…]", help="Components. Default: all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the processes end, or Ctrl-C.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(min=0, metavar="LINES", help="Print only the last LINES of each process."),
    ] = None,
    json: Json = False,
) -> None:
    """Print the logs of the topology's current processes."""
    name = workload_name(name)
    place = options.find(name)
    if isinstance(place, LocalRun):
        _print_local(place.running, names or [], follow, tail, json)
        return
    cluster = place.open()
    pods = [
        pod
        for workload in find_components(find_topology(cluster, name), names or [])
        for pod in cluster.pods(workload)
    ]
    if not follow:
        for pod in pods:
            _print_log(cluster, pod, False, tail, json)
        return
    threads = [
        threading.Thread(target=_print_log, args=(cluster, pod, True, tail, json), daemon=True)
        for pod in pods
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        return


def _print_log(cluster: Cluster, pod: Pod, follow: bool, tail: int | None, json: bool) -> None:
    """Print a pod's log. An error does not stop the logs of other pods."""
    try:
        for line in cluster.logs(pod, follow, tail):
            _write(pod.name, line, json)
            sys.stdout.flush()
    except ControlError as error:
        print(f"kstorm: {pod.name}: {error}", file=sys.stderr)


def _write(process: str, line: str, json: bool) -> None:
    if json:
        print_json({"process": process, "line": line})
    else:
        # A single call, so that lines of several pods do not mix.
        sys.stdout.write(f"[{process}] {line}\n")


def _print_local(
    running: RunningTopology, names: list[str], follow: bool, tail: int | None, json: bool
) -> None:
    """Print the logs of processes on this machine."""
    known = {worker.component for worker in running.workers}
    if unknown := set(names) - known:
        raise ControlError(
            f"the topology {running.name!r} has no component {min(unknown)!r}; it has "
            f"{', '.join(sorted(known))}"
        )
    workers = [each for each in running.workers if not names or each.component in names]
    ends = {worker.name: _print_file(worker, 0, tail, json=json) for worker in workers}
    try:
        while follow and is_alive(running.pid):
            time.sleep(_LOOK_SECS)
            ends = {
                worker.name: _print_file(worker, ends[worker.name], json=json) for worker in workers
            }
    except KeyboardInterrupt:
        return


def _print_file(worker: RunningWorker, begin: int, tail: int | None = None, *, json: bool) -> int:
    """Print the complete lines of a log from a position on, and return its new position."""
    try:
        with Path(worker.log).open("rb") as file:
            file.seek(begin)
            content = file.read()
    except OSError as error:
        if not begin:
            print(f"kstorm: {worker.name}: {worker.log}: {error.strerror}", file=sys.stderr)
        return begin
    whole = content[: content.rfind(b"\n") + 1]
    lines = whole.decode(errors="replace").splitlines()
    for line in lines if tail is None else deque(lines, tail):
        _write(worker.name, line, json)
    sys.stdout.flush()
    return begin + len(whole)
