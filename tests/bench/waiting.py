"""Waits for a contestant's counts, and detects if it dies or stops making progress."""

import threading
import time
from typing import Final

from kstorm.dev.processes import ManagedProcess
from kstorm.errors import LocalError
from tests.bench.broker import Broker
from tests.bench.progress import Progress

_LOOK_SECS: Final = 0.25
_START_SECS: Final = 180.0
_SILENCE_SECS: Final = 60.0
_QUIET_SECS: Final = 1.0


class Wait:
    """Waits for the counts of one run. Asks the broker four times per second for their number."""

    def __init__(
        self, process: ManagedProcess, broker: Broker, sink: str, progress: Progress
    ) -> None:
        self.ends: dict[int, int] = {}
        """The number of records in each partition of the counts topic at the last poll."""
        self._process, self._broker, self._sink, self._progress = process, broker, sink, progress
        self._tick = threading.Event()  # never set

    def for_first(self) -> None:
        """Wait for the first count. Raises `LocalError` after three minutes or at an exit."""
        deadline = time.monotonic() + _START_SECS
        while not self._look():
            if time.monotonic() > deadline:
                raise LocalError(
                    f"{self._process.name} wrote nothing within {_START_SECS:g} s: see its log {self._process.log_path}"
                )
            self._progress.status(f"{self._process.name}: waiting for its first count")
            self._tick.wait(_LOOK_SECS)

    def for_records(self, wanted: int, deadline: float | None) -> bool:
        """Wait for `wanted` counts. False if there was no new one for a minute, or at the deadline.

        `deadline` is a value of `time.monotonic`. Raises `LocalError` if the contestant exits.
        """
        records, changed = 0, time.monotonic()
        while (found := self._look()) < wanted:
            now = time.monotonic()
            if found != records:
                records, changed = found, now
            if now - changed > _SILENCE_SECS or (deadline is not None and now > deadline):
                return False
            self._progress.status(f"{self._process.name}: {found:,} of {wanted:,} counts")
            self._tick.wait(_LOOK_SECS)
        return True

    def for_quiet(self) -> None:
        """Wait for a second without a new count. Raises `LocalError` if the contestant exits."""
        records, changed = self._look(), time.monotonic()
        while time.monotonic() - changed < _QUIET_SECS:
            self._progress.status(f"{self._process.name}: {records:,} counts")
            self._tick.wait(_LOOK_SECS)
            if (found := self._look()) != records:
                records, changed = found, time.monotonic()

    def _look(self) -> int:
        if not self._process.alive:
            raise LocalError(
                f"{self._process.name} ended by itself with exit code {self._process.returncode}:"
                f" see its log {self._process.log_path}"
            )
        self.ends = self._broker.ends(self._sink)
        return sum(self.ends.values())
