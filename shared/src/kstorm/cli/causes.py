"""`kstorm causes NAME`: rank a topology's bottlenecks, on this machine or on Kubernetes.

On Kubernetes a pod runs one part of it, `kstorm lag`, because in many clusters only a pod can reach
Kafka.

kstorm causes wordcount
kstorm causes wordcount --namespace streams
"""

import os
import time
from typing import Annotated

import msgspec
import typer

from kstorm.cli.json_output import Json
from kstorm.cli.options import with_options
from kstorm.cli.place_options import (
    PlaceOptions,
    RunOptions,
    TopologyOptions,
    name_of,
    settings_for,
)
from kstorm.cli.target_options import Name
from kstorm.operations.places import BOOTSTRAP, LocalRun
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


@with_options(PlaceOptions)
def causes(
    options: PlaceOptions,
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
    json: Json = False,
) -> None:
    """List what slows a topology down, most significant first.

    Causes are components that are busy, missing or waiting.
    """
    name = name_of(name)
    seen = sample_twice(_watched(options, name), window)
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


def _watched(options: PlaceOptions, name: str) -> TopologySampler:
    """Return the topology. `--bootstrap` names a Kafka for the lag of a topology on Kubernetes."""
    if options.runs is not None:
        options.choice.check()
    only = RunOptions(runs=options.runs, namespace=options.namespace, context=options.context)
    place = only.find(name)
    if isinstance(place, LocalRun):
        return LocalSampler(place.folder, name)
    here = options.bootstrap is not None or BOOTSTRAP in os.environ
    return KubernetesSampler(
        place.open(), place.open(), name, settings_for(options.bootstrap) if here else None
    )


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
    partition."""
    print(encode(backlogs_of(options.settings, options.name, components)), flush=True)
    time.sleep(window)
    print(encode(backlogs_of(options.settings, options.name, components)), flush=True)
