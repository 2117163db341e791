"""A server that Go has built, as a child process of a test."""

import time
from typing import Final, Self
from urllib.request import urlopen

from kstorm.dev.processes import ManagedProcess
from kstorm.errors import LocalError

_START_SECS: Final = 60.0


class GoServer:
    """Runs the server as a context manager.

    Raises `LocalError` with the end of its log if it does not start.
    """

    def __init__(self, process: ManagedProcess, health: str) -> None:
        """`health`: a URL that responds once the server is ready."""
        self.process, self._health = process, health

    def __enter__(self) -> Self:
        self.process.start()
        deadline = time.monotonic() + _START_SECS
        while not self._serves():
            if not self.process.alive or time.monotonic() > deadline:
                raise LocalError(
                    f"{self.process.name} does not serve; its log ends with:\n{self.process.log_tail()}"
                )
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def _serves(self) -> bool:
        try:
            with urlopen(self._health, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
