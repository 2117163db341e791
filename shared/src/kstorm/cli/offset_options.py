"""Options that select a spout and the place of its offsets.

The environment variables are those of the services. They are set in a spout's pod, so that no
option is needed there.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from kstorm.cli.place_options import TopologyOptions, find_or_hint
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.topologies import find_component
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.operations.places import BOOTSTRAP, ZOOKEEPER, OnKubernetes
from kstorm.operations.traces.topology_traces import config_of, offsets_of
from kstorm.runtime.base.settings import Settings, with_or_without_topology


@dataclass(frozen=True)
class OffsetOptions(TopologyOptions):
    """Options that select a spout: either `topology`, or `root`, `id` and `topic`."""

    component: Annotated[
        str | None,
        typer.Option(
            "--component",
            metavar="ID",
            help="The spout, if the topology has several that read Kafka.",
        ),
    ] = None
    root: Annotated[
        str | None, typer.Option("--root", help="Instead of --topology: the SpoutConfig's zk_root.")
    ] = None
    id: Annotated[
        str | None, typer.Option("--id", help="Instead of --topology: the SpoutConfig's id.")
    ] = None
    topic: Annotated[
        str | None, typer.Option("--topic", help="Instead of --topology: the SpoutConfig's topic.")
    ] = None

    needs: ClassVar[Sequence[str]] = (BOOTSTRAP, ZOOKEEPER)

    @property
    def names_node(self) -> bool:
        """True if `root`, `id` or `topic` is given."""
        return self.root is not None or self.id is not None or self.topic is not None


def run_offsets_in_pod(
    options: OffsetOptions,
    verb: str,
    *words: str,
    arguments: Sequence[str] = (),
    command: str = "offsets",
) -> None:
    """Run `kstorm COMMAND VERB` in a pod and exit with its code.

    Returns if the command is to run here. While offsets are moved no spout runs, so this may use an
    acker's pod. The environment of an acker does not name the spout, so the command line must.
    """
    if not options.topology:
        if options.choice.names_cluster:
            raise ConfigError(
                "--namespace and --context are for a topology on Kubernetes: give its name with "
                "--topology"
            )
        return
    if not isinstance(options.place, OnKubernetes):
        return
    cluster = options.place.open()
    workloads = find_or_hint(cluster, options.name, "--bootstrap and --zookeeper")
    pod = PodCommand(cluster, workloads, "spout", "acker")
    raise typer.Exit(pod.run(command, verb, *_which(options, workloads), *words, "--", *arguments))


def _which(options: OffsetOptions, workloads: Sequence[Workload]) -> Iterator[str]:
    """Yield options that select the spout or the topic."""
    if not options.names_node:
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


def find_spout_offsets(options: OffsetOptions) -> SpoutOffsets:
    """Find the spout that the options select. Raises `KstormError` if they do not select one."""
    if options.names_node:
        return _of_node(options)
    if not options.topology:
        raise ConfigError(
            "whose offsets? Give --topology, the topology's name or its code; or --root, --id and "
            "--topic"
        )
    return _of_topology(options)


def _of_node(options: OffsetOptions) -> SpoutOffsets:
    # Commands that only show help or run in a pod do not load the code of spouts.
    from kstorm.kafka import KafkaHosts, SpoutConfig
    from kstorm.kafka.offsets import TopologyRef

    if options.root is None or options.id is None or options.topic is None:
        raise ConfigError(
            "--root, --id and --topic go together: give all three, or --topology and --component"
        )
    given = {BOOTSTRAP: options.bootstrap, ZOOKEEPER: options.zookeeper}
    settings = (
        options.servers
        if options.topology
        else with_or_without_topology(
            os.environ | {name: value for name, value in given.items() if value is not None}
        )
    )
    config = SpoutConfig(KafkaHosts(), options.topic, options.root, options.id)
    return SpoutOffsets(
        config, settings, TopologyRef(settings.topology_id or options.id, options.id)
    )


def _of_topology(options: OffsetOptions) -> SpoutOffsets:
    outline, code = options.outline()
    settings: Settings = options.servers
    spouts = list(outline.readings)
    component = options.component or settings.component
    if not component and len(spouts) == 1:
        component = spouts[0]
    if component not in spouts:
        names = ", ".join(map(repr, spouts)) or "none"
        said = f"{component!r} is not a spout that reads Kafka" if component else "give --component"
        raise ConfigError(f"the topology {outline.name!r}: {said}; spouts that do: {names}")
    return offsets_of(outline, component, settings, config_of(outline, code, component))
