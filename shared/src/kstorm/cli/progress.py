"""Show the progress of a long read on stderr: in place on a terminal, otherwise line by line."""

import time
from typing import Final, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from kstorm.printable import printable

_QUIET_SECS: Final = 2.0
"""Time before progress is first shown."""
_LINE_SECS: Final = 5.0


class ReadProgress:
    """A context manager. On a terminal the progress disappears at the end."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status: Status | None = None
        self._next = time.monotonic() + _QUIET_SECS

    def tell(self, said: str) -> None:
        """Show new progress. Without a terminal, print at most one line every 5 s."""
        if time.monotonic() < self._next:
            return
        if not self._console.is_terminal:
            self._next = time.monotonic() + _LINE_SECS
            self._console.print(f"kstorm: {said}", markup=False, highlight=False, soft_wrap=True)
            return
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(Text(printable(said)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
