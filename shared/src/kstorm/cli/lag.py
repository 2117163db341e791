"""`kstorm lag`: measure twice how far components are behind their input.

A pod runs this half of `kstorm causes`, because in many clusters only a pod can reach Kafka.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import typer

from kstorm.cli.options import with_options
from kstorm.cli.topology_options import TopologyOptions
from kstorm.operations.status.snapshots import Backlog
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.lag import LagReader

Backlogs = Mapping[str, Backlog]
"""Backlogs by component."""


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
    """Print the lag twice as JSON: by component the time and the records per partition."""
    print(encode(backlogs_of(options.settings, options.name, components)), flush=True)
    time.sleep(window)
    print(encode(backlogs_of(options.settings, options.name, components)), flush=True)


def backlogs_of(settings: Settings, topology: str, components: Sequence[str]) -> Backlogs:
    """Return the backlogs of components whose topics exist.

    Raises `BrokerError`, as `NoBrokerError` if no broker responds in 5 s.
    """
    there = Admin(settings).partition_counts(_PATIENCE_SECS)
    tasks = {
        name: there[f"{topology}.{name}"] for name in components if f"{topology}.{name}" in there
    }
    found = LagReader(settings).of(topology, tasks)
    return {name: Backlog(time.time(), behind) for name, behind in found.items()}


def encode(backlogs: Backlogs) -> str:
    """Encode backlogs as one line of JSON."""
    return msgspec.json.encode(backlogs).decode()


def decode(line: str) -> Backlogs:
    """Decode a line. Raises `msgspec.DecodeError` if it has another format."""
    return msgspec.json.decode(line, type=dict[str, Backlog])


_PATIENCE_SECS = 5.0
