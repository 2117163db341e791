"""`kstorm dlq replay` and `discard`, and the selection of letters."""

import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Final

import typer

from kstorm.cli.dlq_edit import Note, Yes, confirm
from kstorm.cli.json_output import Json, print_outcome, prose_on_stderr
from kstorm.cli.letter_view import table_of
from kstorm.cli.options import with_options
from kstorm.cli.place_options import (
    Option,
    TopologyOptions,
    code_if_available,
    in_pod,
    run_remotely,
)
from kstorm.cli.time_options import parse_since
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.events.audit_log import recorded
from kstorm.operations.events.operator_identity import operator
from kstorm.operations.formatting import counted
from kstorm.operations.letters.copying import ReplayMode, copy_recorded, select_copies
from kstorm.operations.letters.discarding import check_discardable, discard_all, when_deleted
from kstorm.operations.letters.reading import MOST_NUMBERS, now_ms, numbers_of, read_letters, select
from kstorm.operations.letters.replaying import replayable, request_replays
from kstorm.operations.letters.selection import (
    FINGERPRINT_DIGITS,
    CurrentLetters,
    LetterSelection,
    NumberedLetter,
)
from kstorm.runtime.base.terminal import Screen

OfGroup = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="HEX", help="Only letters of this group. The first digits are enough."
    ),
]


_CANARY: Final = (
    "With --all and --group: replay 1 first, then 10, then the rest. Stop if more than 20 % "
    "fail again."
)


@with_options(TopologyOptions)
def discard(
    options: TopologyOptions,
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="NUMBER…", help="Numbers of the letters.")
    ] = None,
    group: OfGroup = None,
    note: Note = "",
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the letters.")] = False,
    json: Json = False,
) -> None:
    """Discard letters. Commands stop listing them, and Kafka deletes their contents."""
    if bool(numbers) == bool(group):
        raise ConfigError("which letters? Give their numbers, or --group")
    wanted = numbers or []
    if options.is_far:
        _far(
            options,
            "discard",
            {"group": group, "note": note or None, "json": json},
            wanted,
            yes=yes,
            dry_run=dry_run,
        )
    found = read_letters(options.settings, options.name)
    letters = select(found, selection_of(wanted, group))
    _check_discardable(options, found, letters, wanted, group)
    with prose_on_stderr(json):
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
    print_outcome(options.name, f"{action.outcome}{afterwards}", json=json)


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
    note: Note = "",
    yes: Yes = False,
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
    json: Json = False,
) -> None:
    """Replay the messages of dead letters through their spouts, at the messages' own coordinates.

    A letter is discarded once its message has been processed. With exactly-once processing, it is
    discarded when the spout has emitted the message.
    """
    if bool(numbers) + bool(group) + every != 1:
        raise ConfigError("which letters? Give their numbers, --group or --all")
    if to is not None and mode is ReplayMode.ORDER:
        raise ConfigError("--to is for copies: give --mode produce too")
    wanted = numbers or []
    if options.is_far:
        given: dict[str, Option] = {"group": group, "all": every, "limit": limit, "rate": rate}
        given |= {"note": note or None, "force": force, "no-canary": not canary, "json": json}
        given |= {"mode": mode.value if mode is ReplayMode.PRODUCE else None, "to": to}
        _far(options, "replay", given, wanted, yes=yes, dry_run=dry_run)
    found = read_letters(options.settings, options.name)
    selected = select(found, selection_of(wanted, group))
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
    with prose_on_stderr(json):
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
            report=partial(print_outcome, options.name, json=json),
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
    said = (
        action.outcome if json else f"{action.outcome}: `kstorm events` shows the outcome of each"
    )
    print_outcome(options.name, said, json=json)


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
        out = sys.stderr if given.get("json") else None
        code = run_remotely(options, f"dlq {verb}", {**given, "dry-run": True}, numbers, out=out)
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


def selection_of(
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


def select_valid(found: CurrentLetters, selection: LetterSelection) -> list[NumberedLetter]:
    if found.strange:
        print(
            f"kstorm: left out {counted(found.strange, 'invalid record')} of the dead-letter topic",
            file=sys.stderr,
        )
    return select(found, selection)
