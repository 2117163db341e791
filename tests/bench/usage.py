"""Measures processes from outside: CPU seconds and memory, including child processes."""

import threading
import time
from typing import Final, Self

from kstorm.dev.processes import ManagedProcess
from tests.bench.figures import Growth

_SAMPLE_SECS: Final = 0.25


class Usage(threading.Thread):
    """Samples one process and its descendants four times per second. A context manager."""

    def __init__(self, process: ManagedProcess) -> None:
        super().__init__(name=f"kstorm-bench-usage-{process.name}", daemon=True)
        self.cpu_seconds = Growth()
        """CPU seconds used, by the time of day in seconds since 1970."""
        self.peak_rss = 0
        """The highest resident memory in bytes, summed over the processes."""
        self._process = process
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.is_set():
            self._sample()
            self._ended.wait(_SAMPLE_SECS)
        self._sample()

    def _sample(self) -> None:
        self.cpu_seconds.add(time.time(), self._process.cpu_seconds())
        self.peak_rss = max(self.peak_rss, self._process.rss())
