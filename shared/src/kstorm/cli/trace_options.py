"""Options and setup shared by `kstorm trace` and `kstorm why`."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

import typer

from kstorm.cli.pod_choice import pod_of
from kstorm.cli.progress import ReadProgress
from kstorm.cli.target_options import Context, Namespace
from kstorm.errors import ConfigError, TopicError
from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.traces.topic_log import ReadBudget, TopicLog
from kstorm.operations.traces.topology_traces import TopologyTraces
from kstorm.operations.traces.tracer import Tracer
from kstorm.references import is_code
from kstorm.runtime.base.settings import load_topology, with_or_without_topology
from kstorm.runtime.kafka.admin import Admin

Coordinates = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC/PARTITION/OFFSET",
        help="A message of a source topic: sentences/3/10482.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Options that select the topology whose topics are read, and limit the amount that is read."""

    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            metavar="MODULE:ATTR|NAME",
            envvar="KSTORM_TOPOLOGY",
            help="The topology: its code or YAML file here, or its name on Kubernetes.",
        ),
    ] = None
    """`package.module:attribute`, or a name on Kubernetes. With a name, the command runs in a pod
    of the topology.
    """
    component: Annotated[
        str | None,
        typer.Option("--component", metavar="ID", help="The spout, if several read the topic."),
    ] = None
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            metavar="HOST:PORT",
            help="Kafka's address. Default: KSTORM_BOOTSTRAP_SERVERS.",
        ),
    ] = None
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            metavar="HOST:PORT",
            help="ZooKeeper's address. Default: KSTORM_ZOOKEEPER.",
        ),
    ] = None
    limit_mb: Annotated[
        int,
        typer.Option(
            "--limit-mb", min=1, metavar="MB", help="Read at most this much from the topics."
        ),
    ] = 2048
    within: Annotated[
        float, typer.Option("--within", min=0.1, metavar="SECONDS", help="Longest time to read.")
    ] = 60.0
    namespace: Namespace = None
    context: Context = None


def is_on_kubernetes(options: TraceOptions) -> bool:
    """Return True if the topology is given by its name on Kubernetes."""
    return bool(options.topology) and not is_code(str(options.topology))


def check_far_url(url: str) -> None:
    """Raise `ConfigError` if a collector's URL is local, because a pod could not reach that
    address.
    """
    if urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError(
            f"--otlp {url}: a pod of the topology sends, and this address is the pod itself: give "
            "a URL that pods can reach"
        )


def run_in_pod(
    options: TraceOptions,
    *words: str,
    arguments: Sequence[str] = (),
    kinds: Sequence[str] = ("spout", "acker"),
) -> None:
    """Run `kstorm WORDS` in a pod and exit with its code. Returns if the command is to run here."""
    found = pod_of(options, kinds)
    if found is None:
        return
    pod, _ = found
    limits = [f"--limit-mb={options.limit_mb}", f"--within={options.within:g}"]
    which = [] if options.component is None else [f"--component={options.component}"]
    raise typer.Exit(pod.run(*words, *which, *limits, "--", *arguments))


@contextmanager
def open_traces(options: TraceOptions) -> Iterator[TopologyTraces]:
    """Open the topology that the options name. At the end, print a note if a limit stopped the
    reading.
    """
    given = {"BOOTSTRAP_SERVERS": options.bootstrap, "ZOOKEEPER": options.zookeeper}
    overrides = {f"KSTORM_{name}": value for name, value in given.items() if value is not None}
    settings = with_or_without_topology(os.environ | overrides)
    if not options.topology:
        raise ConfigError(
            "which topology? Give --topology package.module:attribute, or its name on Kubernetes"
        )
    topology = load_topology(options.topology)
    missing = topology.topics().keys() - Admin(settings).partition_counts().keys()
    if missing:
        raise TopicError(
            f"the topology {topology.name!r} has no topic {min(missing)!r} at "
            f"{settings.bootstrap_servers}: is it installed?"
        )
    with ReadProgress() as progress:
        budget = ReadBudget(options.limit_mb * 1_000_000, options.within, progress.tell)
        with TopicLog(settings, budget) as log:
            shape = outline_of(topology)
            yield TopologyTraces(topology, shape, settings, log, Tracer(shape, log))
    if budget.exhausted:
        print(f"kstorm: not all data was read: {budget.exhausted}", file=sys.stderr)
