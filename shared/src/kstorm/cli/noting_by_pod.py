"""Record actions on Kubernetes through a pod, for terminals that cannot reach Kafka.

If the environment names a Kafka, the event is written from here. A failure is printed and does not
stop the action.
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
    """Record an action as an event. Other commands run this in a pod as their last step."""
    note(name, verb, what, outcome=outcome)


@contextmanager
def noted_by_pod(
    cluster: Cluster, topology: str, verb: str, what: str, who: str = ""
) -> Iterator[Deed]:
    """Record an action and its outcome like `noted`. `who` defaults to this command's operator."""
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
            raise ControlError(
                f"{pod} could not record it; its image may be older than this command"
            )
    except KstormError as error:
        print(
            f"kstorm: this action is not recorded in the events of {topology!r}: {error}",
            file=sys.stderr,
        )
