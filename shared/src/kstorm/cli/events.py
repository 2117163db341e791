"""`kstorm events`: list and record operators' actions on a topology.

kstorm events --topology wordcount --since 1d
"""

import time
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from kstorm.cli.json_output import JsonLines
from kstorm.cli.options import with_options
from kstorm.cli.place_options import TopologyOptions, in_pod
from kstorm.cli.target_options import Name
from kstorm.cli.time_options import parse_since, shown_time
from kstorm.operations.events.audit_log import record_event
from kstorm.printable import printable
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.kafka.event_log import read_events

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only events since then: 30m, 2h, 1d ago, or a time."),
]


@with_options(TopologyOptions)
def events(options: TopologyOptions, since: Since = None, json: JsonLines = False) -> None:
    """List what operators have done to a topology, oldest first."""
    in_pod(options, "events", {"since": since, "json": json})
    first = parse_since(since, int(time.time() * 1000)) if since else 0
    found = [event for event in read_events(options.settings, options.name) if event.at >= first]
    if json:
        for event in found:
            print(printable(msgspec.json.encode(event).decode()))
        return
    table = Table("when (UTC)", "who", "what", "note", "outcome")
    for event in found:
        table.add_row(
            shown_time(event.at),
            event.who,
            f"{event.verb} {event.what}".strip(),
            event.note,
            event.outcome,
        )
    Screen(markup=False, emoji=False, highlight=False).print(table if found else "no events")


def note(
    name: Name,
    verb: Annotated[str, typer.Argument(metavar="VERB")],
    what: Annotated[str, typer.Option()] = "",
    outcome: Annotated[str, typer.Option()] = "",
) -> None:
    """Record an action as an event. The last step of other commands runs this in a pod."""
    record_event(name, verb, what, outcome=outcome)
