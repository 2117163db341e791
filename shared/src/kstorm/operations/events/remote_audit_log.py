"""Record actions on Kubernetes through a pod, for terminals that cannot reach Kafka.

If the environment names a Kafka, this process writes the event. A failure is logged and does not
stop the action.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kstorm.errors import ControlError, KstormError
from kstorm.operations.events.audit_log import (
    BOOTSTRAP,
    RecordedAction,
    record_event,
    record_outcome,
)
from kstorm.operations.kubernetes.cluster import Cluster
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.kubernetes.topologies import find_topology

_log: Final = logging.getLogger(__name__)


@contextmanager
def recorded_by_pod(
    cluster: Cluster, topology: str, verb: str, what: str, who: str = ""
) -> Iterator[RecordedAction]:
    """Record an action and its outcome like `recorded`. `who` defaults to this command's operator."""
    with record_outcome(
        what, lambda what, outcome: _record_by_pod(cluster, topology, verb, what, outcome, who)
    ) as action:
        yield action


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
        _log.warning("this action is not recorded in the events of %r: %s", topology, error)
