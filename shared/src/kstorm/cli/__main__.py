"""Entry point of `kstorm`.

A user error prints one line per mistake and exits with code 2. A timeout exits with code 3.
"""

import logging
import sys
import warnings
from collections.abc import Sequence
from typing import Final, NoReturn

import typer

from kstorm.cli import activation, dlq, offsets, state, topology
from kstorm.cli.causes import causes, lag
from kstorm.cli.consume import consume
from kstorm.cli.events import events, record_event_here
from kstorm.cli.export_traces import export_traces
from kstorm.cli.flux_schema import flux_schema
from kstorm.cli.kill import kill
from kstorm.cli.pod_logs import logs
from kstorm.cli.prepare import prepare
from kstorm.cli.probe import probe
from kstorm.cli.produce import produce
from kstorm.cli.rollout import restart, scale
from kstorm.cli.trace import trace
from kstorm.cli.ui import ui
from kstorm.cli.values import values
from kstorm.cli.why import why
from kstorm.errors import KstormError, OverdueError
from kstorm.operations.kubernetes.pod_command import OVERDUE, CommandInterruptedError
from kstorm.runtime.base.terminal import guarded

_INTERRUPTED: Final = 130
_OPERATIONS: Final = logging.getLogger("kstorm.operations")


class _Messages(logging.Handler):
    """Prints messages of `kstorm.operations` on `sys.stderr`, as it is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"kstorm: {record.getMessage()}", file=sys.stderr, flush=True)


_MESSAGES: Final = _Messages()

app = typer.Typer(
    name="kstorm",
    help="Manage kstorm's topologies.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(topology.app, name="topology")
app.add_typer(offsets.app, name="offsets")
app.add_typer(dlq.app, name="dlq")
app.add_typer(state.app, name="state")
for verb in (
    values,
    flux_schema,
    prepare,
    probe,
    produce,
    consume,
    scale,
    restart,
    logs,
    ui,
    activation.activate,
    activation.deactivate,
    activation.drain,
    kill,
    trace,
    export_traces,
    why,
    causes,
    events,
):
    app.command()(verb)
app.command(hidden=True)(activation.forget)
app.command(hidden=True)(lag)
app.command("note", hidden=True)(record_event_here)


@app.callback()
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
        app(arguments, prog_name="kstorm")
    except KstormError as error:
        for line in str(error).split("\n"):
            print(f"kstorm: {line}", file=sys.stderr)
        raise SystemExit(_exit_code(error)) from None
    raise SystemExit(0)


def _exit_code(error: KstormError) -> int:
    match error:
        case OverdueError():
            return OVERDUE
        case CommandInterruptedError():
            return _INTERRUPTED
    return 2


if __name__ == "__main__":
    main()
