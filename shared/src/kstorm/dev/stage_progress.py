"""Show one line for each stage of a command, with its name, its progress and its duration.

On a terminal the line is updated in place. Elsewhere, for example in a CI log, a line is printed
every ten seconds and at the end. The set-up uses this module before any package is installed, so it
imports only the standard library.
"""

import shutil
import sys
import time
from typing import IO, Final, Self

from kstorm.printable import printable

_BAR: Final = 20
_REDRAW_SECS: Final = 0.1
_LINE_SECS: Final = 10.0


class StageProgress:
    """The line of one stage, as a context manager. If its block raises an error, the line remains
    unfinished."""

    def __init__(self, stage: str, out: IO[str] | None = None) -> None:
        self._stage = stage
        self._out: IO[str] = out or sys.stderr
        self._live = self._out.isatty()
        self._encoding = getattr(self._out, "encoding", None) or "utf-8"
        self._began = time.monotonic()
        self._next = self._began if self._live else self._began + _LINE_SECS
        self._share, self._note = 0.0, ""
        self._closed = False

    @property
    def seconds(self) -> float:
        """The seconds since the stage began."""
        return time.monotonic() - self._began

    def show(self, share: float | None = None, note: str | None = None) -> None:
        """Show the progress of the stage. `share` is from 0 to 1 and never decreases. Without
        arguments, only the duration is updated."""
        if share is not None:
            self._share = max(self._share, min(share, 1.0))
        if note is not None:
            self._note = note
        now = time.monotonic()
        if now >= self._next and not self._closed:
            self._next = now + (_REDRAW_SECS if self._live else _LINE_SECS)
            self._draw()

    def say(self, text: str) -> None:
        """Print a line above the line of the stage."""
        self._erase()
        print(printable(text), file=self._out, flush=True)
        if self._live and not self._closed:
            self._draw()

    def end(self, note: str = "") -> None:
        """Print the final, complete line."""
        if not self._closed:
            self._share, self._note = 1.0, note
            self._draw()
            self._close()

    def __enter__(self) -> Self:
        if self._live:
            self.show()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.end()
        elif not self._closed:
            self._draw()
            self._close()

    def _draw(self) -> None:
        done = int(self._share * _BAR)
        full, empty = ("█", "░") if "utf" in str(self._encoding).lower() else ("#", "-")
        bar = f"{full * done}{empty * (_BAR - done)}  " if self._live else ""
        text = f"{self._stage:<10} {bar}{self._share:4.0%}  {self.seconds:4.0f} s  {self._note}"
        text = printable(text).rstrip()
        if self._live:
            self._erase()
            width = shutil.get_terminal_size().columns
            print(text[: width - 1], end="", file=self._out, flush=True)
        else:
            print(text, file=self._out, flush=True)

    def _erase(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=self._out)

    def _close(self) -> None:
        self._closed = True
        if self._live:
            print(file=self._out, flush=True)
