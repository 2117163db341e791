"""Show the stage in which sentences flow: as a table on a terminal, otherwise as the line of the
stage."""

import logging
from collections.abc import Sequence
from typing import Any, Final, Self

from rich.console import Console
from rich.text import Text

from kstorm.dev.live_view import LiveView, plain_line
from kstorm.dev.progress_watch import ProgressSnapshot
from kstorm.dev.stage_progress import StageProgress

_log: Final = logging.getLogger(__name__)


class SentencesView:
    """A context manager around the stage; `goal` is the number of trees."""

    def __init__(self, console: Console, goal: int) -> None:
        self._console, self._goal = console, goal
        self._line = StageProgress("sentences", console.file)
        self._table = LiveView(console, goal) if console.is_terminal else None

    def show(self, snapshot: ProgressSnapshot, notes: Sequence[str]) -> None:
        """Show the current state. `notes` are short texts about it."""
        _log.info("%s", " · ".join([plain_line(snapshot, self._goal), *notes]))
        if self._table is not None:
            self._table.show(snapshot, notes)
        else:
            count = (
                f"{snapshot.acked:,} of {self._goal:,}, {snapshot.acked_per_second:,.0f} a second"
            )
            self._line.show(snapshot.acked / self._goal, " · ".join([count, *notes]))

    def say(self, text: str) -> None:
        """Print a line above the table, or between the lines."""
        _log.info("%s", text)
        self._console.print(Text(f"  {text}", style="bold yellow"), soft_wrap=True)

    def __enter__(self) -> Self:
        if self._table is not None:
            self._table.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._table is not None:
            self._table.__exit__(*raised)
        if raised[0] is None:
            self._line.end(f"{self._goal:,} of {self._goal:,}")
