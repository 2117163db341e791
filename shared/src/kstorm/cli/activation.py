"""`kstorm activate|deactivate|drain NAME`: control whether a topology's spouts emit.

    kstorm deactivate wordcount
    kstorm drain wordcount --timeout 60
    kstorm activate wordcount

The state is in ZooKeeper, so this also works without Kubernetes. On Kubernetes a pod of the
topology connects to ZooKeeper, unless the user names one (`kstorm.operations.kubernetes.pod_command`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from kstorm.cli.pod_choice import run_in_pod
from kstorm.cli.target_options import Context, Name, Namespace
from kstorm.cli.wait_display import on_screen
from kstorm.operations.control import activation
from kstorm.operations.control.activation import timeout_option
from kstorm.operations.events.audit_log import recorded
from kstorm.operations.events.operator_identity import operator
from kstorm.runtime.base.settings import with_or_without_topology
from kstorm.runtime.zookeeper.topologies import Topologies, open_topologies

ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper", metavar="HOST:PORT", help="ZooKeeper's address. Default: KSTORM_ZOOKEEPER."
    ),
]


def activate(
    name: Name, zookeeper: ZooKeeper = None, namespace: Namespace = None, context: Context = None
) -> None:
    """Make the spouts of a deactivated topology emit again."""
    run_in_pod(name, zookeeper, namespace, context, ["activate"])
    with known(name, zookeeper) as topologies, recorded(name, "activate"):
        said = activation.activate(topologies, name, on_screen())
    print(said)


def deactivate(
    name: Name, zookeeper: ZooKeeper = None, namespace: Namespace = None, context: Context = None
) -> None:
    """Stop a topology's spouts until `kstorm activate`. Tuples in flight finish."""
    run_in_pod(name, zookeeper, namespace, context, ["deactivate"])
    with known(name, zookeeper) as topologies, recorded(name, "deactivate"):
        said = activation.deactivate(topologies, name, operator(), on_screen())
    print(said)


def drain(
    name: Name,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECS", min=0, help="Longest wait. Default: as long as a tree can be in flight."
        ),
    ] = None,
    zookeeper: ZooKeeper = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Deactivate a topology and wait until nothing is in flight."""
    run_in_pod(name, zookeeper, namespace, context, ["drain", *timeout_option(timeout)])
    with known(name, zookeeper) as topologies, recorded(name, "drain"):
        said = activation.drain(topologies, name, timeout, operator(), on_screen())
    print(said)


def forget(name: Name, zookeeper: ZooKeeper = None) -> None:
    """Remove a topology from ZooKeeper once its spouts have ended.

    `kstorm kill` runs this in a pod as its last step.
    """
    with open_zookeeper(zookeeper) as topologies, recorded(name, "kill"):
        activation.forget(topologies, name, on_screen())


@contextmanager
def known(name: str, zookeeper: str | None) -> Iterator[Topologies]:
    """Connect to ZooKeeper. Raises `ConfigError` if it does not contain the topology."""
    with open_zookeeper(zookeeper) as topologies:
        topologies.check(name)
        yield topologies


@contextmanager
def open_zookeeper(connect: str | None) -> Iterator[Topologies]:
    """Connect to ZooKeeper, by default the one in the environment, with the credentials from there."""
    settings = with_or_without_topology(
        os.environ | ({} if connect is None else {"KSTORM_ZOOKEEPER": connect})
    )
    with open_topologies(
        settings.zookeeper, settings.zookeeper_auth, settings.zookeeper_tls
    ) as topologies:
        yield topologies
