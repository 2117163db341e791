"""`kstorm dlq`: read, group, replay, edit and discard a topology's dead letters.

    kstorm dlq list --topology wordcount --group
    kstorm dlq show --topology wordcount 17
    kstorm dlq replay --topology wordcount --group 3f2a --rate 50
    kstorm dlq edit --topology wordcount 17
    kstorm dlq discard --topology wordcount --group 3f2a --note "the products are gone"

A letter's number is its offset in the topic `<topology>.__dead_letters`. Only `show`, `export` and
`edit` print message contents.
"""

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec
import typer

from kstorm.cli.dlq_edit import confirm, edit
from kstorm.cli.letter_view import (
    fields_of,
    json_of,
    json_of_group,
    line_of,
    table_of,
    table_of_groups,
)
from kstorm.cli.options import with_options
from kstorm.cli.progress import ReadProgress
from kstorm.cli.time_options import parse_since
from kstorm.cli.topology_options import (
    Option,
    TopologyOptions,
    code_if_available,
    code_of,
    in_pod,
    is_exactly_once,
    run_remotely,
)
from kstorm.core.dead_letters import DeadLetter
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.events.audit_log import recorded
from kstorm.operations.events.operator_identity import operator
from kstorm.operations.formatting import counted
from kstorm.operations.letters.copying import (
    ReplayMode,
    copy_recorded,
    select_copies,
)
from kstorm.operations.letters.discarding import check_discardable, discard_all, when_deleted
from kstorm.operations.letters.reading import (
    MOST_NUMBERS,
    now_ms,
    numbers_of,
    read_letters,
    read_one,
    read_whole,
    record_of,
    select,
)
from kstorm.operations.letters.replaying import replayable, request_replays
from kstorm.operations.letters.selection import (
    FINGERPRINT_DIGITS,
    CurrentLetters,
    LetterRecord,
    LetterSelection,
    NumberedLetter,
    current_letters,
    fingerprint,
    group_letters,
)
from kstorm.operations.letters.timeout_reason import check_timed_out, timeout_reason
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
OfGroup = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="HEX", help="Only letters of this group. The first digits are enough."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]

_CANARY: Final = (
    "With --all and --group: replay 1 first, then 10, then the rest. Stop if more than 20 % "
    "fail again."
)


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
    json: Json = False,
) -> None:
    """List the letters, oldest first, or groups of them, largest first.

    Message contents are not shown.
    """
    given = {"kind": kind, "component": component, "since": since, "match": match}
    in_pod(options, "dlq list", {"group": group, "json": json, **given})
    letters = _chosen(read_letters(options.settings, options.name), _selection((), None, **given))
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
    number: Annotated[
        int,
        typer.Argument(metavar="NUMBER", min=0, help="Number of the letter.", show_default=False),
    ],
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the record as JSON, with the message in base64.")
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
) -> None:
    """Print complete letters, one JSON object per line, with messages in base64."""
    given = {"kind": kind, "component": component, "since": since, "match": match}
    in_pod(options, "dlq export", {"group": group, **given})
    letters = _chosen(read_letters(options.settings, options.name), _selection((), group, **given))
    for one in read_whole(options.settings, options.name, letters):
        print(json_of(one, whole=True))


@app.command()
@with_options(TopologyOptions)
def discard(
    options: TopologyOptions,
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="NUMBER…", help="Numbers of the letters.")
    ] = None,
    group: OfGroup = None,
    note: Annotated[
        str,
        typer.Option(metavar="TEXT", help="The reason. It is recorded in the topology's events."),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the letters.")] = False,
) -> None:
    """Discard letters. They are not listed anymore, and Kafka deletes their contents."""
    if bool(numbers) == bool(group):
        raise ConfigError("which letters? Give their numbers, or --group")
    wanted = numbers or []
    if options.is_far:
        _far(
            options,
            "discard",
            {"group": group, "note": note or None},
            wanted,
            yes=yes,
            dry_run=dry_run,
        )
    found = read_letters(options.settings, options.name)
    letters = select(found, _selection(wanted, group))
    _check_discardable(options, found, letters, wanted, group)
    _show_some(letters)
    if dry_run:
        return
    if not yes:
        confirm("discard", options.name, len(letters))
    with recorded(
        options.name, "discard", numbers_of(letters, group), said=note, settings=options.settings
    ) as action:
        afterwards = when_deleted(options.settings, options.name)
        action.outcome = discard_all(options.settings, options.name, letters)
    print(f"{action.outcome}{afterwards}")


@app.command()
@with_options(TopologyOptions)
def replay(
    options: TopologyOptions,
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="NUMBER…", help="Numbers of the letters.")
    ] = None,
    group: OfGroup = None,
    every: Annotated[bool, typer.Option("--all", help="All letters that can be replayed.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Replay at most N letters, the oldest first."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N", min=0.001, help="Replay at most N per second. Default: no limit."
        ),
    ] = None,
    note: Annotated[
        str,
        typer.Option(metavar="TEXT", help="The reason. It is recorded in the topology's events."),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also replay messages that were replayed three times.")
    ] = False,
    mode: Annotated[
        ReplayMode,
        typer.Option(
            help=(
                "order: the spout emits the message again. produce: copy it to a topic, if no "
                "spout can."
            )
        ),
    ] = ReplayMode.ORDER,
    to: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Topic for the copies. Default: their own topics."),
    ] = None,
    canary: Annotated[bool, typer.Option("--canary/--no-canary", help=_CANARY)] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the letters.")] = False,
) -> None:
    """Replay the messages of dead letters through their spouts, at their own coordinates.

    A letter is discarded once its message has been processed.
    """
    if bool(numbers) + bool(group) + every != 1:
        raise ConfigError("which letters? Give their numbers, --group or --all")
    if to is not None and mode is ReplayMode.ORDER:
        raise ConfigError("--to is for copies: give --mode produce too")
    wanted = numbers or []
    if options.is_far:
        given: dict[str, Option] = {"group": group, "all": every, "limit": limit, "rate": rate}
        given |= {"note": note or None, "force": force, "no-canary": not canary}
        given |= {"mode": mode.value if mode is ReplayMode.PRODUCE else None, "to": to}
        _far(options, "replay", given, wanted, yes=yes, dry_run=dry_run)
    found = read_letters(options.settings, options.name)
    selected = select(found, _selection(wanted, group))
    _check_there(options, selected, wanted)
    copies = (
        select_copies(
            options.settings,
            options.name,
            selected,
            code_if_available(options, "copies are only for spouts that cannot replay"),
            to=to,
            force=force,
        )
        if mode is ReplayMode.PRODUCE
        else None
    )
    letters, others = (
        copies[:2]
        if copies
        else replayable(
            options.settings,
            options.name,
            selected,
            force=force,
            exactly_once=is_exactly_once(options),
        )
    )
    for why, count in others.items():
        print(f"kstorm: {count:,} not replayed: {why}", file=sys.stderr)
    if wanted and others:
        raise ControlError("nothing was copied" if copies else "no replay was requested")
    letters = letters[:limit]
    if not letters:
        raise ControlError(
            f"no selected dead letter of {options.name!r} can be replayed; it has "
            f"{len(found.letters):,}"
        )
    _show_some(letters)
    if dry_run:
        return
    if not yes:
        confirm("copy" if copies else "replay", options.name, len(letters))
    what = numbers_of(letters, group)
    if copies:
        copy_recorded(
            options.settings,
            options.name,
            copies._replace(letters=letters),
            what,
            to=to,
            rate=rate,
            note=note,
            report=print,
        )
        return
    by_stages = canary and not wanted and len(letters) > 1
    with recorded(options.name, "replay", what, said=note, settings=options.settings) as action:
        action.outcome = request_replays(
            options.settings,
            options.name,
            letters,
            rate=rate,
            who=operator(),
            note=note,
            by_stages=by_stages,
        )
    print(f"{action.outcome}: `kstorm events` shows the outcome of each")


app.command()(edit)


@app.command()
@with_options(TopologyOptions)
def watch(
    options: TopologyOptions,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECS", min=0, help="Exit after this time. Default: at Ctrl-C."),
    ] = None,
    json: Json = False,
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
    check_timed_out(letter)
    topology = code_of(options, "it defines the topics of its tuples")
    with ReadProgress() as progress:
        return "\n".join(timeout_reason(topology, options.settings, letter, progress.tell))


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


def _far(
    options: TopologyOptions,
    verb: str,
    given: Mapping[str, Option],
    numbers: Sequence[int],
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Run the command in a pod, but ask for confirmation here. Exits with the command's code."""
    if not yes or dry_run:
        code = run_remotely(options, f"dlq {verb}", {**given, "dry-run": True}, numbers)
        if code or dry_run:
            raise typer.Exit(code or 0)
        confirm(verb, options.name)
    in_pod(options, f"dlq {verb}", {**given, "yes": True}, numbers)


def _check_there(
    options: TopologyOptions, letters: Sequence[NumberedLetter], numbers: Sequence[int]
) -> None:
    missing = set(numbers) - {one.number for one in letters}
    if missing:
        raise ControlError(
            f"{options.name!r} has no dead letter {', '.join(map(str, sorted(missing)))}: it was "
            "discarded, or replaced by a newer one of the same message; `kstorm dlq list` lists "
            "the current ones. Nothing was changed"
        )


def _check_discardable(
    options: TopologyOptions,
    found: CurrentLetters,
    letters: Sequence[NumberedLetter],
    numbers: Sequence[int],
    group: str | None,
) -> None:
    _check_there(options, letters, numbers)
    if not letters:
        raise ControlError(
            f"no dead letter of {options.name!r} is in the group {group}; it has "
            f"{len(found.letters):,}"
        )
    check_discardable(options.name, letters)


def _show_some(letters: Sequence[NumberedLetter]) -> None:
    Screen(markup=False, emoji=False, highlight=False).print(table_of(letters[:MOST_NUMBERS]))
    if len(letters) > MOST_NUMBERS:
        print(f"and {len(letters) - MOST_NUMBERS:,} more")


def _selection(
    numbers: Sequence[int],
    group: str | None,
    *,
    kind: str | None = None,
    component: str | None = None,
    since: str | None = None,
    match: str | None = None,
) -> LetterSelection:
    """Raise `ConfigError` if an option is invalid."""
    if group is not None and not re.fullmatch(f"[0-9a-f]{{4,{FINGERPRINT_DIGITS}}}", group):
        raise ConfigError(
            f"--group {group}: give 4 to {FINGERPRINT_DIGITS} hex digits, as `kstorm dlq list "
            "--group` prints them"
        )
    try:
        re.compile(match or "")
    except re.error as error:
        raise ConfigError(f"--match {match}: not a regular expression: {error}") from None
    return LetterSelection(
        numbers=frozenset(numbers),
        group=group or "",
        kind=kind or "",
        component=component or "",
        since=parse_since(since, now_ms()) if since else 0,
        match=match or "",
    )


def _chosen(found: CurrentLetters, selection: LetterSelection) -> list[NumberedLetter]:
    if found.strange:
        print(
            f"kstorm: left out {counted(found.strange, 'invalid record')} of the dead-letter topic",
            file=sys.stderr,
        )
    return select(found, selection)
