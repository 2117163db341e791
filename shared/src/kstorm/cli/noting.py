"""Notes what an operator does among the topology's events, as well as that can be done: it stops nobody.

A topology that was last started with kstorm 0.1 has no topic for them, and nothing is noted.
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
    """What is done, as far as it is known by then."""

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
    """Notes what is done within, and how it ended: as is said of the deed meanwhile, or why it failed. Without `settings` Kafka is
    the environment's, and if that names none, nothing is noted."""
    with ended(
        what,
        lambda what, outcome: note(
            topology, verb, what, said=said, outcome=outcome, who=who, settings=settings
        ),
    ) as deed:
        yield deed


@contextmanager
def ended(what: str, note: Callable[[str, str], None]) -> Iterator[Deed]:
    """Has `note` take what was done within and how it ended: as is said of the deed meanwhile, or why it failed."""
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
    """Notes what was done, by whom, else by who gives this command; says on standard error why it could not, if so."""
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
        print(f"kstorm: this is not among the events of {topology!r}: {error}", file=sys.stderr)
