"""`kstorm lag`: measure twice how far components are behind their input.

A pod runs this half of `kstorm causes`, because in many clusters only a pod can reach Kafka.
"""

import time
from typing import Annotated

import typer

from kstorm.cli.options import with_options
from kstorm.cli.topology_options import TopologyOptions
from kstorm.operations.status.backlogs import backlogs_of, encode


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
