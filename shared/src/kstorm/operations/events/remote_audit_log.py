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

from kstorm.cli.target_options import Name, find_topology
from kstorm.cli.topology_options import BOOTSTRAP
from kstorm.errors import ControlError, KstormError
from kstorm.operations.events.audit_log import RecordedAction, record_event, record_outcome
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.pod_command import PodCommand


def record_event_here(
    name: Name,
    verb: Annotated[str, typer.Argument(metavar="VERB")],
    what: Annotated[str, typer.Option()] = "",
    outcome: Annotated[str, typer.Option()] = "",
) -> None:
    """Record an action as an event. Other commands run this in a pod as their last step."""
    record_event(name, verb, what, outcome=outcome)


@contextmanager
def recorded_by_pod(
    cluster: Cluster, topology: str, verb: str, what: str, who: str = ""
) -> Iterator[RecordedAction]:
    """Record an action and its outcome like `noted`. `who` defaults to this command's operator."""
    with record_outcome(
        what, lambda what, outcome: _record_by_pod(cluster, topology, verb, what, outcome, who)
    ) as deed:
        yield deed


def _record_by_pod(
    cluster: Cluster, topology: str, verb: str, what: str, outcome: str, who: str
) -> None:
    if BOOTSTRAP in os.environ:
        record_event(topology, verb, what, outcome=outcome, who=who)
        return
    try:
        pod = PodCommand(cluster, find_topology(cluster, topology), "acker", "spout")
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
