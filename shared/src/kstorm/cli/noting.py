"""Record operators' actions as events of the topology, best effort: a failure does not stop them.

Topologies last started with kstorm 0.1 have no topic for events, so nothing is recorded.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from kstorm.cli.kafka_of import BOOTSTRAP
from kstorm.cli.who import operator
from kstorm.errors import KstormError
from kstorm.events import Event
from kstorm.runtime.kafka.event_log import write_event
from kstorm.runtime.service.settings import Settings, with_or_without_topology

_WITHIN_SECS: Final = 5.0


@dataclass(slots=True)
class Deed:
    """An action in progress. The caller may change its description and outcome."""

    what: str
    outcome: str = "done"


@contextmanager
def noted(
    topology: str,
    verb: str,
    what: str = "",
    *,
    said: str = "",
    who: str = "",
    settings: Settings | None = None,
) -> Iterator[Deed]:
    """Record an action and its outcome, which is that of the `Deed` or the error.

    Without `settings` the environment's Kafka is used. If it names none, nothing is recorded.
    """
    with ended(
        what,
        lambda what, outcome: note(
            topology, verb, what, said=said, outcome=outcome, who=who, settings=settings
        ),
    ) as deed:
        yield deed


@contextmanager
def ended(what: str, note: Callable[[str, str], None]) -> Iterator[Deed]:
    """Call `note` with an action's description and outcome, which is the `Deed`'s or the error."""
    deed = Deed(what)
    try:
        yield deed
    except KstormError as error:
        note(deed.what, str(error))
        raise
    note(deed.what, deed.outcome)


def note(
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

    If that fails, the reason is printed on stderr.
    """
    if settings is None:
        if BOOTSTRAP not in os.environ:
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
        write_event(settings, topology, event, _WITHIN_SECS)
    except KstormError as error:
        print(
            f"kstorm: this action is not recorded in the events of {topology!r}: {error}",
            file=sys.stderr,
        )
