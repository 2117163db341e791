"""`kstorm activate|deactivate|drain NAME`: control whether a topology's spouts emit.

    kstorm deactivate wordcount
    kstorm drain wordcount --timeout 60
    kstorm activate wordcount

The state is in ZooKeeper, so this also works without Kubernetes. On Kubernetes a pod of the
topology connects to ZooKeeper, unless the user names one.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from kstorm.cli.json_output import Json, flags, print_outcome
from kstorm.cli.options import with_options
from kstorm.cli.place_options import PlaceOptions, ZooKeeper, find_or_hint, name_of
from kstorm.cli.target_options import Name
from kstorm.cli.wait_display import on_screen
from kstorm.operations.control import activation
from kstorm.operations.control.activation import timeout_option
from kstorm.operations.events.audit_log import recorded
from kstorm.operations.events.operator_identity import operator
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.places import BOOTSTRAP, ZOOKEEPER, LocalRun, OnKubernetes
from kstorm.runtime.base.settings import Settings, with_or_without_topology
from kstorm.runtime.zookeeper.topology_nodes import Topologies, open_topologies


@with_options(PlaceOptions)
def activate(options: PlaceOptions, name: Name, json: Json = False) -> None:
    """Make the spouts of a deactivated topology emit again."""
    name = name_of(name)
    with (
        _known(options, name, ["activate", *flags(json)]) as (topologies, kafka),
        recorded(name, "activate", settings=kafka),
    ):
        said = activation.activate(topologies, name, on_screen(json=json))
    print_outcome(name, said, json=json, active=True)


@with_options(PlaceOptions)
def deactivate(options: PlaceOptions, name: Name, json: Json = False) -> None:
    """Stop a topology's spouts until `kstorm activate`. Tuples in flight finish."""
    name = name_of(name)
    with (
        _known(options, name, ["deactivate", *flags(json)]) as (topologies, kafka),
        recorded(name, "deactivate", settings=kafka),
    ):
        said = activation.deactivate(topologies, name, operator(), on_screen(json=json))
    print_outcome(name, said, json=json, active=False)


@with_options(PlaceOptions)
def drain(
    options: PlaceOptions,
    name: Name,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECS", min=0, help="Longest wait. Default: as long as a tree can be in flight."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Deactivate a topology and wait until nothing is in flight. It stays deactivated until
    `kstorm activate`."""
    name = name_of(name)
    with (
        _known(options, name, ["drain", *timeout_option(timeout), *flags(json)]) as (
            topologies,
            kafka,
        ),
        recorded(name, "drain", settings=kafka),
    ):
        said = activation.drain(topologies, name, timeout, operator(), on_screen(json=json))
    print_outcome(name, said, json=json, active=False)
    if not json:
        print(f"it stays deactivated until `kstorm activate {name}`")


def forget(name: Name, zookeeper: ZooKeeper = None) -> None:
    """Remove a topology from ZooKeeper once its spouts have ended.

    `kstorm kill` runs this in a pod as its last step.
    """
    with open_zookeeper(zookeeper) as topologies, recorded(name, "kill"):
        activation.forget(topologies, name, on_screen())


@contextmanager
def _known(
    options: PlaceOptions, name: str, command: Sequence[str]
) -> Iterator[tuple[Topologies, Settings | None]]:
    """Connect to the topology's ZooKeeper. Yield None instead of settings if its Kafka is unknown.

    On Kubernetes, run the command in a pod instead, and exit with its code. Raises `ConfigError` if
    ZooKeeper does not contain the topology.
    """
    place = options.find(name, (ZOOKEEPER,))
    if isinstance(place, OnKubernetes):
        cluster = place.open()
        workloads = find_or_hint(cluster, name, "--zookeeper HOST:PORT")
        raise typer.Exit(PodCommand(cluster, workloads, "spout", "acker").run(*command, "--", name))
    knows_kafka = (
        isinstance(place, LocalRun) or options.bootstrap is not None or BOOTSTRAP in os.environ
    )
    with _open(place.settings) as topologies:
        topologies.check(name)
        yield topologies, place.settings if knows_kafka else None


@contextmanager
def open_zookeeper(connect: str | None) -> Iterator[Topologies]:
    """Connect to ZooKeeper, by default the one in the environment, with the credentials from there."""
    given = {} if connect is None else {ZOOKEEPER: connect}
    with _open(with_or_without_topology(os.environ | given)) as topologies:
        yield topologies


@contextmanager
def _open(settings: Settings) -> Iterator[Topologies]:
    with open_topologies(
        settings.zookeeper, settings.zookeeper_auth, settings.zookeeper_tls
    ) as topologies:
        yield topologies
