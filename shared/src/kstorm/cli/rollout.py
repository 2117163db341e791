"""`kstorm scale` and `kstorm restart`: change the number of pods, and replace pods.

    kstorm scale wordcount split=4 count=2
    kstorm restart wordcount split

Kafka's consumer groups move the tasks. The next `helm upgrade` sets the number of pods to the one
in its values.
"""

import re
import sys
from typing import Annotated

import typer

from kstorm.cli.json_output import Json, print_outcome
from kstorm.cli.options import with_options
from kstorm.cli.place_options import ClusterOptions, workload_name
from kstorm.cli.target_options import Name
from kstorm.errors import ControlError
from kstorm.operations.events.remote_audit_log import recorded_by_pod
from kstorm.operations.kubernetes.scaling import (
    check_scalable,
    chosen_workloads,
    scaled,
    warning_of,
)
from kstorm.operations.kubernetes.topologies import find_components, find_topology


@with_options(ClusterOptions)
def scale(
    options: ClusterOptions,
    name: Name,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMPONENT=PODS…", help="New number of pods of each component."),
    ] = None,
    json: Json = False,
) -> None:
    """Change the number of pods of components. If one change is refused, none is made."""
    name, wanted = workload_name(name), dict(map(_pair, pairs or []))
    cluster = options.open("scale", name)
    found = chosen_workloads(find_topology(cluster, name), name, wanted)
    done = list[str]()
    with recorded_by_pod(
        cluster, name, "scale", " ".join(f"{id}={pods}" for id, pods in wanted.items())
    ) as told:
        check_scalable(cluster, found)
        for workload, pods in found.items():
            if warning := warning_of(cluster, workload, pods):
                print(f"kstorm: {warning}", file=sys.stderr)
            cluster.scale(workload, pods)
            done.append(scaled(workload, pods))
            if not json:
                print(done[-1])
        told.outcome = ", ".join(done)
    if json:
        print_outcome(name, told.outcome, json=True, pods=wanted)


@with_options(ClusterOptions)
def restart(
    options: ClusterOptions,
    name: Name,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[COMPONENT…]", help="Components. Default: all.")
    ] = None,
    json: Json = False,
) -> None:
    """Replace the pods of a topology or of some components one by one, without losing messages."""
    name = workload_name(name)
    cluster = options.open("restart", name)
    chosen = find_components(find_topology(cluster, name), names or [])
    what = " ".join(workload.component for workload in chosen) if names else ""
    with recorded_by_pod(cluster, name, "restart", what):
        for workload in chosen:
            cluster.restart(workload)
            if not json:
                print(f"{workload.component}: {workload} restarts")
    if json:
        restarted = [workload.component for workload in chosen]
        print_outcome(name, "restarts", json=True, components=restarted)


def _pair(text: str) -> tuple[str, int]:
    if not re.fullmatch("[^=]+=[0-9]{1,5}", text):
        raise ControlError(f"{text}: give COMPONENT=PODS, such as split=4")
    component, _, pods = text.partition("=")
    return component, int(pods)
