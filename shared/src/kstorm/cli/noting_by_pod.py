"""Notes what was done to a topology on Kubernetes from a terminal that need not reach its Kafka: a pod of it does that.

It is written here where the environment names Kafka. As all noting it stops nobody: what cannot be noted is told, and goes on.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from kstorm.cli.cluster import Cluster
from kstorm.cli.finding import Name, find
from kstorm.cli.in_pod import PodCommand
from kstorm.cli.kafka_of import BOOTSTRAP
from kstorm.cli.noting import Deed, ended, note
from kstorm.errors import ControlError, KstormError


def note_here(
    name: Name,
    verb: Annotated[str, typer.Argument(metavar="VERB")],
    what: Annotated[str, typer.Option()] = "",
    outcome: Annotated[str, typer.Option()] = "",
) -> None:
    """What a command elsewhere has run in a pod at its end: its deed is among the events."""
    note(name, verb, what, outcome=outcome)


@contextmanager
def noted_by_pod(
    cluster: Cluster, topology: str, verb: str, what: str, who: str = ""
) -> Iterator[Deed]:
    """As `noted`: what is done within, and how it ended; by whom, else by who gives this command."""
    with ended(
        what, lambda what, outcome: _note(cluster, topology, verb, what, outcome, who)
    ) as deed:
        yield deed


def _note(cluster: Cluster, topology: str, verb: str, what: str, outcome: str, who: str) -> None:
    if BOOTSTRAP in os.environ:
        note(topology, verb, what, outcome=outcome, who=who)
        return
    try:
        pod = PodCommand(cluster, find(cluster, topology), "acker", "spout")
        code = pod.run(
            "note",
            f"--what={what}",
            f"--outcome={outcome}",
            "--",
            topology,
            verb,
            quiet=True,
            who=who,
        )
        if code:
            raise ControlError(f"{pod} could not note it; its image may be older than this command")
    except KstormError as error:
        print(f"kstorm: this is not among the events of {topology!r}: {error}", file=sys.stderr)
