"""Options that select a topology and its place, shared by all commands.

`kstorm.operations.places` explains the order in which places are searched.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, TextIO

import typer

from kstorm.cli.target_options import PLACE, Context, Namespace
from kstorm.errors import ConfigError, ControlError
from kstorm.introspection.outline import Outline
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.topologies import find_topology
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.operations.places import (
    BOOTSTRAP,
    ZOOKEEPER,
    LocalRun,
    NamedServers,
    OnKubernetes,
    Place,
    PlaceChoice,
    describe_runs,
    find_place,
)
from kstorm.references import is_code
from kstorm.runtime.base.settings import Settings, load_topology, with_or_without_topology
from kstorm.runtime.kafka.broker_reachability import check_reachable
from kstorm.runtime.run_files import RunCode
from kstorm.topology import Topology

Option = str | int | float | bool | None

_CODE = "KSTORM_TOPOLOGY"

Runs = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        metavar="DIR",
        help="Folder of a run on this machine, or of several. Default: .kstorm/runs.",
        rich_help_panel=PLACE,
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Kafka's address. Default: that of the run, or KSTORM_BOOTSTRAP_SERVERS.",
        rich_help_panel=PLACE,
    ),
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT",
        help="ZooKeeper's address. Default: that of the run, or KSTORM_ZOOKEEPER.",
        rich_help_panel=PLACE,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options that select a place on Kubernetes. The topology is an argument of the command."""

    namespace: Namespace = None
    context: Context = None

    @property
    def choice(self) -> PlaceChoice:
        return PlaceChoice(namespace=self.namespace, context=self.context)

    def open(self, verb: str, name: str) -> Cluster:
        """Connect to the cluster of a topology. Raises `ControlError` for a run on this machine."""
        place = find_place(name, PlaceChoice(namespace=self.namespace, context=self.context))
        if isinstance(place, OnKubernetes):
            return place.open()
        raise ControlError(
            f"`kstorm {verb}` is for topologies on Kubernetes, but {name!r} is {place}: Ctrl-C "
            "ends it, and `kstorm dev` starts it; for one on Kubernetes give --namespace"
        )


@dataclass(frozen=True, kw_only=True)
class RunOptions(ClusterOptions):
    """Options that select a place with processes to ask, which servers alone do not have."""

    runs: Runs = None

    @property
    def choice(self) -> PlaceChoice:
        return PlaceChoice(self.runs, namespace=self.namespace, context=self.context)

    def find(self, name: str) -> LocalRun | OnKubernetes:
        """Return the place of a topology like `find_place`."""
        place = find_place(name, self.choice)
        assert not isinstance(place, NamedServers)
        return place


@dataclass(frozen=True, kw_only=True)
class PlaceOptions(ClusterOptions):
    """Options that select any place."""

    runs: Runs = None
    bootstrap: Bootstrap = None
    zookeeper: ZooKeeper = None

    @property
    def choice(self) -> PlaceChoice:
        return PlaceChoice(self.runs, self.bootstrap, self.zookeeper, self.namespace, self.context)

    def find(self, name: str, needs: Sequence[str] = ()) -> Place:
        """Return the place of a topology like `find_place`.

        Prints a note if the environment names other servers than those of a run.
        """
        place = find_place(name, self.choice, needs)
        if isinstance(place, LocalRun):
            _note_other_servers(place, needs)
        return place


@dataclass(frozen=True)
class TopologyOptions(PlaceOptions):
    """Options that select a topology and its place."""

    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            "-t",
            metavar="NAME|MODULE:ATTR",
            envvar="KSTORM_TOPOLOGY",
            help="The topology: its name, or its code or YAML file here.",
        ),
    ] = None

    needs: ClassVar[Sequence[str]] = (BOOTSTRAP,)
    """Variables of the servers that the command connects to."""

    def given(self) -> dict[str, Any]:
        """Return the options by name, for a command with more of them."""
        return {each.name: getattr(self, each.name) for each in fields(TopologyOptions)}

    @cached_property
    def name(self) -> str:
        """The topology's name. Raises `ConfigError` if none is given."""
        if not self.topology:
            raise ConfigError(
                "which topology? Give its name with --topology or KSTORM_TOPOLOGY; running on "
                f"this machine: {describe_runs(self.runs)}"
            )
        return name_of(self.topology)

    @cached_property
    def place(self) -> Place:
        """The place of the topology. Raises the errors of `find_place`."""
        return self.find(self.name, self.needs)

    @property
    def servers(self) -> Settings:
        """Settings with the addresses of the topology's servers."""
        assert not isinstance(self.place, OnKubernetes)
        return self.place.settings

    @cached_property
    def settings(self) -> Settings:
        """Like `servers`. Raises `NoBrokerError` if Kafka refuses connections."""
        found = self.servers
        check_reachable(found)
        return found

    @property
    def is_far(self) -> bool:
        """True if the command must run in a pod. Raises the errors of `find_place`."""
        return isinstance(self.place, OnKubernetes)

    def outline(self) -> tuple[Outline, Topology | None]:
        """Return the outline of a run, or that of the topology's code and the code.

        Raises `ConfigError` like `code_of`.
        """
        if not is_code(self.topology or "") and isinstance(self.place, LocalRun):
            return self.place.running.topology, None
        from kstorm.introspection.outline_builder import outline_of

        code = code_of(self, "it defines the topics of its tuples")
        return outline_of(code), code


def name_of(reference: str) -> str:
    """Return the name of a topology that is given by its name or by its code."""
    return load_topology(reference).name if is_code(reference) else reference


def workload_name(reference: str) -> str:
    """Like `name_of`, for commands with components after the name.

    A reference without code is returned unchanged, because it may be NAME:COMPONENT by mistake.
    """
    try:
        return name_of(reference)
    except ConfigError:
        return reference


def code_of(options: TopologyOptions, why: str) -> Topology:
    """Load the topology's code.

    Raises `ConfigError` with the reason `why` if only the topology's name is known.
    """
    found = code_if_available(options, why)
    if found is None:
        raise ConfigError(
            f"the code of {options.name!r} is needed, because {why}: give --topology MODULE:ATTR"
        )
    return found


def code_if_available(options: TopologyOptions, why: str) -> Topology | None:
    """Return the topology's code if an option, its run or the environment names it.

    The environment of its pods does. Raises `ConfigError` with the reason `why` if that is the code
    of another topology.
    """
    if is_code(options.topology or ""):
        return load_topology(options.topology or "")
    if isinstance(options.place, LocalRun) and options.place.running.code.reference:
        return _load(options.place.running.code)
    reference = os.environ.get(_CODE, "")
    if not is_code(reference):
        return None
    found = load_topology(reference)
    if found.name != options.name:
        raise ConfigError(
            f"the code of {options.name!r} is needed, because {why}, but {_CODE} is {reference}, "
            f"which is the topology {found.name!r}: give --topology MODULE:ATTR"
        )
    return found


def run_remotely(
    options: TopologyOptions,
    command: str,
    given: Mapping[str, Option],
    arguments: Sequence[object] = (),
    *,
    content: bytes | None = None,
    out: TextIO | None = None,
    kinds: Sequence[str] = ("spout", "acker"),
) -> int | None:
    """Run `kstorm COMMAND` in a pod and return its exit code. None if the command is to run here.

    `given` contains the options by name. `content` is written to the command's standard input,
    which never ends. `out` receives the output instead of standard output. `kinds` limits the pods
    to those of these kinds of components.
    """
    if not isinstance(options.place, OnKubernetes):
        return None
    cluster = options.place.open()
    workloads = find_or_hint(cluster, options.name)
    words = [
        *command.split(),
        f"--topology={options.name}",
        *_words(given),
        "--",
        *map(str, arguments),
    ]
    return PodCommand(cluster, workloads, *kinds).run(*words, given=content, out=out)


def in_pod(
    options: TopologyOptions,
    command: str,
    given: Mapping[str, Option],
    arguments: Sequence[object] = (),
    kinds: Sequence[str] = ("spout", "acker"),
) -> None:
    """Like `run_remotely`, but exit with the code. Returns if the command is to run here."""
    code = run_remotely(options, command, given, arguments, kinds=kinds)
    if code is not None:
        raise typer.Exit(code)


def find_or_hint(
    cluster: Cluster, name: str, option: str = "--bootstrap HOST:PORT"
) -> Sequence[Workload]:
    """Like `find_topology`, with a hint in the error for topologies outside Kubernetes."""
    try:
        return find_topology(cluster, name)
    except ControlError as error:
        raise ControlError(
            f"{error}. For a topology outside Kubernetes, give {option} (running on this machine: "
            f"{describe_runs()})"
        ) from None


def _load(code: RunCode) -> Topology:
    """Load the code of a run from the folder in which it was started."""
    if code.folder not in sys.path:
        sys.path.insert(0, code.folder)
    reference = code.reference
    if ":" not in reference:
        reference = str(Path(code.folder, reference))
    return load_topology(
        reference, str(Path(code.folder, code.properties)) if code.properties else ""
    )


def _words(given: Mapping[str, Option]) -> list[str]:
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in given.items()
        if value is not None and value is not False
    ]


def _note_other_servers(place: LocalRun, needs: Sequence[str]) -> None:
    servers = {BOOTSTRAP: place.running.bootstrap, ZOOKEEPER: place.running.zookeeper}
    for variable in needs:
        if os.environ.get(variable, servers[variable]) != servers[variable]:
            print(
                f"kstorm: {place} has its own servers, so {variable} is not used", file=sys.stderr
            )


def settings_for(bootstrap: str | None) -> Settings:
    """Return the environment's settings and credentials, with the Kafka at `bootstrap` if it is
    given."""
    return with_or_without_topology(
        os.environ | ({} if bootstrap is None else {BOOTSTRAP: bootstrap})
    )
