"""`kstorm activate|deactivate|drain NAME`: whether a topology's spouts emit.

    kstorm deactivate wordcount
    kstorm drain wordcount --timeout 60
    kstorm activate wordcount

All of it goes through ZooKeeper, so that it works for a topology off Kubernetes as well.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from kstorm.cli import draining
from kstorm.cli.finding import Name
from kstorm.runtime.service.settings import with_or_without_topology
from kstorm.runtime.zookeeper.topologies import Topologies, open_topologies

ZooKeeper = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOST:PORT", help="ZooKeeper; else KSTORM_ZOOKEEPER.")
]


def activate(name: Name, zookeeper: ZooKeeper = None) -> None:
    """Has a deactivated topology's spouts emit again."""
    with known(name, zookeeper) as topologies:
        changed = topologies.activate(name)
        spouts = draining.obey(topologies, name, True, Console())
    print(f"{name} is {'active again' if changed else 'active, as it was'}: {draining.processes(spouts)}")


def deactivate(name: Name, zookeeper: ZooKeeper = None) -> None:
    """Has a topology's spouts stop to emit; what is in flight finishes. It stays so over restarts."""
    with known(name, zookeeper) as topologies:
        changed = topologies.deactivate(name)
        spouts = draining.obey(topologies, name, False, Console())
    said = "deactivated" if changed else "deactivated, as it was"
    print(f"{name} is {said}: {draining.processes(spouts)}, {draining.in_flight(spouts) or 'nothing in flight'}")


def drain(
    name: Name,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECS", min=0, help="Longest wait; else as long as a tree may be in flight."),
    ] = None,
    zookeeper: ZooKeeper = None,
) -> None:
    """Deactivates a topology, and waits until nothing is in flight."""
    with known(name, zookeeper) as topologies:
        spouts = draining.drain(topologies, name, timeout, Console())
    print(f"{name} is drained: {draining.processes(spouts)}, nothing in flight{draining.waiting(spouts)}")


@contextmanager
def known(name: str, zookeeper: str | None) -> Iterator[Topologies]:
    """The topologies of the ZooKeeper that was named; raises `ConfigError` if `name` is none of them."""
    with open_zookeeper(zookeeper) as topologies:
        topologies.check(name)
        yield topologies


@contextmanager
def open_zookeeper(connect: str | None) -> Iterator[Topologies]:
    """The topologies of a ZooKeeper, by default the environment's, with the environment's login."""
    settings = with_or_without_topology(os.environ | ({} if connect is None else {"KSTORM_ZOOKEEPER": connect}))
    with open_topologies(settings.zookeeper, settings.zookeeper_auth) as topologies:
        yield topologies
