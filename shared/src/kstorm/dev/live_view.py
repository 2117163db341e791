"""Show a running topology: a table that is redrawn on a terminal, otherwise a line every two
seconds."""

import time
from collections.abc import Sequence
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kstorm.dev.progress_watch import ComponentProgress, ProgressSnapshot
from kstorm.runtime.service.status_counters import format_error, format_seconds

_LINE_SECS: Final = 2.0


class LiveView:
    """A context manager. `goal` is the number of trees that fills the progress bar. None for no
    bar.

    Other output to `console` appears above the table.
    """

    def __init__(self, console: Console, goal: int | None = None) -> None:
        self._console, self._goal = console, goal
        self._started = time.monotonic()
        self._next_line = 0.0
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: ProgressSnapshot, notes: Sequence[str] = ()) -> None:
        """Show the current state. `notes` are lines below the table."""
        now = time.monotonic()
        if self._live is not None:
            self._live.update(
                render(snapshot, self._goal, now - self._started, notes), refresh=True
            )
        elif now >= self._next_line:
            self._next_line = now + _LINE_SECS
            line = " · ".join([plain_line(snapshot, self._goal), *notes])
            self._console.print(line, soft_wrap=True, highlight=False, markup=False)


def render(
    snapshot: ProgressSnapshot, goal: int | None, seconds: float, notes: Sequence[str]
) -> RenderableType:
    """Return the table, the progress bar and the notes."""
    parts: list[RenderableType] = [_table(snapshot)]
    line = Table.grid(padding=(0, 2))
    cells: list[RenderableType] = [f"{seconds:.0f} s"]
    if goal is not None:
        cells += [
            ProgressBar(total=goal, completed=min(snapshot.acked, goal), width=40),
            f"of {goal:,} trees",
        ]
    cells += [f"{snapshot.acked:,} complete", f"{snapshot.acked_per_second:,.0f} a second"]
    line.add_row(*cells)
    parts.append(line)
    if snapshot.down:
        parts.append(Text(f"not there or not ready: {', '.join(snapshot.down)}", style="bold red"))
    parts += [Text(line, style="red") for line in _errors(snapshot)]
    parts += [Text(note, style="yellow") for note in notes]
    return Group(*parts)


def plain_line(snapshot: ProgressSnapshot, goal: int | None) -> str:
    """Return the same content as one line, without the table's columns."""
    spouts = snapshot.spouts
    parts = [f"acked {snapshot.acked:,}" + ("" if goal is None else f" of {goal:,}")]
    parts.append(f"{snapshot.acked_per_second:,.0f}/s")
    parts.append(f"in flight {sum(spout.total.pending for spout in spouts):,}")
    parts.append(f"failed {snapshot.failed:,}")
    for spout in spouts:
        low, high = (_latency(spout, share) for share in (0.5, 0.99))
        parts.append(f"{spout.component} p50 {low} p99 {high}")
    parts += [
        f"{state.component} executed {state.total.executed:,}"
        for state in snapshot.components
        if not _own(state)
    ]
    parts += [
        f"open trees {state.total.pending:,}"
        for state in snapshot.components
        if state.kind == "acker"
    ]
    if snapshot.down:
        parts.append(f"not ready: {', '.join(snapshot.down)}")
    parts += _errors(snapshot)
    return " · ".join(parts)


def _own(state: ComponentProgress) -> bool:
    return state.kind in ("spout", "acker")


def _errors(snapshot: ProgressSnapshot) -> list[str]:
    return [
        f"{state.component}: {format_error(state.last_error, state.last_error_age)}"
        for state in snapshot.components
        if state.last_error
    ]


def _table(snapshot: ProgressSnapshot) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)  # fits into 80 columns
    table.add_column("component", no_wrap=True)
    table.add_column("up", no_wrap=True)
    for name in ("emitted", "executed", "acked", "failed", "pending", "p50", "p99", "frames"):
        table.add_column(name, justify="right", no_wrap=True)
    for state in snapshot.components:
        total = state.total
        table.add_row(
            Text(state.component),
            f"{state.ready}/{state.processes}",
            *(f"{count:,}" for count in (total.emitted, total.executed, total.acked)),
            Text(f"{total.failed:,}", style="red" if total.failed else ""),
            f"{total.pending:,}",
            _latency(state, 0.5),
            _latency(state, 0.99),
            f"{total.frames_in:,}",
        )
    return table


def _latency(state: ComponentProgress, share: float) -> str:
    """Return a latency quantile of the last seconds."""
    seconds = state.recent.latency(share)
    return "–" if seconds is None else format_seconds(seconds)
