"""`kstorm activate|deactivate|drain NAME`: whether a topology's spouts emit.

    kstorm deactivate wordcount
    kstorm drain wordcount --timeout 60
    kstorm activate wordcount

All of it goes through ZooKeeper, so that it works for a topology off Kubernetes as well. On Kubernetes a pod of the topology asks
ZooKeeper, unless one is named (`kstorm.cli.in_pod`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from kstorm.cli import draining
from kstorm.cli.finding import Context, Name, Namespace
from kstorm.cli.in_pod import run_in_pod
from kstorm.cli.noting import noted
from kstorm.cli.waiting import on_screen
from kstorm.cli.who import operator
from kstorm.runtime.service.settings import with_or_without_topology
from kstorm.runtime.zookeeper.topologies import Topologies, open_topologies

ZooKeeper = Annotated[
    str | None,
    typer.Option("--zookeeper", metavar="HOST:PORT", help="ZooKeeper; else KSTORM_ZOOKEEPER."),
]


def activate(
    name: Name, zookeeper: ZooKeeper = None, namespace: Namespace = None, context: Context = None
) -> None:
    """Has a deactivated topology's spouts emit again."""
    run_in_pod(name, zookeeper, namespace, context, ["activate"])
    with known(name, zookeeper) as topologies, noted(name, "activate"):
        said = draining.activate(topologies, name, on_screen())
    print(said)


def deactivate(
    name: Name, zookeeper: ZooKeeper = None, namespace: Namespace = None, context: Context = None
) -> None:
    """Has a topology's spouts stop to emit; what is in flight finishes. It stays so over restarts."""
    run_in_pod(name, zookeeper, namespace, context, ["deactivate"])
    with known(name, zookeeper) as topologies, noted(name, "deactivate"):
        said = draining.deactivate(topologies, name, operator(), on_screen())
    print(said)


def drain(
    name: Name,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECS", min=0, help="Longest wait; else as long as a tree may be in flight."
        ),
    ] = None,
    zookeeper: ZooKeeper = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Deactivates a topology, and waits until nothing is in flight."""
    run_in_pod(name, zookeeper, namespace, context, ["drain", *timeout_option(timeout)])
    with known(name, zookeeper) as topologies, noted(name, "drain"):
        said = draining.drain(topologies, name, timeout, operator(), on_screen())
    print(said)


def forget(name: Name, zookeeper: ZooKeeper = None) -> None:
    """What `kill` has done in a pod at its end: once a topology's spouts have ended, ZooKeeper knows it no longer."""
    with open_zookeeper(zookeeper) as topologies, noted(name, "kill"):
        draining.forget(topologies, name, on_screen())


def timeout_option(seconds: float | None) -> list[str]:
    """For `kstorm drain` in a pod."""
    return [] if seconds is None else [f"--timeout={seconds:g}"]


@contextmanager
def known(name: str, zookeeper: str | None) -> Iterator[Topologies]:
    """The topologies of the ZooKeeper that was named; raises `ConfigError` if `name` is none of them."""
    with open_zookeeper(zookeeper) as topologies:
        topologies.check(name)
        yield topologies


@contextmanager
def open_zookeeper(connect: str | None) -> Iterator[Topologies]:
    """The topologies of a ZooKeeper, by default the environment's, with the environment's login."""
    settings = with_or_without_topology(
        os.environ | ({} if connect is None else {"KSTORM_ZOOKEEPER": connect})
    )
    with open_topologies(
        settings.zookeeper, settings.zookeeper_auth, settings.zookeeper_tls
    ) as topologies:
        yield topologies
