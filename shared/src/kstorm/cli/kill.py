"""`kstorm kill NAME`: drain a topology on Kubernetes, then stop all its pods.

Storm's `kill` removes a topology. In kstorm, only Helm can remove the objects of a release. So this
command scales every workload to 0, does not delete anything, and prints the remaining steps. It
also removes the mark that the topology is deactivated from ZooKeeper, so that the topology emits
when it is started again.

A ZooKeeper named by the user may belong to another cluster. So the command refuses a topology that
is missing in this ZooKeeper or in Kubernetes. By default it uses the ZooKeeper of an acker's pod.
Before any change, the command prints both targets and asks for confirmation at a terminal.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer

from kstorm.cli.activate import open_zookeeper
from kstorm.cli.json_output import Json, print_outcome
from kstorm.cli.options import with_options
from kstorm.cli.place_options import PlaceOptions, workload_name
from kstorm.cli.target_options import Name
from kstorm.cli.wait_display import on_screen
from kstorm.errors import ControlError
from kstorm.operations.control import killing
from kstorm.operations.control.killing import DirectAccess, PodAccess, ZooKeeperAccess
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.topologies import find_topology
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.operations.places import ZOOKEEPER


@with_options(PlaceOptions)
def kill(
    options: PlaceOptions,
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
    json: Json = False,
) -> None:
    """Deactivate a topology, wait for tuples in flight, and scale it to 0. The command deletes
    nothing."""
    name = workload_name(name)
    cluster = options.open("kill", name)
    workloads = find_topology(cluster, name)
    autoscaled = killing.autoscaled(cluster, workloads)
    with _open_access(options.zookeeper, cluster, workloads) as access:
        report = partial(print, flush=True, file=sys.stderr if json else sys.stdout)
        report(killing.describe_target(access, cluster, workloads))
        _ask(name, yes)
        if said := killing.drain(access, wait):
            report(said)
        killing.stop(access, cluster, workloads, on_screen(json=json), report)
    remains = killing.describe_remains(workloads[0], autoscaled)
    print_outcome(name, f"{name} is killed; {remains}", json=json)


@contextmanager
def _open_access(
    zookeeper: str | None, cluster: Cluster, workloads: Sequence[Workload]
) -> Iterator[ZooKeeperAccess]:
    """Open the ZooKeeper that the user names, or else that of an acker's pod."""
    name = workloads[0].topology
    if zookeeper is None and ZOOKEEPER not in os.environ:
        yield PodAccess(PodCommand(cluster, workloads, "acker"), name)
        return
    with open_zookeeper(zookeeper) as topologies:
        yield DirectAccess(topologies, cluster, name, on_screen())


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
