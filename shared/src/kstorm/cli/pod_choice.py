"""Run `kstorm offsets` in a pod of the topology if the topology is given by name.

No spout runs while offsets are moved, so an acker's pod may be used. Its environment does not name
the spout, so the command has to.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import typer

from kstorm.cli.target_options import find_component
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.kubernetes.cluster import is_named, open_cluster
from kstorm.operations.kubernetes.pod_command import PodCommand, find_or_hint
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.operations.offsets.spout_offsets import OffsetOptions
from kstorm.references import is_code


def run_in_pod(
    options: OffsetOptions, verb: str, *words: str, arguments: Sequence[str] = ()
) -> None:
    """Run `kstorm offsets VERB` in a pod and exit with its code.

    Returns if the command is to run here.
    """
    found = pod_of(options)
    if found is not None:
        pod, workloads = found
        raise typer.Exit(
            pod.run("offsets", verb, *_which(options, workloads), *words, "--", *arguments)
        )


class ServerOptions(Protocol):
    """Options that select a topology and its servers."""

    @property
    def topology(self) -> str | None:
        """`package.module:attribute`, or a name on Kubernetes."""

    @property
    def bootstrap(self) -> str | None: ...

    @property
    def zookeeper(self) -> str | None: ...

    @property
    def namespace(self) -> str | None: ...

    @property
    def context(self) -> str | None: ...


def pod_of(
    options: ServerOptions, kinds: Sequence[str] = ("spout", "acker")
) -> tuple[PodCommand, Sequence[Workload]] | None:
    """Return a pod for the command and the topology's workloads. None if it is to run here."""
    chosen = options.namespace is not None or options.context is not None
    name = options.topology
    if not name or is_code(name):
        if chosen:
            raise ConfigError(
                "--namespace and --context are for a topology on Kubernetes: give its name with "
                "--topology"
            )
        return None
    if not chosen and not is_named():
        return None
    if options.zookeeper is not None or options.bootstrap is not None:
        raise ConfigError(
            f"--topology {name} is on Kubernetes, and its pod has the addresses of its servers: "
            "leave out --zookeeper and --bootstrap, or give --topology package.module:attribute"
        )
    cluster = open_cluster(options.namespace, options.context)
    workloads = find_or_hint(cluster, name)
    return PodCommand(cluster, workloads, *kinds), workloads


def _which(options: OffsetOptions, workloads: Sequence[Workload]) -> Iterator[str]:
    """Yield options that select the spout or the topic."""
    if options.root is None and options.id is None and options.topic is None:
        yield f"--component={_spout(workloads, options.component)}"
    for name in ("root", "id", "topic"):
        if (value := getattr(options, name)) is not None:
            yield f"--{name}={value}"


def _spout(workloads: Sequence[Workload], wanted: str | None) -> str:
    spouts = [workload for workload in workloads if workload.kind == "spout"]
    if wanted is not None:
        return find_component(spouts, wanted).component
    if len(spouts) != 1:
        names = ", ".join(workload.component for workload in spouts)
        raise ControlError(
            f"whose offsets? Give --component; the spouts of {workloads[0].topology!r} are {names}"
        )
    return spouts[0].component
