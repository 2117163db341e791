"""Choose where to run a command that needs ZooKeeper and Kafka: here, or in a pod of the topology.

A command runs here if `--zookeeper` or KSTORM_ZOOKEEPER names a ZooKeeper, which the chart sets in
every pod. Otherwise it runs in a pod if there is a kubeconfig. The command asks for confirmation
here, and does not use files in the pod.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import typer

from kstorm.cli.offset_options import OffsetOptions
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.kubernetes.cluster import Cluster, is_named, open_cluster
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.topologies import find_component, find_topology
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.references import is_code

_ZOOKEEPER: Final = "KSTORM_ZOOKEEPER"


def run_offsets_in_pod(
    options: OffsetOptions, verb: str, *words: str, arguments: Sequence[str] = ()
) -> None:
    """Run `kstorm offsets VERB` in a pod and exit with its code.

    Returns if the command is to run here. While offsets are moved no spout runs, so this may use an
    acker's pod. The environment of an acker does not name the spout, so the command line must.
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
    """Return a pod for the command and the topology's workloads. None if the command is to run
    here.
    """
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
    """Like `find_topology`, with a hint in the error for topologies outside Kubernetes."""
    try:
        return find_topology(cluster, name)
    except ControlError as error:
        raise ControlError(
            f"{error}. For a topology outside Kubernetes, give --zookeeper HOST:PORT"
        ) from None


def names_zookeeper(zookeeper: str | None) -> bool:
    """Return True if an option or the environment names a ZooKeeper to connect to directly."""
    return zookeeper is not None or _ZOOKEEPER in os.environ


def _is_far(zookeeper: str | None, namespace: str | None, context: str | None) -> bool:
    chosen = namespace is not None or context is not None
    if chosen and zookeeper is not None:
        raise ConfigError(
            "--zookeeper is for a ZooKeeper that can be reached from here, --namespace and "
            "--context are for a topology on Kubernetes, whose pod runs the command: give one or "
            "the other"
        )
    return chosen or (not names_zookeeper(zookeeper) and is_named())
