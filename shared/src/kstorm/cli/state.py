"""`kstorm state get|scan`: read the state of a running topology's bolts.

kstorm state get wordcount count the
kstorm state get wordcount count the --follow
kstorm state scan wordcount count --prefix th --namespace streams
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from kstorm.cli.json_output import JsonLines
from kstorm.cli.options import with_options
from kstorm.cli.place_options import RunOptions, name_of
from kstorm.cli.target_options import Name
from kstorm.errors import ConfigError
from kstorm.introspection.state_query import StateEntry
from kstorm.operations.formatting import utc_clock
from kstorm.operations.state.state_client import StateClient
from kstorm.printable import printable
from kstorm.runtime.base.settings import with_or_without_topology
from kstorm.runtime.base.terminal import Screen

app = typer.Typer(help="Read the state of a running topology's bolts.", no_args_is_help=True)

_Component = Annotated[
    str, typer.Argument(metavar="COMPONENT", help="A stateful bolt.", show_default=False)
]
_Every = Annotated[
    float, typer.Option(min=0.05, metavar="SECONDS", help="With --follow: seconds between queries.")
]


@dataclass(frozen=True, kw_only=True)
class StateOptions(RunOptions):
    """Options for the place of the topology and the credentials."""

    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the services' token. Default: KSTORM_STATE_TOKEN_FILE."
        ),
    ] = None

    def connect(self, name: str) -> StateClient:
        token = None
        if self.token_file is not None:
            token = with_or_without_topology(
                {"KSTORM_STATE_TOKEN_FILE": str(self.token_file)}
            ).state_token
        return StateClient(
            name_of(name),
            runs=self.runs,
            namespace=self.namespace,
            context=self.context,
            token=token,
        )


@app.command()
@with_options(StateOptions)
def get(
    options: StateOptions,
    name: Name,
    component: _Component,
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="The key, as the bolt stores it.", show_default=False),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Values of the input's grouping fields, as a JSON list. Default: the key.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print it again whenever it changes, until Ctrl-C.")
    ] = False,
    every: _Every = 0.5,
    json: JsonLines = False,
) -> None:
    """Show a key's value at the last checkpoint. Exit with code 1 if the key does not exist."""
    client, values = options.connect(name), None if by is None else _values(by)
    if follow:
        _follow(client, client.follow(component, key, by=values, every=every), json)
        return
    looked = client.look(component, key, by=values)
    found = [each for each in looked if each.there]
    if not found:
        _say_missing(client, component, key, looked)
        raise typer.Exit(1)
    _show(client, found, json)


@app.command()
@with_options(StateOptions)
def scan(
    options: StateOptions,
    name: Name,
    component: _Component,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Only keys with this prefix.")] = "",
    limit: Annotated[
        int, typer.Option(min=1, metavar="KEYS", help="Print at most this many.")
    ] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", help="Then print each change on a line, until Ctrl-C.")
    ] = False,
    every: _Every = 0.5,
    json: JsonLines = False,
) -> None:
    """Show keys and values task by task. Each task's keys are in order."""
    client = options.connect(name)
    if follow:
        _follow_all(client, client.follow_all(component, prefix, limit=limit, every=every), json)
        return
    _show(client, client.scan(component, prefix, limit=limit), json)


def _say_missing(
    client: StateClient, component: str, key: str, looked: Sequence[StateEntry]
) -> None:
    missing = (
        f"{client.name_of(looked[0].task)} has no key"
        if len(looked) == 1
        else f"no task of {component} has the key"
    )
    oldest = min(each.as_of.time for each in looked)
    print(
        printable(f"kstorm: {missing} {key!r}, as of {utc_clock(oldest * 1000)}"), file=sys.stderr
    )


def _show(client: StateClient, found: Iterable[StateEntry], json: bool) -> None:
    if json:
        for each in found:
            _print_json(each)
        return
    table = Table("key", "value", "task", "as of", box=None, header_style="bold", pad_edge=False)
    for each in found:
        table.add_row(each.key, _text(each), client.name_of(each.task), _as_of(each))
    _screen().print(table if table.row_count else "no such key")


def _follow(client: StateClient, changes: Iterable[Sequence[StateEntry]], json: bool) -> None:
    try:
        for found in changes:
            if json:
                print(printable(msgspec.json.encode(found).decode()), flush=True)
                continue
            now = datetime.now(UTC).strftime("%H:%M:%S")
            said = [
                f"{_text(each)}  ({client.name_of(each.task)}, {_as_of(each)})" for each in found
            ]
            print(printable(f"{now}  {'; '.join(said) or 'no such key'}"), flush=True)
    except KeyboardInterrupt:
        return


def _follow_all(client: StateClient, changes: Iterable[Sequence[StateEntry]], json: bool) -> None:
    try:
        for each in (found for changed in changes for found in changed):
            if json:
                _print_json(each)
                continue
            now = datetime.now(UTC).strftime("%H:%M:%S")
            value = _text(each) if each.there else "no such key"
            print(
                printable(
                    f"{now}  {each.key}  {value}  ({client.name_of(each.task)}, {_as_of(each)})"
                ),
                flush=True,
            )
    except KeyboardInterrupt:
        return


def _print_json(found: StateEntry) -> None:
    print(printable(msgspec.json.encode(found).decode()), flush=True)


def _text(found: StateEntry) -> str:
    value = found.read()
    return (
        value
        if isinstance(value, str)
        else repr(value)
        if found.msgpack
        else msgspec.json.encode(value).decode()
    )


def _as_of(found: StateEntry) -> str:
    return f"offset {found.as_of.offset:,}, {utc_clock(found.as_of.time * 1000)}"


def _screen() -> Screen:
    return Screen(markup=False, emoji=False, highlight=False)


def _values(text: str) -> list[Any]:
    try:
        return msgspec.json.decode(text, type=list[Any])
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise ConfigError(f"--by {text}: give a JSON list, such as '[\"the\", 2]'") from None
