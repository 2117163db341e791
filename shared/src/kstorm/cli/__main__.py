"""The entry point of `kstorm`. A user's mistake ends in one line and exit code 2."""

import logging
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from kstorm.cli import offsets
from kstorm.cli.prepare import prepare
from kstorm.cli.probe import probe
from kstorm.cli.values import values
from kstorm.errors import KstormError

app = typer.Typer(
    name="kstorm",
    help="Looks after kstorm's topologies.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(offsets.app, name="offsets")
for verb in (values, prepare, probe):
    app.command()(verb)


@app.callback()
def _group() -> None:
    """Looks after kstorm's topologies."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command; by default with the process's arguments."""
    logging.getLogger().addHandler(logging.NullHandler())  # what clients complain of is told by errors, once
    try:
        app(arguments, prog_name="kstorm")
    except KstormError as error:
        print(f"kstorm: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
