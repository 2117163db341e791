"""`kstorm dlq edit`: replay a dead letter's message with another value.

The editor runs on the operator's machine. The scheme that checks the value runs where the
topology's code is: here or in a pod. A pod gets the value on standard input, because every user of
the pod's node may read its command lines.
"""

import base64
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kstorm.cli.json_output import Json, print_outcome, prose_on_stderr
from kstorm.cli.options import with_options
from kstorm.cli.place_options import Option, TopologyOptions, code_of, run_remotely
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.events.audit_log import recorded
from kstorm.operations.events.operator_identity import operator
from kstorm.operations.letters.editing import check_changed, check_replayable, spout_of, tuples_of
from kstorm.operations.letters.reading import read_one
from kstorm.operations.letters.replaying import request_edited_replay
from kstorm.printable import printable

if TYPE_CHECKING:
    from kstorm.kafka import KafkaSpout
    from kstorm.kafka.scheme import Values

Number = Annotated[
    int, typer.Argument(metavar="NUMBER", min=0, help="Number of the letter.", show_default=False)
]
Note = Annotated[
    str, typer.Option(metavar="TEXT", help="The reason. It is recorded in the topology's events.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
_EDITORS: Final = ("VISUAL", "EDITOR")
_MOST_BYTES: Final = 1_000_000


@with_options(TopologyOptions)
def edit(
    options: TopologyOptions,
    number: Number,
    value: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The new value. Default: edit the old one in $EDITOR."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the new value.", exists=True)
    ] = None,
    stdin: Annotated[int | None, typer.Option(min=0, max=_MOST_BYTES, hidden=True)] = None,
    note: Note = "",
    yes: Yes = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also replay a message that was replayed three times.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only print the tuples that the scheme makes from the new value."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Replay a letter's message through its spout with another value, at the message's own
    coordinates.

    The scheme must be able to read the value.
    """
    if sum(each is not None for each in (value, file, stdin)) > 1:
        raise ConfigError("give the new value with --value or --file, or neither to use an editor")
    given = _given(value, file, stdin)
    if options.is_far:
        _run_remotely(
            options,
            number,
            given,
            {"note": note or None, "force": force, "json": json},
            yes=yes,
            dry_run=dry_run,
        )
    topology = code_of(options, "its scheme must check the new value")
    one = read_one(options.settings, options.name, number)
    spout = spout_of(topology, one)
    check_replayable(options.settings, options.name, one, force=force)
    new = _edited(one.letter.value or b"") if given is None else given
    check_changed(one, new)
    tuples = tuples_of(spout, one, new)
    if dry_run or not yes:
        with prose_on_stderr(json):
            _show(spout, tuples)
    if dry_run:
        return
    if not yes:
        confirm("edit", options.name, 1)
    with recorded(options.name, "edit", f"{number}", said=note, settings=options.settings) as event:
        event.outcome = request_edited_replay(
            options.settings, options.name, one, new, who=operator(), note=note
        )
    said = event.outcome if json else f"{event.outcome}: `kstorm events` shows the outcome"
    print_outcome(options.name, said, json=json)


def confirm(verb: str, name: str, count: int | None = None) -> None:
    """Ask for confirmation, and exit with code 1 if the user declines.

    Raises `ControlError` if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise ControlError(
            f"there is no terminal to ask whether to {verb} dead letters of {name!r}, and nothing "
            "was changed: give --yes to confirm"
        )
    which = (
        "this dead letter"
        if count == 1
        else f"these{'' if count is None else f' {count:,}'} dead letters"
    )
    if not typer.confirm(f"{verb.capitalize()} {which} of {name}?"):
        print("nothing was changed")
        raise typer.Exit(1)


def _given(value: str | None, file: Path | None, stdin: int | None) -> bytes | None:
    if value is not None:
        return value.encode(errors="surrogateescape")
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            raise ConfigError(f"--file {file}: {error.strerror}") from None
    if stdin is None:
        return None
    found = sys.stdin.buffer.read(stdin)
    if len(found) < stdin:
        raise ControlError(
            f"only {len(found)} of the new value's {stdin} bytes arrived, and no replay was "
            "requested"
        )
    return found


def _run_remotely(
    options: TopologyOptions,
    number: int,
    value: bytes | None,
    given: Mapping[str, Option],
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Run the command in a pod, but run the editor and ask for confirmation here.

    Exits with the command's code.
    """
    if value is None:
        shown = io.StringIO()
        if code := run_remotely(options, "dlq show", {"raw": True}, [number], out=shown):
            raise typer.Exit(code)
        value = _edited(base64.b64decode(json.loads(shown.getvalue()).get("value") or ""))
    if len(value) > _MOST_BYTES:
        raise ControlError(
            f"the new value has {len(value):,} bytes, but a replay request takes at most "
            f"{_MOST_BYTES:,}"
        )
    given = {**given, "stdin": len(value)}
    if not yes or dry_run:
        code = run_remotely(
            options, "dlq edit", {**given, "dry-run": True}, [number], content=value
        )
        if code or dry_run:
            raise typer.Exit(code or 0)
        confirm("edit", options.name, 1)
    raise typer.Exit(
        run_remotely(options, "dlq edit", {**given, "yes": True}, [number], content=value) or 0
    )


def _edited(old: bytes) -> bytes:
    """Return the value as changed in an editor.

    If the old value had no final newline, one that the editor appends is removed.
    """
    editor = next((found for name in _EDITORS if (found := os.environ.get(name))), None)
    if editor is None:
        raise ConfigError(
            "EDITOR is not set: set it to your editor, or give the new value with --value or --file"
        )
    # The folder is readable by its owner only.
    with TemporaryDirectory(prefix="kstorm-") as folder:
        path = Path(folder, "value")
        path.write_bytes(old)
        try:
            code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
            new = path.read_bytes()
        except (OSError, ValueError) as error:
            raise ConfigError(f"the editor {editor!r} cannot be used: {error}") from None
    if code:
        raise ControlError(
            f"the editor {editor!r} exited with code {code}, and no replay was requested"
        )
    return new.removesuffix(b"\n") if not old.endswith(b"\n") else new


def _show(spout: "KafkaSpout", tuples: "Sequence[Values]") -> None:
    names = spout.spout_config.scheme.output_fields.names
    if not tuples:
        print(
            "no tuple: the scheme finds nothing to process in this value, so the letter will be "
            "discarded"
        )
    for values in tuples:
        print(
            printable(
                ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))
            )
        )
