"""Which topology is meant, and where: the options that the verbs on Kubernetes share, and what they say to a wrong name."""

from collections.abc import Sequence
from typing import Annotated

import typer

from kstorm.cli.cluster import Cluster
from kstorm.cli.workloads import Workload
from kstorm.errors import ControlError

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The topology's name.", show_default=False)
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Else the context's namespace."),
]
Context = Annotated[
    str | None, typer.Option(metavar="CONTEXT", help="Of the kubeconfig; else its current one.")
]


def find(cluster: Cluster, name: str) -> Sequence[Workload]:
    """The workloads of a topology, spouts first, ackers last. Raises `ControlError` that helps on if it is not there."""
    all_of_them = cluster.workloads()
    found = [workload for workload in all_of_them if workload.topology == name]
    if not found:
        raise ControlError(_not_there(cluster, name, all_of_them))
    releases = sorted({workload.release for workload in found})
    if len(releases) > 1:
        raise ControlError(
            f"the topology {name!r} is in several releases of the namespace {cluster.namespace}: {', '.join(releases)}. They "
            "would share its topics: remove all but one"
        )
    return found


def component(workloads: Sequence[Workload], name: str) -> Workload:
    """The workload of a component, by what its label or the topology calls it. Raises `ControlError` naming those there are."""
    for workload in workloads:
        if name in (workload.component, workload.id):
            return workload
    names = ", ".join(workload.component for workload in workloads)
    raise ControlError(
        f"the topology {workloads[0].topology!r} has no component {name!r}; it has {names}"
    )


def components(workloads: Sequence[Workload], names: Sequence[str]) -> Sequence[Workload]:
    """The workloads of some components, or all if none is named."""
    return [component(workloads, name) for name in names] if names else workloads


def _not_there(cluster: Cluster, name: str, others: Sequence[Workload]) -> str:
    there = f"there is no topology {name!r} in the namespace {cluster.namespace}"
    topology, _, rest = name.partition(":")
    if components := [
        workload.component for workload in others if rest and workload.topology == topology
    ]:
        return f"{there}; give components as words of their own: {topology}, and behind it some of {', '.join(components)}"
    of_release = sorted({workload.topology for workload in others if workload.release == name})
    if of_release:
        return f"{there}; the release {name!r} runs the topology {', '.join(of_release)}"
    elsewhere = _elsewhere(cluster, name)
    if len(elsewhere) == 1:
        return f"{there}, but in {elsewhere[0]}: add --namespace {elsewhere[0]}"
    if elsewhere:
        return f"{there}, but in {' and '.join(elsewhere)}: choose one by --namespace"
    if strangers := cluster.strangers(name):
        return f"{there}; {', '.join(strangers)} is without kstorm's labels, and is left alone"
    names = sorted({workload.topology for workload in others})
    return f"{there}; those there are: {', '.join(names)}" if names else f"{there}, nor any other"


def _elsewhere(cluster: Cluster, name: str) -> Sequence[str]:
    """Other namespaces that have it, as far as this user may look."""
    try:
        everywhere = cluster.workloads(everywhere=True)
    except ControlError:
        return []
    return sorted({workload.namespace for workload in everywhere if workload.topology == name})
