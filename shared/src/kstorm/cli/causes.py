"""`kstorm causes NAME`: rank a topology's bottlenecks, on this machine or on Kubernetes.

On Kubernetes a pod runs one part of it, `kstorm lag`, because in many clusters only a pod can reach
Kafka.

kstorm causes wordcount
kstorm causes wordcount --namespace streams
"""

import os
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from kstorm.cli.kafka_options import Bootstrap, settings_for
from kstorm.cli.options import with_options
from kstorm.cli.target_options import Context, Name, Namespace
from kstorm.cli.topology_options import TopologyOptions
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.events.audit_log import BOOTSTRAP
from kstorm.operations.kubernetes.cluster import is_named, open_cluster
from kstorm.operations.status.backlogs import backlogs_of, encode
from kstorm.operations.status.bottlenecks import bottlenecks_of as rank
from kstorm.operations.status.bottlenecks import describe
from kstorm.operations.status.sampling import (
    KubernetesSampler,
    LocalSampler,
    TopologySampler,
    sample_twice,
)
from kstorm.printable import printable
from kstorm.runtime.run_files import find, runs_folder


def causes(
    name: Name,
    window: Annotated[
        float,
        typer.Option(
            "--window",
            min=0.1,
            metavar="SECONDS",
            help="Seconds between the two snapshots of each process.",
        ),
    ] = 5.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    from_runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="DIR",
            help="Look on this machine, in the folder of one run or of several.",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """List what slows a topology down, most significant first.

    Causes are components that are busy, missing or waiting.
    """
    seen = sample_twice(_watched(name, from_runs, bootstrap, namespace, context), window)
    found = rank(seen.components, seen.no_broker)
    if json:
        print(msgspec.json.encode(found).decode())
        return
    for cause in found:
        print(printable(describe(cause, time.time())))
        for line in cause.evidence:
            print(printable(f"    {line}"))
    if not found:
        print(f"nothing slows {name} down: all of its processes run, and none is busy or waiting")


def _watched(
    name: str,
    from_runs: Path | None,
    bootstrap: str | None,
    namespace: str | None,
    context: str | None,
) -> TopologySampler:
    far = namespace is not None or context is not None
    if from_runs is not None and (far or bootstrap is not None):
        raise ConfigError(
            "--runs is for a topology on this machine, whose run names the address of its Kafka; "
            "--bootstrap, --namespace and --context are for one on Kubernetes: give one or the "
            "other"
        )
    if from_runs is not None or (
        not far and any(each.name == name for each in find(runs_folder()))
    ):
        return LocalSampler(from_runs or runs_folder(), name)
    if not far and not is_named():
        there = ", ".join(sorted(each.name for each in find(runs_folder()))) or "none"
        raise ControlError(
            f"no topology {name!r} runs from {runs_folder()} (running there: {there}), and there is no "
            "kubeconfig: give the folder of its run with --runs, or --context"
        )
    here = bootstrap is not None or BOOTSTRAP in os.environ
    clusters = open_cluster(namespace, context), open_cluster(namespace, context)
    return KubernetesSampler(*clusters, name, settings_for(bootstrap) if here else None)


@with_options(TopologyOptions)
def lag(
    options: TopologyOptions,
    components: Annotated[
        list[str], typer.Argument(metavar="COMPONENT…", help="Bolts, and __acker.")
    ],
    window: Annotated[
        float,
        typer.Option(
            "--window", min=0.0, metavar="SECONDS", help="Seconds between the two snapshots."
        ),
    ] = 5.0,
) -> None:
    """Measure the lag twice and print it as JSON: for each component the time and the records by
    partition.
    """
    print(encode(backlogs_of(options.settings, options.name, components)), flush=True)
    time.sleep(window)
    print(encode(backlogs_of(options.settings, options.name, components)), flush=True)
