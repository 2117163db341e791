"""Record operators' actions as events of the topology. If an event cannot be recorded, the action
continues.

Topologies last started with kstorm 0.1 have no topic for events, so their actions are not recorded.
The reason is logged.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from kstorm.errors import KstormError
from kstorm.events import Event
from kstorm.operations.events.operator_identity import operator
from kstorm.runtime.base.settings import Settings, with_or_without_topology
from kstorm.runtime.kafka.event_log import write_event

BOOTSTRAP: Final = "KSTORM_BOOTSTRAP_SERVERS"
_WITHIN_SECS: Final = 5.0
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class RecordedAction:
    """An action in progress. The caller may change its description and outcome."""

    what: str
    outcome: str = "done"


@contextmanager
def recorded(
    topology: str,
    verb: str,
    what: str = "",
    *,
    said: str = "",
    who: str = "",
    settings: Settings | None = None,
) -> Iterator[RecordedAction]:
    """Record an action and its outcome: the outcome of the `RecordedAction`, or the error.

    Without `settings` the environment's Kafka is used.
    """
    with record_outcome(
        what,
        lambda what, outcome: record_event(
            topology, verb, what, said=said, outcome=outcome, who=who, settings=settings
        ),
    ) as action:
        yield action


@contextmanager
def record_outcome(what: str, record: Callable[[str, str], None]) -> Iterator[RecordedAction]:
    """Run an action, and then call `record` with its description and outcome.

    The outcome is the one that the `RecordedAction` contains, or the text of the error.
    """
    action = RecordedAction(what)
    try:
        yield action
    except KstormError as error:
        record(action.what, str(error))
        raise
    record(action.what, action.outcome)


def record_event(
    topology: str,
    verb: str,
    what: str = "",
    *,
    said: str = "",
    outcome: str = "",
    who: str = "",
    settings: Settings | None = None,
) -> None:
    """Record an action. `who` defaults to the operator of this command.

    If the event cannot be written, this logs the reason.
    """
    if settings is None:
        if BOOTSTRAP not in os.environ:
            _warn(topology, f"no Kafka is named; give --bootstrap, or set {BOOTSTRAP}")
            return
        settings = with_or_without_topology(os.environ)
    event = Event(
        at=int(time.time() * 1000),
        who=who or operator(),
        verb=verb,
        what=what,
        note=said,
        outcome=outcome,
    )
    try:
        if not write_event(settings, topology, event, _WITHIN_SECS):
            _warn(topology, "Kafka has no topic for them; restart the topology to create it")
    except KstormError as error:
        _warn(topology, str(error))


def _warn(topology: str, why: str) -> None:
    _log.warning("this action is not recorded in the events of %r: %s", topology, why)
