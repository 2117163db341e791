"""`kstorm lag`: how far components of a topology are behind, twice. This half of `kstorm causes` is done by a pod, which alone can
reach Kafka in many a cluster."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import typer

from kstorm.cli.kafka_of import TopologyOptions
from kstorm.cli.options import with_options
from kstorm.inspect.looks import Backlog
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.lag import Lag
from kstorm.runtime.service.settings import Settings

Backlogs = Mapping[str, Backlog]
"""By component."""


@with_options(TopologyOptions)
def lag(
    options: TopologyOptions,
    components: Annotated[
        list[str], typer.Argument(metavar="COMPONENT…", help="Bolts, and __acker.")
    ],
    window: Annotated[
        float, typer.Option("--window", min=0.0, metavar="SECONDS", help="Between the two looks.")
    ] = 5.0,
) -> None:
    """Prints it, a JSON object each time: by component the time, and by partition the records."""
    print(encode(backlogs_of(options.settings, options.name, components)), flush=True)
    time.sleep(window)
    print(encode(backlogs_of(options.settings, options.name, components)), flush=True)


def backlogs_of(settings: Settings, topology: str, components: Sequence[str]) -> Backlogs:
    """Of those whose topics are there. Raises `BrokerError`, as `NoBrokerError` if no broker answers in 5 s."""
    there = Admin(settings).partition_counts(_PATIENCE_SECS)
    tasks = {
        name: there[f"{topology}.{name}"] for name in components if f"{topology}.{name}" in there
    }
    found = Lag(settings).of(topology, tasks)
    return {name: Backlog(time.time(), behind) for name, behind in found.items()}


def encode(backlogs: Backlogs) -> str:
    """As it is printed."""
    return msgspec.json.encode(backlogs).decode()


def decode(line: str) -> Backlogs:
    """What was printed. Raises `msgspec.DecodeError` if it is something else."""
    return msgspec.json.decode(line, type=dict[str, Backlog])


_PATIENCE_SECS = 5.0
