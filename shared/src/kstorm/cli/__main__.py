"""Entry point of `kstorm`.

A command's modules are imported when the command is started, because loading all of them takes
longer than most commands. docs/guides/control.md lists the exit codes.
"""

import importlib
import logging
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

import typer

from kstorm.errors import KstormError
from kstorm.printable import guarded

_OPERATIONS: Final = logging.getLogger("kstorm.operations")

GROUPS: Final = ("topology", "offsets", "dlq", "state", "migrate")
"""Commands with subcommands. Their modules have an `app`."""
COMMANDS: Final = {
    "status": "status",
    "values": "values",
    "flux-schema": "flux_schema",
    "prepare": "prepare",
    "probe": "probe",
    "produce": "produce",
    "consume": "consume",
    "scale": "rollout",
    "restart": "rollout",
    "logs": "pod_logs",
    "ui": "ui",
    "activate": "activate",
    "deactivate": "activate",
    "drain": "activate",
    "kill": "kill",
    "trace": "trace",
    "export-traces": "export_traces",
    "why": "why",
    "causes": "causes",
    "events": "events",
}
"""The module of each command. Its function has the command's name."""
HIDDEN: Final = {"forget": "activate", "lag": "causes", "note": "events"}
"""Commands that other commands start in pods."""


class _Messages(logging.Handler):
    """Prints messages of `kstorm.operations` on `sys.stderr`, as it is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"kstorm: {record.getMessage()}", file=sys.stderr, flush=True)


_MESSAGES: Final = _Messages()


def build(names: Iterable[str]) -> typer.Typer:
    """Return the command line with these commands."""
    app = typer.Typer(
        name="kstorm",
        help="Manage kstorm's topologies.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_group)
    for name in names:
        if name in GROUPS:
            app.add_typer(_load(name).app, name=name)
        else:
            module = _load(COMMANDS.get(name) or HIDDEN[name])
            function = getattr(module, name.replace("-", "_"))
            app.command(name, hidden=name in HIDDEN)(function)
    return app


def __getattr__(name: str) -> Any:
    """`app` is the command line with all commands."""
    if name == "app":
        return build([*GROUPS, *COMMANDS, *HIDDEN])
    raise AttributeError(name)


def _load(module: str) -> Any:
    return importlib.import_module(f"kstorm.cli.{module}")


def _group() -> None:
    """Manage kstorm's topologies."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command with `arguments`, by default the process's own."""
    # The command prints each error once. Discard the log messages of clients about it.
    logging.getLogger().addHandler(logging.NullHandler())
    _OPERATIONS.addHandler(_MESSAGES)
    _OPERATIONS.setLevel(logging.INFO)
    warnings.simplefilter("ignore")
    with guarded():
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> NoReturn:
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        known = words and words[0] in {*GROUPS, *COMMANDS, *HIDDEN}
        names = words[:1] if known else [*GROUPS, *COMMANDS, *HIDDEN]
        build(names)(words, prog_name="kstorm")
    except KstormError as error:
        for line in str(error).split("\n"):
            print(f"kstorm: {line}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
