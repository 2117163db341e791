"""Wait for a condition, and show the current state while waiting.

A terminal is updated in place. On any other output, a line is printed every two seconds.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from rich.console import Console
from rich.status import Status
from rich.text import Text

from kstorm.operations.control.activation import LOOK_SECS, Wait
from kstorm.printable import printable
from kstorm.runtime.base.terminal import Screen

_LINE_SECS: Final = 2.0


def wait_until(look: Callable[[], str], timeout: float, console: Console) -> str:
    """Poll `look` until it returns "" or `timeout` seconds have passed. Return the last result."""
    deadline = time.monotonic() + timeout
    with _StatusLine(console) as line:
        while (left := look()) and time.monotonic() < deadline:
            line.say(left)
            time.sleep(LOOK_SECS)
    return left


def on_screen(*, json: bool = False) -> Wait:
    """Return `wait_until` for standard output, or with `json` for stderr."""
    return partial(wait_until, console=Screen(stderr=json))


class _StatusLine:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._next = time.monotonic() + _LINE_SECS

    def say(self, text: str) -> None:
        if self._console.is_terminal:
            self._show(text)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECS
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _show(self, text: str) -> None:
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(Text(printable(text)))  # plain text: names are not markup

    def __enter__(self) -> "_StatusLine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
