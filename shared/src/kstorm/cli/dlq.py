"""`kstorm dlq`: read, group, replay, edit and discard a topology's dead letters.

    kstorm dlq list --topology wordcount --group
    kstorm dlq show --topology wordcount 17
    kstorm dlq replay --topology wordcount --group 3f2a --rate 50
    kstorm dlq edit --topology wordcount 17
    kstorm dlq discard --topology wordcount --group 3f2a --note "the products are gone"

A letter's number is its offset in the topic `<topology>.__dead_letters`. Only `show`, `export` and
`edit` print message contents.
"""

import sys
import time
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from kstorm.cli.dlq_edit import Number, edit
from kstorm.cli.dlq_replay import OfGroup, discard, replay, select_valid, selection_of
from kstorm.cli.json_output import JsonLines
from kstorm.cli.letter_view import (
    fields_of,
    json_of,
    json_of_group,
    line_of,
    table_of,
    table_of_groups,
)
from kstorm.cli.options import with_options
from kstorm.cli.place_options import TopologyOptions, in_pod
from kstorm.cli.progress import ReadProgress
from kstorm.core.dead_letters import DeadLetter
from kstorm.operations.letters.reading import read_letters, read_one, read_whole, record_of
from kstorm.operations.letters.selection import (
    LetterRecord,
    NumberedLetter,
    current_letters,
    fingerprint,
    group_letters,
)
from kstorm.printable import printable
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.kafka.single_partition_topic import follow_topic
from kstorm.topology.names import NamesOf

app = typer.Typer(help="Read, replay and discard a topology's dead letters.", no_args_is_help=True)

Kind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND", help="Only letters of this kind: undecodable, failed, timed_out, …"
    ),
]
Component = Annotated[
    str | None, typer.Option(metavar="ID", help="Only letters of this component.")
]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only letters since then: 30m, 2h, 1d ago, or a time."),
]
Match = Annotated[
    str | None, typer.Option(metavar="RE", help="Only letters whose reason or error matches.")
]


@app.command("list")
@with_options(TopologyOptions)
def list_(
    options: TopologyOptions,
    group: Annotated[
        bool, typer.Option("--group", help="Print one line per group of similar letters.")
    ] = False,
    kind: Kind = None,
    component: Component = None,
    since: Since = None,
    match: Match = None,
    json: JsonLines = False,
) -> None:
    """List the letters, oldest first, or groups of them, largest first.

    Message contents are not shown.
    """
    given = {"kind": kind, "component": component, "since": since, "match": match}
    in_pod(options, "dlq list", {"group": group, "json": json, **given})
    letters = select_valid(
        read_letters(options.settings, options.name), selection_of((), None, **given)
    )
    alike = group_letters(letters) if group else []
    if json:
        for line in map(json_of_group, alike) if group else map(json_of, letters):
            print(line)
        return
    screen = Screen(markup=False, emoji=False, highlight=False)
    screen.print(
        (table_of_groups(alike) if group else table_of(letters)) if letters else "no dead letters"
    )


@app.command()
@with_options(TopologyOptions)
def show(
    options: TopologyOptions,
    number: Number,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", "--json", help="Print the record as JSON, with the message in base64."
        ),
    ] = False,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="For a timed-out message: find in the topics what its tree waited for."
        ),
    ] = False,
) -> None:
    """Show everything about a letter, including its message's content."""
    in_pod(options, "dlq show", {"raw": raw, "why": why}, [number])
    one = read_one(options.settings, options.name, number)
    if why:
        told = _timeout_reason(options, one.letter)
        one = msgspec.structs.replace(
            one, letter=msgspec.structs.replace(one.letter, waiting_on=told)
        )
    if raw:
        print(json_of(one, whole=True))
        return
    for name, text in fields_of(one):
        if text:
            print(f"{printable(name):<11} {printable(text)}")


@app.command()
@with_options(TopologyOptions)
def export(
    options: TopologyOptions,
    group: OfGroup = None,
    kind: Kind = None,
    component: Component = None,
    since: Since = None,
    match: Match = None,
    json: JsonLines = False,
) -> None:
    """Print complete letters, one JSON object per line, with messages in base64."""
    given = {"kind": kind, "component": component, "since": since, "match": match}
    # The letters are JSON in any case.
    del json
    in_pod(options, "dlq export", {"group": group, **given})
    letters = select_valid(
        read_letters(options.settings, options.name), selection_of((), group, **given)
    )
    for one in read_whole(options.settings, options.name, letters):
        print(json_of(one, whole=True))


for verb in (discard, replay, edit):
    app.command()(verb)


@app.command()
@with_options(TopologyOptions)
def watch(
    options: TopologyOptions,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECS", min=0, help="Exit after this time. Default: at Ctrl-C."),
    ] = None,
    json: JsonLines = False,
) -> None:
    """Print letters as they arrive. Exit with code 1 at the first letter of a new group."""
    in_pod(options, "dlq watch", {"timeout": timeout, "json": json})
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        for one, known in _coming(options, deadline):
            print(json_of(one) if json else printable(line_of(one)), flush=True)
            if not known:
                raise typer.Exit(1)
    except KeyboardInterrupt:
        return


def _timeout_reason(options: TopologyOptions, letter: DeadLetter) -> str:
    # Reading trees needs numpy, which takes longer to load than the other commands take.
    from kstorm.operations.letters.timeout_reason import check_timed_out, timeout_reason

    check_timed_out(letter)
    outline, _ = options.outline()
    with ReadProgress() as progress:
        return "\n".join(timeout_reason(outline, options.settings, letter, progress.tell))


def _coming(
    options: TopologyOptions, deadline: float | None
) -> Iterator[tuple[NumberedLetter, bool]]:
    """Yield new letters, each with True if its group already had one."""
    known: set[str] | None = None
    before: list[LetterRecord] = []
    for message in follow_topic(options.settings, NamesOf(options.name).dead_letters_topic):
        if message is None:
            if known is None:
                known = {fingerprint(one.letter) for one in current_letters(before).letters}
                print(f"kstorm: {len(known)} groups so far", file=sys.stderr, flush=True)
            if deadline is not None and time.monotonic() >= deadline:
                return
            continue
        record = record_of(message)
        if known is None:
            before.append(record)
            continue
        for one in current_letters([record]).letters:
            name = fingerprint(one.letter)
            yield one, name in known
            known.add(name)
