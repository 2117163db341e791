"""Options and setup shared by `kstorm trace` and `kstorm why`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

import typer

from kstorm.cli.place_options import TopologyOptions, find_or_hint
from kstorm.cli.progress import ReadProgress
from kstorm.errors import ConfigError, TopicError
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.places import OnKubernetes
from kstorm.operations.traces.topic_log import ReadBudget, TopicLog
from kstorm.operations.traces.topology_traces import TopologyTraces
from kstorm.operations.traces.tracer import Tracer
from kstorm.runtime.kafka.admin import Admin

Coordinates = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC/PARTITION/OFFSET",
        help="A message of a source topic: sentences/3/10482.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class TraceOptions(TopologyOptions):
    """Options that select the topology whose topics are read, and limit the amount that is read."""

    component: Annotated[
        str | None,
        typer.Option("--component", metavar="ID", help="The spout, if several read the topic."),
    ] = None
    limit_mb: Annotated[
        int,
        typer.Option(
            "--limit-mb", min=1, metavar="MB", help="Read at most this much from the topics."
        ),
    ] = 2048
    within: Annotated[
        float, typer.Option("--within", min=0.1, metavar="SECS", help="Longest time to read.")
    ] = 60.0


def check_far_url(url: str) -> None:
    """Raise `ConfigError` if a collector's URL is local, because a pod could not reach that
    address."""
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
    if not isinstance(options.place, OnKubernetes):
        return
    cluster = options.place.open()
    pod = PodCommand(cluster, find_or_hint(cluster, options.name), *kinds)
    limits = [f"--limit-mb={options.limit_mb}", f"--within={options.within:g}"]
    which = [] if options.component is None else [f"--component={options.component}"]
    raise typer.Exit(pod.run(*words, *which, *limits, "--", *arguments))


@contextmanager
def open_traces(options: TraceOptions) -> Iterator[TopologyTraces]:
    """Open the topology that the options name. At the end, print a note if a limit stopped the
    reading."""
    (outline, code), settings = options.outline(), options.settings
    topics = {outline.bolt_topic(bolt.id) for bolt in outline.bolts}
    topics |= {outline.acker_topic} if outline.acker_tasks else set()
    missing = topics - Admin(settings).partition_counts().keys()
    if missing:
        raise TopicError(
            f"the topology {outline.name!r} has no topic {min(missing)!r} at "
            f"{settings.bootstrap_servers}: is it installed?"
        )
    with ReadProgress() as progress:
        budget = ReadBudget(options.limit_mb * 1_000_000, options.within, progress.tell)
        with TopicLog(settings, budget) as log:
            yield TopologyTraces(outline, settings, log, Tracer(outline, log), code)
    if budget.exhausted:
        print(f"kstorm: not all data was read: {budget.exhausted}", file=sys.stderr)
