"""Options that select a spout and the place of its offsets.

The environment variables are those of the services. They are set in a spout's pod, so that no
option is needed there.
"""

import os
from dataclasses import dataclass
from typing import Annotated

import typer

from kstorm.cli.target_options import Context, Namespace
from kstorm.errors import ConfigError
from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.kafka.offsets import TopologyRef
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.runtime.base.settings import Settings, load_topology, with_or_without_topology


@dataclass(frozen=True, slots=True)
class OffsetOptions:
    """Options that select a spout: either `topology`, or `root`, `id` and `topic`."""

    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            metavar="MODULE:ATTR|NAME",
            envvar="KSTORM_TOPOLOGY",
            help="The spout's topology: its code or YAML file here, or its name on Kubernetes.",
        ),
    ] = None
    """`package.module:attribute`, or a name on Kubernetes. With a name, the command runs in a pod
    of the topology.
    """
    component: Annotated[
        str | None,
        typer.Option(
            "--component",
            metavar="ID",
            help="The spout, if the topology has several that read Kafka.",
        ),
    ] = None
    root: Annotated[
        str | None,
        typer.Option("--root", help="Instead of --topology: the SpoutConfig's zk_root."),
    ] = None
    id: Annotated[
        str | None, typer.Option("--id", help="Instead of --topology: the SpoutConfig's id.")
    ] = None
    topic: Annotated[
        str | None, typer.Option("--topic", help="Instead of --topology: the SpoutConfig's topic.")
    ] = None
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            metavar="HOST:PORT",
            help="Kafka's address. Default: KSTORM_BOOTSTRAP_SERVERS.",
        ),
    ] = None
    """Kafka's bootstrap servers. None: those of the environment."""
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            metavar="HOST:PORT",
            help="ZooKeeper's address. Default: KSTORM_ZOOKEEPER.",
        ),
    ] = None
    """ZooKeeper's connect string. None: that of the environment."""
    namespace: Namespace = None
    """Namespace of a topology on Kubernetes. None: that of the context."""
    context: Context = None
    """Context of the kubeconfig. None: the current context."""


def find_spout_offsets(options: OffsetOptions) -> SpoutOffsets:
    """Find the spout that the options select. Raises `KstormError` if they do not select one."""
    given = {"BOOTSTRAP_SERVERS": options.bootstrap, "ZOOKEEPER": options.zookeeper}
    overrides = {f"KSTORM_{name}": value for name, value in given.items() if value is not None}
    settings = with_or_without_topology(os.environ | overrides)
    if options.root is not None or options.id is not None or options.topic is not None:
        if options.root is None or options.id is None or options.topic is None:
            raise ConfigError(
                "--root, --id and --topic go together: give all three, or --topology and "
                "--component"
            )
        config = SpoutConfig(KafkaHosts(), options.topic, options.root, options.id)
        return SpoutOffsets(
            config, settings, TopologyRef(settings.topology_id or options.id, options.id)
        )
    if not options.topology:
        raise ConfigError(
            "whose offsets? Give --topology package.module:attribute, or its name on Kubernetes; "
            "or --root, --id and --topic"
        )
    return _of_topology(options.topology, options.component or settings.component, settings)


def _of_topology(reference: str, component: str, settings: Settings) -> SpoutOffsets:
    topology = load_topology(reference)
    spouts = {
        spec.id: spec.component
        for spec in topology.spouts
        if isinstance(spec.component, KafkaSpout)
    }
    if not component and len(spouts) == 1:
        component = next(iter(spouts))
    if component not in spouts:
        names = ", ".join(map(repr, spouts)) or "none"
        said = f"{component!r} is not a spout that reads Kafka" if component else "give --component"
        raise ConfigError(f"the topology {topology.name!r}: {said}; spouts that do: {names}")
    config = spouts[component].spout_config
    group = topology.group(component) if topology.config.exactly_once else ""
    return SpoutOffsets(
        config, settings, TopologyRef(settings.topology_id or topology.name, topology.name), group
    )
