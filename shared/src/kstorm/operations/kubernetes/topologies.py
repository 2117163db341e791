"""Find topologies and their components on Kubernetes, with helpful errors for wrong names."""

from collections.abc import Sequence

from kstorm.errors import ControlError
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.workloads import Workload


def find_topology(cluster: Cluster, name: str) -> Sequence[Workload]:
    """Return a topology's workloads, spouts first, ackers last.

    Raises `ControlError` with a hint if the topology is not found.
    """
    all_of_them = cluster.workloads()
    found = [workload for workload in all_of_them if workload.topology == name]
    if not found:
        raise ControlError(_not_there(cluster, name, all_of_them))
    releases = sorted({workload.release for workload in found})
    if len(releases) > 1:
        raise ControlError(
            f"the topology {name!r} is in several releases of the namespace {cluster.namespace}: "
            f"{', '.join(releases)}. They would share its topics: remove all but one"
        )
    return found


def find_component(workloads: Sequence[Workload], name: str) -> Workload:
    """Return a component's workload by its label or by its id in the topology.

    If none matches, raises a `ControlError` that lists the existing components.
    """
    for workload in workloads:
        if name in (workload.component, workload.id):
            return workload
    names = ", ".join(workload.component for workload in workloads)
    raise ControlError(
        f"the topology {workloads[0].topology!r} has no component {name!r}; it has {names}"
    )


def find_components(workloads: Sequence[Workload], names: Sequence[str]) -> Sequence[Workload]:
    """Return the workloads of the named components, or all if no name is given."""
    return [find_component(workloads, name) for name in names] if names else workloads


def _not_there(cluster: Cluster, name: str, others: Sequence[Workload]) -> str:
    there = f"there is no topology {name!r} in the namespace {cluster.namespace}"
    topology, _, rest = name.partition(":")
    if components := [
        workload.component for workload in others if rest and workload.topology == topology
    ]:
        return (
            f"{there}; give components as separate words: {topology}, followed by some of "
            f"{', '.join(components)}"
        )
    of_release = sorted({workload.topology for workload in others if workload.release == name})
    if of_release:
        return f"{there}; the release {name!r} runs the topology {', '.join(of_release)}"
    elsewhere = _elsewhere(cluster, name)
    if len(elsewhere) == 1:
        return f"{there}, but there is one in {elsewhere[0]}: add --namespace {elsewhere[0]}"
    if elsewhere:
        return (
            f"{there}, but there are some in {' and '.join(elsewhere)}: choose one with --namespace"
        )
    if strangers := cluster.strangers(name):
        return (
            f"{there}; kstorm ignores {', '.join(strangers)}, because kstorm's labels are missing"
        )
    if stopped := cluster.stopped_check():
        return f"{there}; an install or upgrade in this namespace does not continue: {stopped}"
    names = sorted({workload.topology for workload in others})
    return f"{there}; it has {', '.join(names)}" if names else f"{there}, nor any other"


def _elsewhere(cluster: Cluster, name: str) -> Sequence[str]:
    """Return other namespaces that have the topology, if the user may list them."""
    try:
        everywhere = cluster.workloads(everywhere=True)
    except ControlError:
        return []
    return sorted({workload.namespace for workload in everywhere if workload.topology == name})
