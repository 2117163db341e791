"""Choose where to run a command that needs Kafka but not ZooKeeper: here, or in a pod.

The command runs here if `--bootstrap` or KSTORM_BOOTSTRAP_SERVERS names a Kafka, or if the topology
is given as code. Otherwise it runs in a pod of the topology if there is a kubeconfig
(`kstorm.operations.kubernetes.pod_command`).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TextIO

import typer

from kstorm.cli.kafka_options import Bootstrap, settings_for
from kstorm.cli.target_options import Context, Namespace
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.events.audit_log import BOOTSTRAP
from kstorm.operations.kubernetes.cluster import is_named, open_cluster
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.topologies import find_topology
from kstorm.references import is_code
from kstorm.runtime.base.settings import Settings, load_topology
from kstorm.topology import Topology

_CODE: Final = "KSTORM_TOPOLOGY"

Option = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """Options that select a topology and its Kafka."""

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
    bootstrap: Bootstrap = None
    namespace: Namespace = None
    context: Context = None

    @property
    def name(self) -> str:
        """The topology's name. Raises `ConfigError` if none is given."""
        if not self.topology:
            raise ConfigError("which topology? Give its name with --topology or KSTORM_TOPOLOGY")
        return load_topology(self.topology).name if is_code(self.topology) else self.topology

    @property
    def settings(self) -> Settings:
        """Settings of the named Kafka."""
        return settings_for(self.bootstrap)

    @property
    def is_far(self) -> bool:
        """True if the command must run in a pod. Raises `ConfigError` on conflicting options."""
        chosen = self.namespace is not None or self.context is not None
        if chosen and (self.bootstrap is not None or is_code(self.topology or "")):
            raise ConfigError(
                "--bootstrap and MODULE:ATTR are for a topology here, --namespace and --context "
                "for one on Kubernetes, whose pod has the address of Kafka: give one or the other"
            )
        here = self.bootstrap is not None or BOOTSTRAP in os.environ or is_code(self.topology or "")
        return chosen or (not here and is_named())


def code_of(options: TopologyOptions, why: str) -> Topology:
    """Load the topology's code.

    Raises `ConfigError` with the reason `why` if only the topology's name is known.
    """
    return load_topology(reference_of(options, why))


def reference_of(options: TopologyOptions, why: str) -> str:
    """Return a reference to the topology's code. Raises `ConfigError` like `code_of`."""
    reference = options.topology or ""
    if not is_code(reference):
        reference = os.environ.get(_CODE, "")
    if not is_code(reference):
        raise ConfigError(
            f"the code of {options.name!r} is needed, because {why}: give --topology MODULE:ATTR"
        )
    found = load_topology(reference).name
    if found != options.name:
        raise ConfigError(
            f"{_CODE} is {reference}, which is the topology {found!r}, not {options.name!r}: give "
            "--topology MODULE:ATTR"
        )
    return reference


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
    if not options.is_far:
        return None
    cluster = open_cluster(options.namespace, options.context)
    try:
        workloads = find_topology(cluster, options.name)
    except ControlError as error:
        raise ControlError(
            f"{error}. For a topology outside Kubernetes, give --bootstrap HOST:PORT"
        ) from None
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


def _words(given: Mapping[str, Option]) -> list[str]:
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in given.items()
        if value is not None and value is not False
    ]


def code_if_available(options: TopologyOptions, why: str) -> Topology | None:
    """Return the topology's code if an option or the environment names it, as the environment of
    its pods does.

    Raises `ConfigError` with the reason `why` if the code is that of another topology.
    """
    named = (
        options.topology
        if is_code(options.topology or "")
        else os.environ.get("KSTORM_TOPOLOGY", "")
    )
    if not is_code(named or ""):
        return None
    return code_of(options, why)


def is_exactly_once(options: TopologyOptions) -> bool:
    """Return True if the topology's code is available and uses exactly once."""
    code = code_if_available(options, "its guarantee decides which letters can be replayed")
    return code is not None and code.config.exactly_once
