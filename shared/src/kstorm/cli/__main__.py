"""Entry point of `kstorm`.

A user error prints one line per mistake and exits with code 2. A timeout exits with code 3.
"""

import logging
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

import typer

from kstorm.cli import activation, dlq, offsets, state, topology
from kstorm.cli.causes import causes
from kstorm.cli.consume import consume
from kstorm.cli.events import events
from kstorm.cli.export_traces import export_traces
from kstorm.cli.flux_schema import flux_schema
from kstorm.cli.kill import kill
from kstorm.cli.lag import lag
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
from kstorm.operations.events.remote_audit_log import record_event_here
from kstorm.operations.kubernetes.pod_command import OVERDUE
from kstorm.runtime.base.terminal import guarded

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
    """Run the command, by default with the process's arguments."""
    # Each error is printed once, by the command. Drop what clients log about it.
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    with guarded():
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> NoReturn:
    try:
        app(arguments, prog_name="kstorm")
    except KstormError as error:
        for line in str(error).split("\n"):
            print(f"kstorm: {line}", file=sys.stderr)
        raise SystemExit(OVERDUE if isinstance(error, OverdueError) else 2) from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
